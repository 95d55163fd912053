"""Metadata and specs, with TensorStore's answers to them."""

import base64
from typing import Any

import pytest
from tests.samples import recorded
from tests.tensorstore.recorded_errors import check

import tegula.tensorstore as ts

BETTER = {
    "missing-fill_value": "the message says that the member is missing",
    'dtype="<M8[ns]"': "dates are read",
    'dtype="<U4"': "text is read",
    'compressor={"id": "lzma"}': "more codecs are known",
    'compressor={"id": "zstd", "level": 1, "checksum": true}': "the checksum is what numcodecs writes",
    'filters=[{"id": "delta", "dtype": "<i4"}]': "filters are known",
    'compressor={"id": "blosc", "blocksize": 1099511627776}': "Blosc has no blocks that large",
    'dtype=[["a", "<i4", 2]]': "a number stands for a shape of one dimension",
    "fill[<i4]=true": "a boolean is read as a number",
    'fill[<f4]="nan"': "more spellings are known",
    'fill[<f4]="+Infinity"': "more spellings are known",
    'fill[|S4]="x"': "text that is not Base64 stands for itself",
    "fill[|S4]=10": "a number stands for its text",
    'fill[|S4]="YWJjZA"': "text that is not Base64 stands for itself",
    "fill-struct-short": "missing bytes are zeros",
}
"""What is done otherwise on purpose, and why."""
OTHER_MEMBER = frozenset(('dtype="|O"', "shape=5", "raw-b'\"x\"'", 'compressor={"id": "blosc2"}'))
"""Documents of which another member is called wrong."""


def each(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", recorded(f"golden_{name}")["cases"], ids=lambda case: case["name"])


def outcome(call: Any) -> Any:
    try:
        return "ok", call()
    except Exception as error:
        return "error", error


@each("bad_metadata")
def test_stored_metadata_mean_what_was_recorded(case: Any) -> None:
    context = ts.Context()
    store = ts.KvStore.open("memory://", context=context).result()
    store[".zarray"] = base64.b64decode(case["zarray_b64"])
    spec: dict[str, Any] = {"driver": "zarr", "kvstore": "memory://"}
    if case["name"] == "fill-struct-short":
        spec["field"] = "a"
    kind, result = outcome(lambda: ts.open(spec, context=context).result())
    if case["name"] in BETTER:
        refused = ("missing-fill_value", 'compressor={"id": "blosc", "blocksize": 1099511627776}')
        assert (kind == "ok") != (case["name"] in refused)
    elif case["ok"]:
        assert kind == "ok", result
        assert result.spec().to_json()["metadata"] == case["metadata_out"]
    else:
        document = base64.b64decode(case["zarray_b64"]).decode("latin-1")
        check(result, case["error"], () if case["name"] in OTHER_MEMBER else document)


@each("bad_spec")
def test_specs_mean_what_was_recorded(case: Any) -> None:
    arguments = eval(case["kwargs_repr"], {"dtype": ts.dtype})
    options = arguments or {"create": True, "dtype": ts.uint8, "shape": [3]}
    calls = {
        "Spec": lambda: ts.Spec(case["spec"]),
        "open": lambda: ts.open(case["spec"], context=ts.Context(), **options).result(),
    }
    if isinstance(case["spec"], dict) and case["spec"].get("kvstore") == {"driver": "file"}:
        del calls["open"]  # it would write into the root of the file system
    for name, call in calls.items():
        if name not in case:
            continue
        kind, actual = outcome(call)
        expected = case[name]
        if expected["ok"]:
            assert kind == "ok", actual
        else:
            check(actual, expected["error"], case["spec"])
