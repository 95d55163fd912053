"""Small functions that the interface is made of: readers and writers of JSON, paths, URLs and generations."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tegula import LocalStore, MemoryStore
from tegula.stores import ABSENT
from tegula.tensorstore.constraints.casting import convert, each, implicit
from tegula.tensorstore.constraints.codec_spec import compression_from_json, compressor_from_json
from tegula.tensorstore.context import KINDS, split_reference
from tegula.tensorstore.index.operations import slice_text
from tegula.tensorstore.json import (
    array_of,
    dump,
    int64,
    integer,
    nested_array,
    pretty,
    read_number,
    read_object,
    sound_text,
    take,
    take_members,
    to_json_value,
)
from tegula.tensorstore.kvstore import specs
from tegula.tensorstore.kvstore.values import (
    KeyRange,
    decode_generation,
    encode_generation,
    listing_prefix,
    prefix_of_range,
)
from tegula.tensorstore.spec.spec import driver_json_of_url

pytestmark = pytest.mark.once(executors="none")


def test_json_is_written_as_text_and_as_python() -> None:
    assert dump({"b": [1.0, None], "a": "é"}) == '{"a":"é","b":[1.0,null]}'
    assert pretty({"rank": 2, "dtype": None}, "Schema(", ")") == "Schema({'dtype': None, 'rank': 2})"
    assert to_json_value({"shape": (np.int64(3), None)}) == {"shape": [3, None]}
    assert sound_text("x") == "x"


def test_readers_return_values_of_the_expected_kind() -> None:
    members = {"rank": 3.0}
    assert (take(members, "rank", int64), take(members, "rank", int64)) == (3, None)
    assert take_members({"a": 1.0, "b": 2.0}, {"a": (int64, 1), "b": (int64, 1)}) == {"b": 2}
    assert (integer(3.0, 0, 9), array_of([1, 2.0], int64)) == (3, [1, 2])
    assert read_object({"b": 2.0, "a": 1}, {"a": int64, "b": int64, "c": int64}) == {"a": 1, "b": 2}
    assert read_number(np.float32(0.5)) == 0.5
    nested = [[1, 2, 3], [4, 5, 6]]
    assert [nested_array(nested).shape, nested_array(nested, 1).shape, nested_array(7).shape] == [(2, 3), (2,), ()]
    assert nested_array(nested).tolist() == nested


@pytest.mark.parametrize(
    ("read", "value", "named"),
    [
        (lambda value: integer(value, 0, 9), 10, "10"),
        (lambda value: array_of(value, int64), [1, "b"], "position 1"),
        (lambda value: take({"rank": value}, "rank", int64), "a", '"rank"'),
        (nested_array, [[1, 2], [3]], "[3]"),
        (lambda value: read_object(value, {"a": int64}), {"a": 1, "b": 2}, 'members: "b"'),
        (read_number, "0.5", "'0.5'"),
        (sound_text, "\ud800", "surrogates"),
    ],
)
def test_readers_name_what_they_refuse(read: Any, value: Any, named: str) -> None:
    with pytest.raises((ValueError, TypeError), match=re.escape(named)):
        read(value)


def test_elements_are_converted() -> None:
    assert each(np.array([1, 2]), str, np.dtype(object)).tolist() == ["1", "2"]
    assert convert(np.array([300, -1]), "int64", "uint8", np.dtype("uint8")).tolist() == [44, 255]
    assert convert(np.array([0.5, 1e20]), "float64", "ustring", np.dtype(object)).tolist() == ["0.5", "1e+20"]
    wanted = (True, False, True)
    assert (implicit("uint8", "float32"), implicit("int32", "float32"), implicit("float32", "json")) == wanted


def test_missing_options_of_codecs_are_chosen() -> None:
    assert compression_from_json({"type": "gzip"}) == {"level": -1, "type": "gzip", "useZlib": False}
    assert compressor_from_json({"id": "zlib"}) == {"id": "zlib", "level": 1}


def test_references_and_descriptions_of_resources() -> None:
    assert split_reference(KINDS["cache_pool"], "cache_pool#a") == "cache_pool#a"
    assert split_reference(KINDS["cache_pool"], {"total_bytes_limit": 5.0}) == {"total_bytes_limit": 5}


def test_paths_and_urls() -> None:
    assert specs.key_name(MemoryStore(), "a/0") == '"a/0"'
    assert specs.key_name(LocalStore("/data"), "a/0") == 'local file "/data/a/0"'
    assert specs.file_path(r"C:\x\y", system="nt") == "C:/x/y"
    assert specs.file_path("/C:/x", of_url=True, system="nt") == "C:/x"
    assert specs.file_path("/C:/x", of_url=True, system="posix") == "/C:/x"
    pairs = (("a", "b"), ("a/", "/b"), ("a", "/b"), ("", "b"), ("a", ""))
    assert [specs.join_paths(*pair) for pair in pairs] == ["a/b", "a//b", "a/b", "b", "a"]
    members = {"base_url": "https://host/a?b=1"}
    assert (specs.with_base_path(specs.HTTP, members, "c"), members) == ("/a/c", {"base_url": "https://host?b=1"})
    assert specs.location_of_url(specs.S3, "s3://bucket/a%20b/") == ({"bucket": "bucket"}, "a b/")
    assert specs.location_of_url(specs.HTTP, "https://host/a?b=1") == ({"base_url": "https://host?b=1"}, "/a")
    assert driver_json_of_url("memory://a|json:/b")["json_pointer"] == "/b"


def test_generations_and_ranges() -> None:
    assert (encode_generation(ABSENT), encode_generation(7)) == (b"\2", b"\0\7\0\0\0\0\0\0\0")
    assert [decode_generation(encode_generation(one)) for one in (ABSENT, 7, (1, 2), b"x")] == [ABSENT, 7, (1, 2), b"x"]
    ranges = (("a/", KeyRange()), ("a/", KeyRange("b/", "b0")), ("a", KeyRange()))
    assert [prefix_of_range(*one) for one in ranges] == ["a/", "a/b/", None]
    assert [listing_prefix("a/b", KeyRange()), listing_prefix("a/", KeyRange("c/d", "c/e"))] == ["a/", "a/c/"]


def test_slices_are_shown_without_a_step_of_1() -> None:
    assert (slice_text(slice(1, None)), slice_text(slice(None, 5, 2)), slice_text(slice(0, 2, 1))) == (
        "1:", ":5:2", "0:2",
    )  # fmt: skip
