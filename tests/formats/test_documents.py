"""JSON documents: limits of parsing, and the layout in which they are written."""

from __future__ import annotations

import json
import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.errors import MetadataError
from tegula.formats.documents import load, replace_document, rewrite
from tegula.formats.json_encoding import dump
from tegula.formats.keys import Style

pytestmark = pytest.mark.once(executors="none")

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names, values, max_size=4)
layouts = st.builds(
    lambda indent, escape, ending: {"indent": indent, "ensure_ascii": escape, "ending": ending},
    st.sampled_from([None, 0, 1, 2, 4]), st.booleans(), st.sampled_from(["", "\n", "\n\n"]),
)  # fmt: skip


def written(value: Any, indent: int | None, ensure_ascii: bool, ending: str) -> bytes:
    separators = (",", ":") if indent is None else (",", ": ")
    return (json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, separators=separators) + ending).encode()


@given(objects, layouts)
def test_an_unchanged_document_keeps_its_bytes(value: dict[str, Any], layout: dict[str, Any]) -> None:
    raw = written(value, **layout)
    fresh = Style()
    assert rewrite({"x": raw}, "x", {}, fresh) == raw
    assert rewrite({"x": raw}, "x", load(raw, "x"), fresh) == raw
    assert replace_document({"x": raw}, "x", load(raw, "x"), fresh) == raw


@given(objects.filter(bool), names, values, layouts)
def test_a_change_keeps_the_other_members_and_the_style(
    value: dict[str, Any], name: str, member: Any, layout: dict[str, Any]
) -> None:
    raw = written(value, **layout)
    changed = {**value, name: member}
    for new in (
        rewrite({"x": raw}, "x", {name: member}, Style(indent=7)),
        replace_document({"x": raw}, "x", changed, Style(indent=7)),
    ):
        assert load(new, "x") == changed
        assert [*load(new, "x")] == [*changed]
        if raw.isascii() is layout["ensure_ascii"] and (layout["indent"] is not None) is layout["ensure_ascii"]:
            assert new == written(changed, **layout)
        else:
            assert new.endswith(layout["ending"].encode())
            assert (b"\n" in new.strip()) is (layout["indent"] is not None)


def test_an_empty_document_gets_the_default_layout() -> None:
    assert replace_document({"x": b"{}"}, "x", {"é": 1}, Style()) == b'{\n    "\\u00e9": 1\n}'


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (0, False), (True, 1), (0.0, -0.0)])
def test_values_that_are_equal_in_python_only_are_changes(old: Any, new: Any) -> None:
    raw = dump({"a": old}, "x", Style())
    for changed in (
        rewrite({"x": raw}, "x", {"a": new}, Style()),
        replace_document({"x": raw}, "x", {"a": new}, Style()),
    ):
        assert repr(load(changed, "x")["a"]) == repr(new)


def test_nan_equals_nan() -> None:
    raw = b'{"a": NaN, "b": [Infinity]}'
    assert rewrite({"x": raw}, "x", {"a": float("nan")}, Style()) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"", b" ", b"null", b"[]", b"1", b'"a"', b"{", b"{]}", b"{'a': 1}", b"\xff", b"\xff\xfe{\x00}",
        b"\xfe\xff{\x00}\x00", b"\xef\xbb\xbf", b"\xef\xbb\xbf\xef\xbb\xbf{}", b" \xef\xbb\xbf{}",
        b'{"a": "\xe9"}', b'{"a": 1} x', b'{"a": 01}', b"{}{}", b"\x00",
        b'{"a":' * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b"[" * 1_000_000,
        b'{"a":' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"a":' + b"[" * 65 + b"]" * 65 + b"}",
        b'{"a":' + b"9" * 5000 + b"}",
    ],
)  # fmt: skip
def test_invalid_documents_are_rejected(raw: bytes) -> None:
    with pytest.raises(MetadataError) as caught:
        load(raw, "a/zarr.json")
    assert caught.value.key == "a/zarr.json"


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    assert load(json.dumps({"a": "[" * 1000}).encode(), "x")["a"] == "[" * 1000


def test_the_last_of_repeated_members_counts() -> None:
    assert load(b'{"a": 1, "a": 2}', "x") == {"a": 2}


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [{1, 2}, object(), b"bytes", 1j, deep(5000), {(1, 2): 3}])
def test_values_without_a_json_form_are_rejected(value: Any) -> None:
    for write in (
        lambda: dump({"a": value}, "x", Style()),
        lambda: rewrite({"x": b'{"b": 1}'}, "x", {"a": value}, Style()),
        lambda: replace_document({"x": b'{"b": 1}'}, "x", {"a": value}, Style()),
    ):
        with pytest.raises(MetadataError) as caught:
            write()
        assert caught.value.key == "x"


def test_the_error_names_the_member_without_a_json_form() -> None:
    circle: dict[str, Any] = {}
    circle["c"] = circle
    for value, field in [({1}, "a.b"), ([3, {1}], "a.b"), ({"c": 1, "d": b""}, "a.b.d"), ({(1,): 2}, "a.b")]:
        for style in (Style(), Style(indent=2)):
            with pytest.raises(MetadataError) as caught:
                dump({"x": 1, "a": {"y": 2, "b": value}}, "zarr.json", style)
            assert caught.value.field == field
    with pytest.raises(MetadataError) as caught:
        dump({"a": circle}, "zarr.json", Style(indent=None))
    assert caught.value.field == "a"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
    max_leaves=20,
)
NAMES = st.one_of(st.integers(), st.booleans(), st.none(), st.floats())


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.dictionaries(st.text(), JSON) | st.dictionaries(NAMES, JSON),
    st.sampled_from([None, 0, 1, 4]),
    st.booleans(),
    st.booleans(),
)
def test_the_layout_is_that_of_json_dumps(
    value: dict[str, Any], indent: int | None, ascii: bool, sort_keys: bool
) -> None:
    style = Style(indent=indent, ascii=ascii, sort_keys=sort_keys)
    separators = (",", ":" if indent is None else ": ")
    try:
        expected = json.dumps(value, indent=indent, ensure_ascii=ascii, separators=separators, sort_keys=sort_keys)
        raw = expected.encode()
    except (TypeError, UnicodeEncodeError):  # names that can't be sorted, surrogates
        with pytest.raises(MetadataError):
            dump(value, "key", style)
        return
    assert dump(value, "key", style) == raw


def test_numpy_values_are_written_like_python_values() -> None:
    value = {"a": np.float32(1.5), "b": np.arange(3), "c": types.MappingProxyType({"d": np.int8(1)}), "e": (1,)}
    expected = {"a": 1.5, "b": [0, 1, 2], "c": {"d": 1}, "e": [1]}
    for style in (Style(), Style(indent=None)):
        assert dump(value, "key", style) == dump(expected, "key", style)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"zarr_format":3,"node_type":"group","attributes":{"a":"x"}}',
        '{"zarr_format": 3, "node_type": "group", "attributes": {"a": "\\ud800", "b": "é"}}'.encode(),
        b'{\n  "zarr_format": 3,\n  "node_type": "group",\n  "attributes": {"\xc3\xa9": "%s"}\n}' % (b"x" * 40000),
    ],
    ids=["compact", "mixed", "large"],
)  # fmt: skip
def test_lone_surrogates_are_escaped_in_documents_that_hold_text_as_it_is(raw: bytes) -> None:
    store = tegula.MemoryStore()
    store.set("zarr.json", raw)
    before = dict(tegula.open_group(store).attrs)
    tegula.open_group(store, mode="r+").attrs["new"] = "é\ud800"
    assert b"\xc3\xa9\\ud800" in (store.get("zarr.json") or b"")
    assert dict(tegula.open_group(store).attrs) == {**before, "new": "é\ud800"}
