"""Small details that programs see: texts, iteration, domains of stacks."""

import json

import numpy as np
import pytest
import tensorstore

import tegula.tensorstore as ts
from tegula import config

PACKAGES = (ts, tensorstore)
ZARR = {"driver": "zarr", "kvstore": "memory://a/", "metadata": {"shape": [5], "chunks": [2], "dtype": "<i2"}}


def test_a_spec_without_json_has_a_repr() -> None:
    for package in PACKAGES:
        assert repr(package.virtual_chunked(print, dtype=package.int8, shape=[3]).spec()) == "Spec(...)"


def test_text_of_numpy_in_a_repr() -> None:
    assert "'array': ['a', 'b']" in repr(ts.array(np.array(["a", "b"])))


def test_key_value_stores_are_no_iterables() -> None:
    for package in PACKAGES:
        with pytest.raises(TypeError, match="not iterable"):
            iter(package.KvStore.open("memory://").result())


def test_bounds_of_stacks_are_explicit() -> None:
    results = []
    for package in PACKAGES:
        store = package.open(ZARR, create=True).result()
        stacks = [package.overlay([store]), package.concat([store, store], axis=0), package.stack([store, store])]
        stacks.append(package.Spec({"driver": "stack", "layers": [ZARR]}))
        results.append([(repr(stack.domain), stack.dtype.name) for stack in stacks])
        with pytest.raises(ValueError, match="Layer 0: Domain must be specified"):
            package.Spec({"driver": "stack", "layers": [{"driver": "zarr", "kvstore": "memory://"}]})
    assert results[0] == results[1]


def test_missing_chunks_are_named_with_their_path() -> None:
    for package in PACKAGES:
        context = package.Context()
        package.open(ZARR, create=True, context=context).result()
        strict = package.open({**ZARR, "fill_missing_data_reads": False}, context=context).result()
        with pytest.raises(ValueError, match=r'^NOT_FOUND: chunk \{(\d)\} stored at "a/\1" is missing'):
            strict.read().result()


def test_specs_say_whether_missing_chunks_are_filled() -> None:
    """A spec that says nothing follows the setting, also after it has been written and read."""
    for setting in ("fill", "error"):
        with config.configure(missing_chunks=setting):
            for said in (None, True, False):
                fills = setting == "fill" if said is None else said
                context = ts.Context()
                spec = ZARR if said is None else {**ZARR, "fill_missing_data_reads": said}
                store = ts.open(spec, create=True, context=context).result()
                json = store.spec().to_json()
                written = None if said and setting == "fill" else said
                assert json.get("fill_missing_data_reads") == written
                assert store.spec().to_json(include_defaults=True)["fill_missing_data_reads"] == fills
                for opened in (store, ts.open(json, context=context).result()):
                    if fills:
                        assert not opened.read().result().any()
                    else:
                        with pytest.raises(ValueError, match=r'^NOT_FOUND: chunk \{(\d)\} stored at "a/\1" is missing'):
                            opened.read().result()


def test_numbers_are_no_bytes() -> None:
    for package in PACKAGES:
        with pytest.raises(TypeError, match="expected bytes, int found"):
            package.array(np.arange(3), dtype=package.string)


@pytest.mark.parametrize("name", ["bogus", "minimal_spec", "strip_context"])
def test_unknown_keywords(name: str) -> None:
    for package in PACKAGES:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            package.open(ZARR, **{name: True})


def test_members_come_in_order() -> None:
    results = []
    for package in PACKAGES:
        spec = package.open(ZARR, create=True).result().spec().to_json()
        results.append([json.dumps(spec), json.dumps(package.Spec(ZARR).to_json())])
    assert results[0] == results[1]
