"""TensorStore reads what tegula writes, and tegula reads what TensorStore writes."""

import json
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import tensorstore as ts
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.oracles.conftest import NUMBERS

import tegula

Cases = Callable[..., st.SearchStrategy[Any]]

# What TensorStore lacks is left out: text, times, raw bytes; in v2 filters, lzma, lz4, a zlib level of -1.
DTYPES = tuple(name for name in NUMBERS if name != ">f8")
EXTENDED = (
    "bfloat16",
    "int4",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3b11fnuz",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
)


def known(case: Any) -> bool:
    if case.format == "zarr3":
        return all(codec["name"] != "zstd" or not codec["configuration"]["checksum"] for codec in case.compressors)
    return not case.filters and all(
        codec["id"] in ("blosc", "bz2", "gzip", "zlib", "zstd")
        and codec.get("level", 0) >= 0
        and codec.get("shuffle", 0) >= 0
        for codec in case.compressors
    )


def open_theirs(keys: ts.KvStore, format: str, **options: Any) -> Any:
    driver = "zarr3" if format == "zarr3" else "zarr"
    return ts.open({"driver": driver, "kvstore": keys.spec().to_json()}, context=CONTEXT, **options).result()


CONTEXT = ts.Context()
_numbers = iter(range(10**9))


def new_keys() -> ts.KvStore:
    """Return an empty part of TensorStore's memory."""
    return ts.KvStore.open({"driver": "memory", "path": f"{next(_numbers)}/"}, context=CONTEXT).result()


def check_both_ways(case: Any) -> None:
    ours: dict[str, bytes] = {}
    case.create(ours)
    keys = new_keys()
    for key, value in ours.items():
        keys[key] = bytes(value)
    case.check(open_theirs(keys, case.format, open=True).read().result())

    document = json.loads(ours["zarr.json" if case.format == "zarr3" else ".zarray"])
    made = new_keys()
    spec = {
        "driver": "zarr3" if case.format == "zarr3" else "zarr",
        "kvstore": made.spec().to_json(),
        "metadata": document,
    }
    ts.open(spec, context=CONTEXT, create=True).result()[...] = case.values
    theirs = {key.decode(): bytes(made[key]) for key in made.list().result()}
    read = tegula.open_array(theirs)
    case.check(read[...])
    name = "zarr.json" if case.format == "zarr3" else ".zarray"
    assert read.metadata.documents[name] == theirs[name]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_tensorstore(cases: Cases, data: st.DataObject) -> None:
    case = data.draw(cases(dtypes=DTYPES))
    assume(known(case))
    check_both_ways(case)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(EXTENDED))
def test_extended_data_types(data: st.DataObject, name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    length, chunk = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 5))
    values = np.array(data.draw(st.lists(st.integers(-8, 7), min_size=length, max_size=length)), "f4").astype(dtype)
    store: dict[str, bytes] = {}
    array = tegula.create_array(
        store, shape=length, chunks=chunk, dtype=name, codecs=None, fill_value=data.draw(st.integers(-2, 2))
    )
    array[...] = values
    keys = new_keys()
    for key, value in store.items():
        keys[key] = bytes(value)
    opened = open_theirs(keys, "zarr3", open=True)
    found = opened.read().result()
    assert found.dtype == values.dtype
    assert (found == values).all()  # not their bits, of which int4 has four to spare
    opened[: length // 2] = values[::-1][: length // 2]
    read = tegula.open_array({key.decode(): bytes(keys[key]) for key in keys.list().result()})[...]
    assert read.dtype == values.dtype
    assert (read[: length // 2] == values[::-1][: length // 2]).all()
    assert (read[length // 2 :] == values[length // 2 :]).all()
