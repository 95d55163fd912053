"""The ``json`` driver: values inside JSON documents."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import tensorstore
from tests.tensorstore.recorded_errors import kind_and_code

import tegula.tensorstore as ts

SPEC = {"driver": "json", "kvstore": "memory://k"}


def both(**members: Any) -> tuple[Any, Any]:
    """Open the same value with both packages, each in its own memory."""
    return tuple(package.open({**SPEC, **members}, context=package.Context()).result() for package in (ts, tensorstore))


def refusal(action: Any) -> str:
    with pytest.raises((ValueError, NotImplementedError)) as caught:
        action()
    return kind_and_code(caught.value)


def test_what_an_array_says() -> None:
    for members in ({}, {"json_pointer": "/a b/~1"}, {"recheck_cached_data": False}):
        mine, real = both(**members)
        assert mine.schema.to_json() == real.schema.to_json()
        assert mine.chunk_layout.to_json() == real.chunk_layout.to_json()
        assert mine.spec().to_json() == real.spec().to_json()
        assert mine.spec().to_json(include_defaults=True) == real.spec().to_json(include_defaults=True)
        assert mine.url == real.url
        assert (mine.rank, mine.mode, mine.dtype.name) == (0, "rw", "json")
        assert mine.fill_value is mine.codec is None
        assert repr(mine) == repr(real)


@pytest.mark.parametrize(
    "members",
    [
        {"json_pointer": "a"},
        {"json_pointer": "/~2"},
        {"json_pointer": 5},
        {"foo": 1},
        {"dtype": "int8"},
        {"rank": 1},
        {"schema": {"fill_value": 3}},
        {"schema": {"codec": {"driver": "zarr"}}},
    ],
)
def test_refused_specs(members: dict[str, Any]) -> None:
    results = [refusal(lambda package=package: package.Spec({**SPEC, **members})) for package in (ts, tensorstore)]
    assert results[0] == results[1]


@pytest.mark.parametrize("schema", [{}, {"chunk_layout": {"write_chunk": {"elements": 3}}}, {"domain": {"rank": 0}}])
def test_the_chunk_layout_of_a_spec(schema: dict[str, Any]) -> None:
    specs = [package.Spec({**SPEC, "schema": schema}) for package in (ts, tensorstore)]
    assert specs[0].chunk_layout.to_json() == specs[1].chunk_layout.to_json() == {"rank": 0}
    assert specs[0].schema.to_json() == specs[1].schema.to_json()
    assert specs[0].to_json() == specs[1].to_json()


def test_reading_and_writing() -> None:
    for arrays in (both(), both(json_pointer="/a")):
        texts = [refusal(lambda array=array: array.read().result()) for array in arrays]
        assert texts[0] == texts[1]
        stored = []
        for array in arrays:
            array.write({"b": [1, None, "é"], "c": 1e20}).result()
            assert array.read().result()[()] == {"b": [1, None, "é"], "c": 1e20}
            stored.append(array.kvstore.read("").result().value)
        assert stored[0] == stored[1]
        texts = [refusal(lambda array=array: array.resize(exclusive_max=[]).result()) for array in arrays]
        assert texts[0] == texts[1]


def test_errors_in_documents() -> None:
    context = ts.Context()
    store = ts.KvStore.open("memory://", context=context).result()
    store["k"] = b"{"
    inner = ts.open({**SPEC, "json_pointer": "/a"}, context=context).result()
    with pytest.raises(ValueError, match='FAILED_PRECONDITION: Error reading "k": Invalid JSON'):
        inner.read().result()
    store["k"] = b"5"
    with pytest.raises(ValueError, match='Error writing "k": JSON Pointer "/a"'):
        inner.write(1).result()
    ts.open(SPEC, context=context).result().write({}).result()
    inner.write(np.array(2.5)).result()
    assert store["k"] == b'{"a":2.5}'


def test_several_values_of_one_document() -> None:
    context = ts.Context()
    for name in "abc":
        ts.open({**SPEC, "json_pointer": f"/{name}/-"}, context=context).result().write(name).result()
    assert ts.open(SPEC, context=context).result().read().result()[()] == {n: {"-": n} for n in "abc"}


def test_in_a_transaction() -> None:
    context = ts.Context()
    full = ts.open(SPEC, context=context).result()
    full.write({"a": 1}).result()
    with ts.Transaction() as transaction:
        inner = ts.open({**SPEC, "json_pointer": "/b"}, context=context).result().with_transaction(transaction)
        inner.write(2).result()
        assert inner.read().result()[()] == 2
        assert full.read().result()[()] == {"a": 1}
    assert full.read().result()[()] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "text", ["1e400", "[-1e999]", '"\\ud800"', '{"\\uDC00": 1}', "NaN", '"\\ud83d\\ude00"', "1e308", "1e-400"]
)
def test_values_that_could_not_be_written_again_are_not_json(text: str) -> None:
    """A write beside such a value replaced it by null."""
    stored = []
    for package in (ts, tensorstore):
        context = package.Context()
        keys = package.KvStore.open("memory://", context=context).result()
        keys["k"] = f'{{"old":{text}}}'.encode()
        array = package.open({**SPEC, "json_pointer": "/new"}, context=context).result()
        with suppress(ValueError):
            array.write(1).result()
        stored.append(keys["k"])
    assert stored[0] == stored[1]
