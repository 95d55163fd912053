"""Members located in a document without parsing it: the same results as a full parse, or none."""

from __future__ import annotations

import json
import random
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import MetadataError, TegulaError
from tegula.formats import zarr2, zarr3
from tegula.formats.documents import load
from tegula.formats.located.consolidated import Consolidated
from tegula.formats.located.members import Members, find_members, index_members, with_shape


def implementations() -> list[Any]:
    try:
        return [index_members, import_module("tegula._kernel").index_members]
    except (ImportError, AttributeError):
        return [index_members]


@pytest.fixture(params=implementations())
def index(request: pytest.FixtureRequest) -> Any:
    return request.param


CHAIN = ["m", "n"]
GOOD = [
    '{"a": 1, "m": {"x": [1, {"n": "}"}], "n": {"y": {}, "z": "é"}}, "b": "{\\"m\\":"}',
    ' {\n"m" :\t{ "n" : {"k": NaN, "k": -Infinity} }\r\n} ',
    '{"m": {"n": {}}}',
    '{"m": {"n": [{"n": {}}]}}',
    '{"m": 3, "n": {"m": {}}}',
    '{"m": {"a": "\\ud800", "n": {"\u00e9": {"a\\/b": 1e400}}}}',
    "{}",
    '{"a": ' + "[" * 50 + "]" * 50 + "}",
    '{"m": {"n": {"": {}, " ": {}, "a/b": {}}}}',
]
ODD = [
    '{"m": {"n": {"a\\/b": {}}}}',
    '{"m": {"n": {"\\u0061": {}}}}',
    '{"m": {"n": {}}, "m": {"n": {"x": {}}}}',
    '{"m": {"n": {"x": 1}, "n": {}}}',
    '{"\\u006d": {"n": {}}}',
    '{"a": ' + "[" * 64 + "]" * 64 + "}",
    '{"a": ' + "1" * 5000 + "}",
]
BAD = [
    "", " ", "[]", "1", "{}{}", '{"a": 1', '{"a": 1,}', '{"a" 1}', '{"a": 01}', '{"a": tru}', '{"a": "\n"}',
    '{"a": "\\x"}', '{"a": [1}', "{'a': 1}", '{"a": 1} x', "\ufeff{}", '{"a": +1}', '{"a": .5}', '{"a": [,]}',
    '{"m": {"n": {"x": {"y": }}}}', '{"m": {"n": {"x": {]}}}', '{"a": "' + "\x1f" + '"}',
]  # fmt: skip


def expected(text: str) -> list[dict[str, Any]]:
    value = json.loads(text)
    levels = [value]
    for name in CHAIN:
        value = value.get(name)
        if not isinstance(value, dict):
            break
        levels.append(value)
    return levels


def check(index: Any, text: str) -> None:
    raw = text.encode()
    found = index(raw, CHAIN)
    wanted = expected(text)
    assert len(found) == len(wanted)
    for level, values in zip(found, wanted):
        assert level.dtype == np.uint32
        members = Members(raw, level)
        for _ in range(2):  # first by checksums, then by a dictionary
            for key, value in values.items():
                assert repr(json.loads(members.get(key) or b"")) == repr(value)
            for _ in range(10):
                assert members.get("none") is None
        assert members.keys() == [key for key, value in values.items() if isinstance(value, dict)]


@pytest.mark.parametrize("text", GOOD)
def test_located_members_are_those_of_a_parser(index: Any, text: str) -> None:
    check(index, text)


@pytest.mark.parametrize("text", ODD + BAD)
def test_unusual_or_invalid_documents_are_left_to_a_full_parse(index: Any, text: str) -> None:
    assert index(text.encode(), CHAIN) is None


def test_bytes_that_are_not_utf8_are_rejected(index: Any) -> None:
    assert index(b'{"a": "\xff"}', CHAIN) is None
    assert index(b'{"m": {"\xe9": 1}}', CHAIN) is None


def scramble(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(9 if depth < 5 else 6)
    if kind < 6:
        return rng.choice([None, True, 1.5e-7, -12, float("nan"), "", 'a"b\\{}[]:,', "é☃😀", "\t", "m"])
    count = rng.randrange(5)
    if kind == 6:
        return [scramble(rng, depth + 1) for _ in range(count)]
    return {rng.choice(["m", "n", "x", "ü", "long name of a key"]): scramble(rng, depth + 1) for _ in range(count)}


@pytest.mark.slow
def test_random_documents_with_random_damage(index: Any) -> None:
    rng = random.Random(5)
    refused = 0
    for _ in range(400):
        value = {"a": scramble(rng), "m": {"b": scramble(rng), "n": {"c": scramble(rng), "d": scramble(rng)}}}
        indent = rng.choice([None, 0, 2, 7])
        text = json.dumps(value, indent=indent, ensure_ascii=rng.random() < 0.3)
        if index(text.encode(), CHAIN) is not None:
            check(index, text)
        else:
            assert "\\" in text
        raw = bytearray(text.encode())
        raw[rng.randrange(len(raw))] = rng.choice(b'"{}[]:,\\ \n0x\xc3')
        try:
            changed = raw.decode()
            json.loads(changed)
        except ValueError:
            assert index(bytes(raw), CHAIN) is None
            refused += 1
        else:
            if index(bytes(raw), CHAIN) is not None:
                check(index, changed)
    assert refused > 100


# --- consolidated metadata


def hierarchy(format: str, count: int = 60) -> tegula.MemoryStore:
    store = tegula.MemoryStore()
    group = tegula.create_group(store, format=format, attributes={"title": "é"})
    for number in range(count):
        group.create_array(f"a{number:03}", shape=(number, 3), dtype="f4", attributes={"n": number})
    group.create_group("below", attributes={"x": 1}).create_array("deep", shape=2, dtype="i2")
    group.consolidate()
    return store


KEY = {"zarr2": ".zmetadata", "zarr3": "zarr.json"}


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("above", ["", "up/above"])
def test_large_consolidated_metadata(format: str, above: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = hierarchy(format)
    store = tegula.MemoryStore()
    prefix = f"{above}/" if above else ""
    for key in source.list():
        store.set(prefix + key, source.get(key) or b"")
    raw = store.get(prefix + KEY[format])
    assert raw is not None
    module = {"zarr2": zarr2, "zarr3": zarr3}[format]
    assert len(raw) > module._LARGE
    lazy = tegula.open_group(store, path=above, consolidated=True)
    assert isinstance(lazy._members.known, Consolidated)
    monkeypatch.setattr(module, "_LARGE", 2**30)
    whole = tegula.open_group(store, path=above, consolidated=True)
    assert isinstance(whole._members.known, dict)
    assert lazy.attrs.asdict() == whole.attrs.asdict() == {"title": "é"}
    assert list(lazy) == list(whole)
    assert len(list(lazy)) == 61
    assert [path for path, _ in lazy.walk()] == [path for path, _ in whole.walk()]
    assert str(lazy.tree()) == str(whole.tree())
    assert lazy["a007"] == whole["a007"]
    assert lazy["a007"].attrs.asdict() == {"n": 7}
    assert lazy["below/deep"] == lazy["below"]["deep"] == whole["below/deep"]
    for missing in ("a7", "below/none", "a007/x", "zarr.json", "x"):
        assert missing not in lazy
        assert missing not in whole
    assert len(lazy._members.known) == len(whole._members.known)
    assert {
        path: {key: load(raw, key) for key, raw in nodes.items()} for path, nodes in lazy._members.known.items()
    } == {path: {key: load(raw, key) for key, raw in nodes.items()} for path, nodes in whole._members.known.items()}


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_large_consolidated_metadata_does_not_follow_changes(format: str) -> None:
    store = hierarchy(format)
    group = tegula.open_group(store, mode="r+", consolidated=True)
    group["a001"].attrs["n"] = -1
    assert tegula.open_group(store, consolidated=True)["a001"].attrs["n"] == 1  # until it is consolidated again
    group.consolidate()
    assert tegula.open_group(store, consolidated=True)["a001"].attrs["n"] == -1
    group.attrs["new"] = 1
    assert tegula.open_group(store, consolidated=True).attrs.asdict() == {"title": "é", "new": 1}


def test_unusual_consolidated_metadata() -> None:
    store = hierarchy("zarr3")
    raw = store.get("zarr.json")
    assert raw is not None
    document = json.loads(raw)
    document["consolidated_metadata"]["metadata"]["a/b"] = document["consolidated_metadata"]["metadata"]["a001"]
    escaped = json.dumps(document).replace('"a/b"', '"a\\/b"')
    store.set("zarr.json", escaped.encode())
    assert find_members(escaped.encode(), ["consolidated_metadata", "metadata"]) is None
    assert tegula.open_group(store, consolidated=True)["a/b"].shape == (1, 3)
    twice = escaped[:-1] + ', "consolidated_metadata": null}'
    store.set("zarr.json", twice.encode())
    with pytest.raises(tegula.NotFoundError, match="no consolidated metadata"):
        tegula.open_group(store, consolidated=True)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_damaged_large_consolidated_metadata_is_rejected(format: str) -> None:
    store = hierarchy(format)
    raw = store.get(KEY[format])
    assert raw is not None
    for damaged in (raw[:-2], raw.replace(b'"a030', b'"a030"', 1), raw + b"x", raw.replace(b"float32", b"fl\xffat32")):
        if damaged == raw:
            continue
        store.set(KEY[format], damaged)
        with pytest.raises(MetadataError, match="not valid JSON"):
            tegula.open_group(store, consolidated=True)


def test_large_consolidated_metadata_must_be_inline() -> None:
    store = hierarchy("zarr3")
    raw = store.get("zarr.json")
    assert raw is not None
    store.set("zarr.json", raw.replace(b'"inline"', b'"linked"', 1))
    assert len(tegula.open_group(store)) == 61
    with pytest.raises(TegulaError, match="kinds other than 'inline'"):
        tegula.open_group(store, consolidated=True)
    store.set(
        "zarr.json", raw.replace(b'"kind": "inline",\n    "must', b'"kind": "inline",\n    "other": 1,\n    "must')
    )
    assert "a001" in tegula.open_group(store, consolidated=True)


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ('{"shape":[1,20],"chunks":[1,20]}', (300, 4), '{"shape":[300,4],"chunks":[1,20]}'),
        ('{"a": {"shape": [1]}, "shape": [\n  1,\n  2\n ]}\n', (7, 2**62), None),
        ('{"a": "\\"shape\\": [1]", "shape": [0]}', (5,), None),
        ('{"shape": []}', (), None),
    ],
)
def test_replacing_the_shape_keeps_all_other_bytes(text: str, shape: tuple[int, ...], expected: str | None) -> None:
    found = with_shape(text.encode(), shape)
    assert found is not None
    before, after = json.loads(text), json.loads(found)
    assert after == {**before, "shape": [*shape]}
    assert expected is None or found.decode() == expected
    assert "".join(c for c in found.decode() if c.isspace()) == "".join(c for c in text if c.isspace())


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ('{"shape": [1, 2]}', (1,)),
        ('{"shape": [1]}', (1, 2)),
        ('{"shape": [1]}', (2**63,)),
        ('{"shape": [1]}', (-1,)),
        ('{"shape": [1.0]}', (2,)),
        ('{"shape": [01]}', (2,)),
        ('{"shape": [1e2]}', (2,)),
        ('{"shape": ["1"]}', (2,)),
        ('{"shape": 1}', (2,)),
        ('{"shape": [1], "shape": [1]}', (2,)),
        ('{"sh\\u0061pe": [1]}', (2,)),
        ('{"chunks": [1]}', (2,)),
        ('{"shape": [1]', (2,)),
    ],
)
def test_an_unusual_shape_is_not_replaced_in_place(text: str, shape: tuple[int, ...]) -> None:
    assert with_shape(text.encode(), shape) is None


def test_consolidated_metadata_is_located_once_for_an_unchanged_document() -> None:
    store = tegula.MemoryStore()
    group = tegula.create_group(store)
    for number in range(300):
        group.create_array(f"a{number:03}", shape=3, dtype="u1")
    group.consolidate()
    opened = tegula.open_group(store, mode="r+")
    assert opened.metadata.consolidated is not None
    assert opened.with_consolidated()["a007"].shape == (3,)
    tegula.open_array(store, mode="r+", path="a007").resize(5)
    assert opened.with_consolidated()["a007"].shape == (3,)
    tegula.open_group(store, mode="r+").consolidate()
    assert opened.with_consolidated()["a007"].shape == (5,)
