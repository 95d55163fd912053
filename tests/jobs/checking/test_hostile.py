"""A check of any store ends with a report, and a repair never changes readable values.

``TEGULA_CHECKS`` sets the number of damaged stores, for long runs.
"""

from __future__ import annotations

import json
import random
import warnings
from typing import Any

import numpy as np
import pytest
from tests.effort import amount

import tegula
from tegula.errors import NotFoundError, TegulaError
from tegula.stores import MemoryStore

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.slow]

STORES = amount("CHECKS", usual=200, nightly=5000)
VALUES = np.arange(60).reshape(15, 4)
WORDS: list[Any] = [
    None, True, -1, 0, 2**70, 1e400, "", "../x", "a//b", "é\ud800", [], {}, [[]], {"a": {}}, "zarr.json",
    ".zarray", "c/0",
]  # fmt: skip


def example(seed: random.Random) -> dict[str, bytes]:
    """Make a hierarchy of any format, with a table, shards, and a copy of its metadata."""
    store = MemoryStore()
    name = seed.choice(["zarr1", "zarr2", "zarr3", "bcolz"])
    if name in ("zarr2", "zarr3"):
        group = tegula.create_group(store, format=name, attributes={"title": "x"})
    for path in ("a", "b/c"):
        chunks = (4, 4) if name == "bcolz" else (4, 3)
        tegula.create_array(store, shape=(15, 4), chunks=chunks, dtype="i4", format=name, path=path)[...] = VALUES
    if name == "zarr3":
        tegula.create_array(store, shape=32, chunks=4, shards=16, dtype="u1", path="s", codecs=["bytes", "crc32c"])[
            ...
        ] = 7
        tegula.create_array(store, shape=6, chunks=4, dtype=str, path="b/words")[...] = list("abcdef")
    if name != "zarr1":
        tegula.create_table(store, {"x": np.arange(9), "y": np.arange(9) / 2}, format=name, path="t", chunks=4)
    if name in ("zarr2", "zarr3"):
        group.consolidate()
        if seed.random() < 0.5:
            group["a"].attrs["late"] = 1
    if name != "zarr1" and seed.random() < 0.5:
        tegula.open_array(store, "r+", path="t/y").append([4.5])
    if name == "bcolz" and seed.random() < 0.5:
        store.set("a/meta/sizes", (store.get("a/meta/sizes") or b"").replace(b'"nbytes": 240', b'"nbytes": 7'))
    return {key: store.get(key) or b"" for key in store.list()}


def change(seed: random.Random, values: dict[str, bytes]) -> None:
    """Damage one value, or add a key that should not exist."""
    key = seed.choice(sorted(values))
    raw = bytearray(values[key])
    kind = seed.randrange(8)
    if kind == 0 and raw:
        raw[seed.randrange(len(raw))] ^= 1 << seed.randrange(8)
    elif kind == 1:
        del raw[seed.randrange(len(raw) + 1) :]
    elif kind == 2:
        raw += seed.randbytes(seed.randrange(1, 20))
    elif kind == 3:
        del values[key]
        return
    elif kind == 4:
        key = key + seed.choice(["x", "/x", ".0123456789abcdef0123456789abcdef.partial", ".__lock", "/zarr.json"])
    elif kind == 5:
        raw = bytearray(values[seed.choice(sorted(values))])
    elif (document := json_or_none(raw)) is not None:
        raw = bytearray(json.dumps(edited(seed, document)).encode("utf-8", "replace"))
    values[key] = bytes(raw)


def edited(seed: random.Random, value: Any) -> Any:
    """Replace something in a document, at any depth."""
    inner = [name for name in value if isinstance(value[name], dict) and value[name]] if isinstance(value, dict) else []
    if inner and seed.random() < 0.6:
        name = seed.choice(inner)
        return {**value, name: edited(seed, value[name])}
    if not value:
        return seed.choice(WORDS)
    name = seed.choice(sorted(value))
    kind = seed.randrange(3)
    if kind == 0:
        return {other: kept for other, kept in value.items() if other != name}
    if kind == 1:
        return {**value, str(seed.choice(WORDS)): value[name]}
    return {**value, name: seed.choice([*WORDS, [1], [10**9, 4], [3, 4]])}


def readable(store: MemoryStore) -> dict[str, Any]:
    """Return all readable values: of tables, and of arrays that are not columns."""
    out: dict[str, Any] = {}
    for path in ("a", "b/c", "s", "b/words", "t"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                node = tegula.open(store, path=path)
                if path == "t" and isinstance(node, tegula.Group):
                    node = tegula.open_table(store, path=path)
                found = np.asarray(node[...] if isinstance(node, tegula.Array) else node[:])
                out[path] = (found.dtype, found.tolist() if found.dtype.hasobject else found.tobytes())
                out[f"{path}@"] = json.dumps(node.attrs.asdict(), sort_keys=True)
            except (TegulaError, KeyError):
                continue
    return out


@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("part", range(4))
def test_a_report_of_anything_and_no_loss(part: int) -> None:
    repaired = 0
    for number in range(part, STORES, 4):
        seed = random.Random(number)
        values = example(seed)
        for _ in range(seed.choice([1, 1, 1, 2, 3, 8])):
            if values:
                change(seed, values)
        store = MemoryStore()
        for key, raw in values.items():
            store.set(key, raw)
        before = readable(store)
        try:
            first = tegula.check(store)
            assert {key: store.get(key) for key in store.list()} == values, number
            report = tegula.check(store, repair=True)
        except NotFoundError:
            assert not before, number
            continue
        assert first.counts == report.counts, number
        for key, raw in values.items():
            if json_or_none(raw) is None:
                assert store.get(key) == raw, f"{number}: {key}"  # only documents are written
        assert set(store.list()) == {*values}, number
        after = readable(store)
        assert after == before, f"{number}: {report}"
        again = tegula.check(store)
        mended = {(found.kind, found.key) for found in report.findings if found.repaired}
        repaired += len(mended)
        assert not mended & {(found.kind, found.key) for found in again.findings}, f"{number}: {again}"
        assert again.errors == report.errors, number
    assert repaired > 9


def json_or_none(raw: bytes | bytearray) -> Any:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
