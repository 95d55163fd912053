"""Changing a few members of a large object in place gives what writing the whole object gives."""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import tegula
from tegula.errors import MetadataError
from tegula.formats import documents, json_encoding, zarr2, zarr3
from tegula.formats.json_encoding import dump
from tegula.formats.keys import Style
from tegula.formats.located.splicing import Absent, splice

pytestmark = pytest.mark.once(executors="none")

LONG = "x" * 2**15
NAMES = st.text(st.characters(codec="utf-8", exclude_characters='"\\', min_codepoint=32), max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)
STYLES = st.sampled_from([zarr2.STYLE, zarr3.STYLE, Style(indent=2, ascii=False)])


def content(old: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**old, **changes}.items() if value is not Absent}


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.dictionaries(NAMES, VALUES, min_size=1, max_size=3), STYLES)
def test_a_changed_value_is_written_as_in_the_whole(old: dict[str, Any], changes: dict[str, Any], style: Style) -> None:
    old = {"m": LONG, **old}
    for chain in ((), ("attributes",)):
        raw = dump({"attributes": old, "z": 1} if chain else old, "key", style)
        parsed = json.loads(raw)
        object_now = parsed["attributes"] if chain else parsed
        found = splice(raw, "key", chain, object_now, changes, style)
        if found is None:  # escaped names are left to a full parse
            assert not raw.isascii() or b"\\u" in raw or b"\\" in raw
            continue
        new, says = found
        whole = content(object_now, changes)
        assert json.loads(new) == ({"attributes": whole, "z": 1} if chain else whole)
        assert says == whole
        written = dump({**parsed, "attributes": whole} if chain else whole, "key", documents_style(raw, style))
        assert new == written
        assert [*says] == [*(json.loads(new)["attributes"] if chain else json.loads(new))]


def documents_style(raw: bytes, fresh: Style) -> Style:
    """Return the layout in which the whole document is written."""
    found = json_encoding.style_of(raw)
    return Style(found.indent, found.ascii, found.ending, fresh.sort_keys)


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), STYLES, st.data())
def test_removing_a_member_keeps_all_other_bytes(old: dict[str, Any], style: Style, data: st.DataObject) -> None:
    raw = dump({"m": LONG, **old}, "key", style)
    parsed = json.loads(raw)
    name = data.draw(st.sampled_from([*parsed]))
    found = splice(raw, "key", (), parsed, {name: Absent}, style)
    if found is not None:
        whole = content(parsed, {name: Absent})
        assert found[1] == whole
        assert found[0] == dump(whole, "key", documents_style(raw, style)) or len(found[0]) < 2**15


@pytest.mark.parametrize(
    "raw",
    [
        b'{\n  "a": "' + LONG.encode() + b'",\n  "a": 2\n}',  # repeated names
        b'{\n  "\\u0061": "' + LONG.encode() + b'"\n}',  # an escaped name
        b'{"a": "' + LONG.encode() + b'"}',  # on one line
        b'{\n  "a": 1\n}',  # small
    ],
)
def test_an_unusual_document_is_not_changed_in_place(raw: bytes) -> None:
    assert splice(raw, "key", (), json.loads(raw), {"b": 1}, zarr3.STYLE) is None


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_changing_one_of_many_attributes_keeps_all_other_bytes(format: str) -> None:
    store = tegula.MemoryStore()
    group = tegula.create_group(store, format=format, attributes={"a": 1.5, "b": LONG, "c": {"d": [1, 2]}})
    key = ".zattrs" if format == "zarr2" else "zarr.json"
    raw = store.get(key)
    assert raw is not None
    odd = raw.replace(b"1.5", b"15e-1").replace(b'"d": [', b'"d":   [')
    store.set(key, odd)
    group.attrs["b2"] = (1, 2)
    changed = store.get(key)
    assert changed is not None
    assert b"15e-1" in changed
    assert b'"d":   [' in changed
    assert group.attrs["b2"] == [1, 2]
    assert tegula.open_group(store).attrs.asdict() == {"a": 1.5, "b": LONG, "b2": [1, 2], "c": {"d": [1, 2]}}
    del group.attrs["b2"]
    assert store.get(key) == odd
    value = group.attrs["c"]
    value["d"].append(3)  # a change in place is stored when the attribute is set
    group.attrs["c"] = value
    assert tegula.open_group(store).attrs["c"] == {"d": [1, 2, 3]}


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_one_change_parses_a_large_document_once_and_encodes_one_value(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tegula.MemoryStore()
    group = tegula.create_group(store, format=format, attributes={"a": 1, "b": LONG})
    parsed, written = [], []
    parse, text = documents.parse_json, json_encoding.Indenter.text

    def count(raw: Any, *args: Any, **options: Any) -> Any:
        parsed.append(len(raw) > 2**15)
        return parse(raw, *args, **options)

    def note(self: Any, value: Any, line: str) -> str:
        written.append(value)
        return text(self, value, line)

    monkeypatch.setattr(documents, "parse_json", count)
    monkeypatch.setattr(json_encoding.Indenter, "text", note)
    group.attrs["a"] = 2
    assert sum(parsed) == 1
    assert not any(LONG in str(value) for value in written)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_attributes_without_a_json_form_are_rejected(format: str) -> None:
    store = tegula.MemoryStore()
    group = tegula.create_group(store, format=format, attributes={"b": LONG})
    before = {key: store.get(key) for key in store.list()}
    deep: list[Any] = []
    for _ in range(70):
        deep = [deep]
    for value in (deep, object(), {1j: 2}):
        with pytest.raises(MetadataError):
            group.attrs["a"] = value
    assert {key: store.get(key) for key in store.list()} == before


def test_dimension_names_follow_the_attribute_of_zarr_v2() -> None:
    store = tegula.MemoryStore()
    array = tegula.create_array(store, shape=(2, 3), dtype="i4", format="zarr2", attributes={"b": LONG})
    array.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    assert array.dimension_names == ("y", "x")
    assert tegula.open_array(store).dimension_names == ("y", "x")
