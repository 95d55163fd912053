import json
import pickle

import numcodecs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs.msgpacks import MsgPack

from tegula.errors import CodecError, MetadataError

pytestmark = pytest.mark.once(executors="none")

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
SHAPES = [(4,), (2, 2), (4, 1), (1, 2, 2), ()]


def objects(items, shape):
    count = int(np.prod(shape))
    return np.fromiter((items * 4)[:count], object, count).reshape(shape)


@pytest.mark.parametrize(("name", "oracle"), [("json2", numcodecs.JSON()), ("msgpack2", MsgPack())])
@settings(deadline=None, max_examples=40)
@given(items=st.lists(VALUES, min_size=1, max_size=4), shape=st.sampled_from(SHAPES))
def test_the_same_bytes_as_numcodecs(build, name, oracle, items, shape):
    chunk = objects(items, shape)
    chain = build([f"numcodecs.{name}"], object, len(shape))
    data = chain.encode(chunk)
    assert data == oracle.encode(np.atleast_1d(chunk))
    assert chain.decode(data, shape).tolist() == chunk.tolist()


@pytest.mark.parametrize("name", ["json", "msgpack"])
def test_the_forms_without_a_shape(build, name):
    chunk = objects(["a", None, [1, 2], {"b": 1.5}], (2, 2))
    chain = build([f"numcodecs.{name}"], object, 2)
    data = chain.encode(chunk)
    if name == "json":
        assert json.loads(data) == ["a", None, [1, 2], {"b": 1.5}, "|O"]
    assert chain.decode(data, (2, 2)).tolist() == chunk.tolist()


def test_json_options(build):
    options = {
        "encoding": "utf-8",
        "ensure_ascii": False,
        "indent": 1,
        "sort_keys": False,
        "strict": True,
        "allow_nan": True,
    }
    chunk = objects(["ü", {"b": 1, "a": 2}], (2,))
    chain = build([("numcodecs.json2", options)], object)
    assert chain.encode(chunk) == numcodecs.JSON(**options).encode(chunk)
    assert chain.decode(chain.encode(chunk), (2,)).tolist() == chunk.tolist()


def test_json_of_numbers(build):
    chain = build(["numcodecs.json2"], "<i4", 2)
    chunk = np.arange(6, dtype="<i4").reshape(2, 3)
    assert chain.encode(chunk) == numcodecs.JSON().encode(chunk)
    assert np.array_equal(chain.decode(chain.encode(chunk), (2, 3)), chunk)


@pytest.mark.parametrize("order", ["C", "F"])
def test_pickles(build, order):
    chunk = np.asarray(objects(["a", 1, None, (2, 3)], (2, 2)), order=order)
    chain = build([("numcodecs.pickle", {"protocol": 4})], object, 2, allow_pickle=True)
    assert chain.encode(chunk) == numcodecs.Pickle(protocol=4).encode(np.ascontiguousarray(chunk))
    assert chain.decode(chain.encode(chunk), (2, 2)).tolist() == chunk.tolist()


def test_pickles_of_other_objects(build):
    chain = build(["numcodecs.pickle"], object, allow_pickle=True)
    for value in ([1, 2], np.zeros(2), np.zeros(3, object), None):
        with pytest.raises(CodecError):
            chain.decode(pickle.dumps(value), (2,))
    with pytest.raises(CodecError):
        chain.decode(b"\x80\x04", (2,))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "1",
        '["a", "b", "|O"]',
        '["a", "b", "|O", 2]',
        '["a", "b", "|O", [3]]',
        '["a", "b", "|O", [-2]]',
        '["a", "b", "|O", [true, 2]]',
        '["a", "|O", [2]]',
        '[["a", "b"], "|O", [2, 1]]',
        '["ab", "|O", [1, 2]]',
        '["a", "b", "|S1000000000", [1000000000, 1000000000]]',
        '["a", "b", "|O", [2]] x',
        "[" * 100000,
        "1" * 100000,
    ],
)
def test_damaged_json(build, text):
    with pytest.raises(CodecError) as caught:
        build(["numcodecs.json2"], object).decode(text.encode(), (2,))
    assert caught.value.codec == "numcodecs.json2"


def test_damaged_msgpack(build):
    chain = build(["numcodecs.msgpack2"], object)
    for data in (
        b"",
        b"\xdd\xff\xff\xff\xff",
        b"\x93\x01\x02",
        b"\xc1",
        b"\xdd\x00\x00\xff\xff" * 1000,
        b"\x92\xa2|O\x91\x02",
    ):
        with pytest.raises(CodecError):
            chain.decode(data, (2,))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("json2", {"encoding": "rot13"}),
        ("json2", {"strict": 1}),
        ("json2", {"separators": [1, 2]}),
        ("json2", {"cls": "x"}),
        ("msgpack2", {"raw": 1}),
        ("pickle", {"protocol": "x"}),
    ],
)
def test_invalid_options(build, name, options):
    with pytest.raises(MetadataError):
        build([(f"numcodecs.{name}", options)], object, allow_pickle=True)
