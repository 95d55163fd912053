"""Zip archives: wrong records, names that lead elsewhere, members that overlap or are bombs."""

from __future__ import annotations

import io
import os
import random
import shutil
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tegula
from tegula import config
from tegula.errors import TegulaError
from tegula.stores.arguments import is_key

from ..arrays import outcome
from ..mutations import HUGE, change_bytes
from ..outcomes import Case, Violation, short
from ..seeds import own_archives

__all__ = ["Archives"]

_NAMES = (
    "../x", "..", ".", "", "/x", "/", "a//b", "a/../b", "a\\b", "..\\x", "C:\\x", "C:x", "zarr.json", "zarr.json\0x",
    "c/0/0", "\0", "é", "x" * 300, ".tegula-x", "CON", "a/", "//x", "\u202e", "~", "a/./b",
)  # fmt: skip
_METHODS = (0, 1, 6, 8, 9, 12, 14, 93, 95, 98, 99, 65535)
_MOST = 40
_FIELDS = {  # offset and width of the numbers in each record
    b"PK\1\2": [
        (4, 2),
        (6, 2),
        (8, 2),
        (10, 2),
        (16, 4),
        (20, 4),
        (24, 4),
        (28, 2),
        (30, 2),
        (32, 2),
        (34, 2),
        (42, 4),
    ],
    b"PK\3\4": [(4, 2), (6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)],
    b"PK\5\6": [(4, 2), (6, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)],
    b"PK\6\6": [(4, 8), (12, 2), (16, 4), (24, 8), (32, 8), (40, 8), (48, 8)],
    b"PK\6\7": [(4, 4), (8, 8), (16, 4)],
    b"\1\0": [(2, 2), (4, 8), (12, 8), (20, 8)],
}


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    for kind in _FIELDS:
        at = data.find(kind)
        while at >= 0 and len(kind) == 4:
            yield at, kind
            at = data.find(kind, at + 1)


def _lying(rng: random.Random, data: bytes) -> bytes:
    """Change numbers of records."""
    changed = bytearray(data)
    records = [*_records(data)]
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, kind = rng.choice(records)
        offset, width = rng.choice(_FIELDS[kind])
        others = [place for place, _ in records]
        number = rng.choice(
            (rng.choice(HUGE), rng.choice(_METHODS), rng.choice(others), len(data), rng.randrange(len(data)))
        )
        if rng.random() < 0.3:
            number = int.from_bytes(changed[at + offset : at + offset + width], "little") + rng.choice((-1, 1, 46, -46))
        part = (number % 2 ** (8 * width)).to_bytes(width, "little")
        changed[at + offset : at + offset + width] = part[: max(0, len(changed) - at - offset)]
    return bytes(changed)


def _made(rng: random.Random) -> bytes:
    """Make an archive with forbidden names, some of them twice, and bombs."""
    raw = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(raw, "w", method) as archive:
        names = [rng.choice(_NAMES) for _ in range(rng.randint(1, 5))]
        for name in names:
            info = zipfile.ZipInfo(name.replace("\0", "%") or "x", (2026, 1, 1, 0, 0, 0))
            info.compress_type = method
            info.filename = name
            info.create_system = rng.choice((0, 3))
            info.external_attr = rng.choice((0, 0o120777 << 16, 0o040755 << 16, 0x10))  # a link, a directory
            size = 2 << 20 if rng.random() < 0.02 else rng.randint(0, 50)
            archive.writestr(info, bytes(size))
    data = raw.getvalue()
    return _lying(rng, data) if rng.random() < 0.3 else data


class Archives:
    """A zip archive, opened as a store."""

    name = "archives"

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="tegula-fuzz-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._path = os.path.join(folder, "inside", "x.zip")
        os.mkdir(os.path.dirname(self._path))

    def make(self, rng: random.Random) -> Case:
        """Change an archive of the corpus, or make one."""
        how = rng.random()
        data = rng.choice([*own_archives().values()])
        if how < 0.3:
            data = change_bytes(rng, data)[1]
        elif how < 0.75:
            data = _lying(rng, data)
        else:
            data = _made(rng)
        return {"data": data, "write": rng.random() < 0.15}

    def run(self, case: Case) -> str:
        """Open it, list it, read members and ranges of them; perhaps add one."""
        Path(self._path).write_bytes(case["data"])
        store = tegula.ZipStore(self._path)
        try:
            before = self._read(store, case["data"])
            outcome(lambda: tegula.open(store))
        finally:
            store.close()
        if case["write"]:
            self._write(before)
        return "accepted"

    def _read(self, store: tegula.ZipStore, data: bytes) -> dict[str, Any]:
        found: dict[str, Any] = {}
        keys = [*store.list()][:_MOST]
        for key in keys:
            if not is_key(key):
                raise Violation("key", f"the archive lists {key!r}")
            size, value = store.size(key), outcome(lambda key=key: store.get(key))
            part = outcome(lambda key=key: store.get(key, (1, 3)))
            found[key] = value
            if isinstance(value, TegulaError):
                continue
            if len(value) != size or len(value) > config.current().max_chunk_bytes:
                raise Violation("size", f"{key!r} has {len(value)} bytes, not {size}")
            if not isinstance(part, bytes) or part != value[1:4]:
                raise Violation("inconsistent", f"{key!r}: {short(part)} of {short(value)}")
        store.list_dir(""), store.get("not/there"), store.exists("x")
        self._compare(found, data)
        return found

    def _compare(self, found: dict[str, Any], data: bytes) -> None:
        """Compare with what the standard library reads, where it does."""
        try:
            archive = zipfile.ZipFile(io.BytesIO(data))
        except Exception:
            return
        with archive:
            for key, value in found.items():
                try:
                    info = archive.NameToInfo[key]
                    if info.file_size > 1 << 20 or isinstance(value, TegulaError):
                        continue
                    other = archive.read(info)
                except Exception:
                    continue
                if other != value and zlib.crc32(value) != info.CRC:
                    raise Violation("silent change", f"{key!r} is {short(value)}, but {short(other)} to zipfile")

    def _write(self, before: dict[str, Any]) -> None:
        """Add a member: it is refused, or all others stay as they were."""
        with tegula.ZipStore(self._path, "a") as store:
            store.set("fuzz/new", b"new")
        with tegula.ZipStore(self._path) as store:
            after = {key: outcome(lambda key=key: store.get(key)) for key in before}
            new = store.get("fuzz/new")
        for key, value in before.items():
            if isinstance(value, bytes) and key != "fuzz/new" and after[key] != value:
                raise Violation("write", f"{key!r} is {short(after[key])} after a write, and was {short(value)}")
        if new != b"new":
            raise Violation("write", f"the new member is {short(new)}")
