"""Recorded descriptions of Zarr v2 arrays are made again from metadata alone."""

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.samples import recorded
from tests.tensorstore.recorded_errors import differences

from tegula import tensorstore as ts
from tegula.errors import TegulaError

pytestmark = pytest.mark.once(executors="none")

# Where the right answer is another one than the recorded: parts of a description, and why.
BETTER = {
    "struct-void": (
        {"schema", "fill_value", "spec", "spec_minimal", "spec_with_defaults", "repr", "url"},
        "bytes are kept, and the spec does not ask for a field as well, which could not be opened again",
    ),
    "S10": ({"schema", "fill_value"}, "characters are kept, and have JSON"),
    "V10": ({"schema", "fill_value"}, "bytes are kept, and have JSON"),
    "struct-S": ({"schema", "fill_value"}, "characters are kept, and have JSON"),
    "dtype-float8_e8m0fnu": ({"fill_value"}, "1.0 is 2**(127 - 127); the recorded byte is 2**(63 - 127)"),
    'comp-{"id": "zstd", "level": 3, "checksum": true}': (None, "a checksum can be read and written"),
}


def array_json(array: Any) -> Any:
    if array is None:
        return None
    native = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    return {
        "b64_c_order_le": base64.b64encode(native.tobytes()).decode(),
        "dtype": array.dtype.name if array.dtype.isbuiltin == 2 else array.dtype.str,
        "shape": list(array.shape),
    }


PARTS: dict[str, Callable[[Any], Any]] = {
    "chunk_layout": lambda store: store.chunk_layout.to_json(),
    "codec": lambda store: store.codec.to_json(),
    "dimension_units": lambda store: list(store.dimension_units),
    "domain": lambda store: store.domain.to_json(),
    "dtype": lambda store: store.dtype.name,
    "mode": lambda store: store.mode,
    "rank": lambda store: store.rank,
    "schema": lambda store: store.schema.to_json(),
    "shape": lambda store: list(store.shape),
    "size": lambda store: store.size,
    "spec": lambda store: store.spec().to_json(),
    "spec_minimal": lambda store: store.spec(minimal_spec=True).to_json(),
    "spec_with_defaults": lambda store: store.spec().to_json(include_defaults=True),
    "url": lambda store: store.url,
    "repr": repr,
    "fill_value": lambda store: array_json(store.fill_value),
}


def opened(case: dict[str, Any]) -> Any:
    context = ts.Context()
    kvstore = ts.KvStore.open({"driver": "memory"}, context=context).result()
    kvstore[".zarray"] = json.dumps(case["zarray"]).encode()
    spec = {"driver": "zarr", "kvstore": {"driver": "memory"}}
    if case["field"] is not None:
        spec["field"] = case["field"]
    if case["open_as_void"]:
        spec["open_as_void"] = True
        spec.pop("field", None)
    return ts.open(spec, context=context).result()


@pytest.mark.parametrize("case", recorded("golden_schema")["cases"], ids=lambda case: case["name"])
def test_recorded_descriptions(case: dict[str, Any]) -> None:
    if case["name"] == "fill-f4-'0x1p3'":  # the specification has no such numbers
        with pytest.raises(ValueError, match="fill_value"):
            opened(case)
        return
    store = opened(case)
    allowed = BETTER.get(case["name"], (set(), ""))[0]
    if allowed is None:
        assert store.spec().to_json()["metadata"]["compressor"] == case["zarray"]["compressor"]
        return
    wrong = {}
    for name, part in PARTS.items():
        expected = case[name]
        refused = isinstance(expected, dict) and "__error__" in expected
        try:
            actual = part(store)
        except TegulaError as error:
            actual = differences(error, expected["__error__"]) if refused else str(error)
            if not actual:
                continue
        if json.dumps(actual, sort_keys=True) != json.dumps(expected, sort_keys=True):
            wrong[name] = (actual, expected)
    assert wrong.keys() <= allowed, wrong
