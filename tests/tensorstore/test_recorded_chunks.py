"""Chunks that TensorStore has written, and what it did when arrays were resized."""

import base64
import json
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from tests.samples import recorded
from tests.tensorstore.recorded_errors import check

import tegula.tensorstore as ts
from tegula import config

BETTER = {
    "base {'exclusive_max': [-1, 3]}": "a negative shape is refused",
}


def each(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", recorded(f"golden_{name}")["cases"], ids=lambda case: case["name"])


def keys(store: ts.KvStore) -> list[str]:
    return sorted(key.decode() for key in store.list().result())


@each("chunks")
def test_chunks_are_stored_as_recorded(case: Any) -> None:
    context = ts.Context()
    array = ts.open(case["spec"], context=context, create=True, **case["open_kwargs"]).result()
    store = ts.KvStore.open("memory://", context=context).result()
    for write in case["writes"]:
        view = eval(write["view"], {"t": array})
        # of DEFLATE the kernel makes other bytes than zlib
        with config.configure(executor="reference") if "zlib" in case["name"] else nullcontext():
            view.write(eval(write["value"], {"np": np, "v": view})).result()
        assert keys(store) == write["keys_after"]
    if "files_b64" in case:
        assert {key: base64.b64encode(store[key]).decode() for key in keys(store)} == case["files_b64"]
    failing = {
        "write-bad-shape": lambda: array.write(np.zeros((3, 2), np.uint8)),
        "write-pylist": lambda: array.write([300, 1]),
    }
    if "error" in case:
        with pytest.raises((ValueError, OverflowError)) as caught:
            failing.get(case["name"], array.read)().result()
        check(caught.value, case["error"], case["spec"])
        return
    values = array.read().result()
    assert list(values.shape) == case["read"]["shape"]
    assert str(values.dtype) == case["read"]["dtype"] or values.dtype.str == case["read"]["dtype"]
    assert base64.b64encode(np.ascontiguousarray(values).tobytes()).decode() == case["read"]["b64_c_order_le"]


@each("resize")
def test_resize(case: Any) -> None:
    context = ts.Context()
    spec = {"driver": "zarr", "kvstore": "memory://", "metadata": case["metadata"]}
    if case["field"]:
        spec["field"] = case["field"]
    array = ts.open(spec, context=context, create=True).result()
    values = np.arange(array.size).reshape(array.shape) + 1
    array.write(values.astype(array.dtype.numpy_dtype)).result()
    store = ts.KvStore.open("memory://", context=context).result()
    assert keys(store) == case["keys_before"]
    view = eval(case["view"], {"t": array, "ts": ts})
    before = view.domain
    if case["name"] in BETTER or "error" in case:
        with pytest.raises((ValueError, TypeError)) as caught:
            view.resize(**case["kwargs"]).result()
        if case["name"] not in BETTER:
            check(caught.value, case["error"], case["view"])
            assert keys(store) == case["keys_after"]
        return
    resized = view.resize(**case["kwargs"]).result()
    assert resized.domain.to_json() == case["result_domain"]
    assert view.domain == before
    assert json.loads(store[".zarray"])["shape"] == case["stored_shape"]
    assert keys(store) == case["keys_after"]
    if case["data"] is not None:
        del spec["metadata"]
        assert ts.open(spec, context=context).result().read().result().tolist() == case["data"]
