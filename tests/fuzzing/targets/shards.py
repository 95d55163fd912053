"""Shards with a wrong index whose checksum is right."""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import google_crc32c

from tegula.errors import TegulaError

from ..arrays import Subject, subjects
from ..mutations import HUGE
from ..outcomes import Case
from .chunks import carry_out, part_of

__all__ = ["Shards"]

_EMPTY = 2**64 - 1


def _indexes(
    codec: Mapping[str, Any], shape: tuple[int, ...], start: int, data: bytes
) -> Iterator[tuple[int, int, bool]]:
    """Yield place and count of the entries of each index in a shard, and whether a CRC follows."""
    options = codec["configuration"]
    inner = tuple(options["chunk_shape"])
    count = prod(-(-a // b) for a, b in zip(shape, inner))
    names = [item["name"] for item in options.get("index_codecs", [{"name": "bytes"}, {"name": "crc32c"}])]
    checked = names == ["bytes", "crc32c"]
    if not checked and names != ["bytes"]:
        return
    size = 16 * count + 4 * checked
    at = start if options.get("index_location", "end") == "start" else start + len(data) - size
    yield at, count, checked
    below = [item for item in options["codecs"] if item["name"] == "sharding_indexed"]
    if not below or len(options["codecs"]) > 1:
        return
    for offset, length in struct.iter_unpack("<QQ", data[at - start : at - start + 16 * count]):
        if offset != _EMPTY:
            yield from _indexes(below[0], inner, start + offset, data[offset : offset + length])


def _is_plain(subject: Subject) -> bool:
    codecs = subject.array.metadata.codecs
    return len(codecs) == 1 and codecs[0].name == "sharding_indexed"


class Shards:
    """An index of a shard of the corpus, also nested, changed, with the checksum that fits."""

    name = "shards"

    @functools.cached_property
    def _subjects(self) -> list[Subject]:
        return [subject for subject in subjects().values() if _is_plain(subject)]

    def make(self, rng: random.Random) -> Case:
        """Choose a shard and change entries of one of its indexes."""
        subject = rng.choice(self._subjects)
        key, data, box = rng.choice(subject.chunks)
        part, point = part_of(rng, box)
        options = subject.array.metadata.codecs[0].configuration
        shape = tuple(subject.array.metadata.grid.largest_chunk())
        at, count, checked = rng.choice([*_indexes({"configuration": _plain(options)}, shape, 0, data)])
        entries = [*struct.unpack_from(f"<{2 * count}Q", data, at)]
        for _ in range(rng.choice((1, 1, 2, 4))):
            place = rng.randrange(len(entries))
            old, size = entries[place], len(data)
            entries[place] = rng.choice(
                (
                    rng.choice(HUGE) % 2**64, rng.choice(entries), old + 1, old - 1, size, size - 1, size + 1,
                    size - old,
                    _EMPTY - old, _EMPTY, _EMPTY - 1, 0, rng.randrange(size + 1), rng.randrange(2**64), old ^ 1 << 63,
                )
            ) % 2**64  # fmt: skip
        index = struct.pack(f"<{2 * count}Q", *entries)
        if checked:
            index += struct.pack("<I", google_crc32c.value(index))
        changed = data[:at] + index + data[at + len(index) :]
        return {
            "array": subject.name, "key": key, "data": changed, "part": part, "point": point,
            "write": rng.random() < 0.2,
        }  # fmt: skip

    def run(self, case: Case) -> str:
        """Read and perhaps write the array."""
        _, _, found = carry_out(case)
        return f"refused {type(found).__name__}" if isinstance(found, TegulaError) else "accepted"


def _plain(value: Any) -> Any:
    """Return a configuration as JSON would hold it, the codecs in it as objects."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "configuration"):
        return {"name": value.name, "configuration": _plain(value.configuration)}
    return value
