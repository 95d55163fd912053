"""What an input may cost: counted before it arises, and in proportion to what the input really has."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula import config
from tegula.config.budget import OWN, Budget, check_size, parse_json
from tegula.errors import MetadataError, StoreError, TegulaError
from tegula.formats.located.members import index_members
from tegula.stores import MemoryStore

VALUES = st.recursive(
    st.none() | st.integers(-(10**20), 10**20) | st.text(max_size=5) | st.sampled_from(["{{u}}", "[[", '"', "é", "😀"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def test_a_budget_is_used_up_once_and_for_all() -> None:
    with config.configure(max_input_bytes=100):
        budget = Budget()
        budget.spend(60, "this")
        with pytest.raises(StoreError, match="that would cost more than the setting max_input_bytes, 100, allows"):
            budget.spend(60, "that")
        with pytest.raises(StoreError):
            budget.spend(1, "anything")


def test_an_input_may_cost_some_times_its_own_size() -> None:
    with config.configure(max_input_bytes=100):
        assert Budget(10).left == 100
        assert Budget(1000).left == OWN * 1000
        check_size(100, "a document")
        with pytest.raises(MetadataError, match="a document of 101 bytes"):
            check_size(101, "a document", MetadataError)


@given(VALUES)
def test_what_is_parsed_is_what_was_written(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert parse_json(text.encode()) == value


@given(st.text('{}[]":, \n\ufeff\x0112e.-NaInfty', max_size=12).map("{{{}".format) | VALUES.map(json.dumps))
def test_text_is_read_or_refused_as_by_the_module_json(text: str) -> None:
    for whole in (text, text + "}", f' {{"a": {text}}}\n', f'{{"a": {text}, "a": NaN}} '):
        expected, flaw = None, ""
        try:
            expected = json.loads(whole)
        except ValueError as error:
            flaw = str(error)
        if flaw:
            with pytest.raises(MetadataError) as refused:
                parse_json(whole.encode())
            assert flaw in str(refused.value)
        else:
            assert repr(parse_json(whole.encode())) == repr(expected)


WIDE = {
    "lists": lambda n: b"[" + b"[]," * n + b"[]]",
    "objects": lambda n: b"[" + b"{}," * n + b"{}]",
    "members": lambda n: b"{" + b",".join(b'"%d":9' % number for number in range(n)) + b"}",
    "texts": lambda n: b"[" + b'"a",' * n + b'"a"]',
    "wide text": lambda n: b'["' + b"x" * (60 * n) + "😀".encode() + b'"]',
}


@pytest.mark.parametrize("kind", WIDE)
def test_values_are_refused_before_they_are_made(kind: str) -> None:
    raw = WIDE[kind](20_000)
    with config.configure(max_input_bytes=len(raw)):
        tracemalloc.start()
        try:
            if kind == "wide text":  # which takes four bytes for each of its own
                parse_json(raw)
            else:
                with pytest.raises(MetadataError, match="max_input_bytes"):
                    parse_json(raw)
                assert tracemalloc.get_traced_memory()[1] < 2**16
        finally:
            tracemalloc.stop()
    parse_json(raw)


@pytest.mark.slow
@given(VALUES)
@settings(max_examples=50)
def test_what_is_refused_is_not_parsed_by_the_members_either(value: Any) -> None:
    raw = json.dumps({"a": [value] * 2000}).encode()
    with config.configure(max_input_bytes=len(raw)):
        try:
            parse_json(raw)
        except MetadataError:
            assert index_members(raw, []) is None
    assert index_members(raw, []) is not None or not raw.isascii() or b"\\" in raw


@pytest.mark.slow
@pytest.mark.parametrize("key", ["zarr.json", ".zattrs"])
def test_a_document_that_costs_too_much_is_named(key: str) -> None:
    wide = '{"a": [' + "[]," * 100_000 + "[]]}"
    text = wide if key == ".zattrs" else '{"zarr_format": 3, "node_type": "group", "attributes": ' + wide + "}"
    store = MemoryStore({key: text.encode(), ".zgroup": b'{"zarr_format": 2}'})
    assert len(tegula.open_group(store, mode="r").attrs["a"]) == 100_001
    with config.configure(max_input_bytes=2**20), pytest.raises(TegulaError, match="max_input_bytes") as caught:
        dict(tegula.open_group(store, mode="r").attrs)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"<!DOCTYPE html>\n<html>", "HTML"),
        (b" \n<html lang=en>", "HTML"),
        (b"\xef\xbb\xbf<HTML>", "HTML"),
        (b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>", "XML or HTML"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "Git LFS"),
        (b"{", "Expecting property name"),
    ],
)
def test_what_is_no_json_is_named(raw: bytes, what: str) -> None:
    with pytest.raises(MetadataError, match=f"not valid JSON: .*{what}"):
        parse_json(raw)
