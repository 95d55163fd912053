"""Results of TensorStore with Zarr v3: documents, chunks, schemas, errors."""

import base64
import json
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from tests.samples import recorded
from tests.tensorstore.recorded_errors import check

import tegula.tensorstore as ts

# Intended differences from what was recorded, and why.
OTHERWISE = {
    "fill-uint8-300": "a fill value that does not fit is refused, not wrapped",
    'data_type-{"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}': "dates are known",
    'data_type-"bytes"': "byte strings of any length are known",
    'data_type-{"name": "int32"}': "a name may be that of an object without options",
}
# Documents that are read, as tegula reads them everywhere.
READ = {
    'chunk_key_encoding="default"': "a name stands for an object without options",
    "attributes=null": "there are no attributes",
    'chunk_grid={"name": "regular", "configuration": {"chunk_shape": [0, 1]}}': "0 is 1, as in zarr-python",
}
# The member that is wrong is called by another name, or another member is called wrong.
OTHER_MEMBER = frozenset(('codecs-[{"name": "bz2"}]', 'cke-{"name": "foo"}', 'node_type="group"', "shape=[3]"))

# Chunks with other bytes and the same elements.
STORED_OTHERWISE = {
    'codecs-[{"name": "gzip"}, {"name": "crc32c"}]': "the header of gzip names no operating system",
}


GOLDEN = recorded("golden_v3")


def each(kind: str) -> pytest.MarkDecorator:
    cases = enumerate(GOLDEN[kind])
    return pytest.mark.parametrize("case", [pytest.param(case, id=f"{nth}-{case['name']}") for nth, case in cases])


def argument(value: Any) -> Any:
    """Read an argument; numbers that JSON lacks were recorded as Python prints them."""
    return (
        complex(value) if isinstance(value, str) and "j" in value else float(value) if isinstance(value, str) else value
    )


@each("cases")
def test_arrays_are_created_as_recorded(case: dict[str, Any]) -> None:
    name = case["name"]
    options = dict(case["kwargs"])
    if "fill_value" in options:
        options["fill_value"] = argument(options["fill_value"])
    context = ts.Context()
    if "error" in case and name not in OTHERWISE:
        with pytest.raises((ValueError, NotImplementedError)) as caught:
            ts.open(case["spec"], create=True, context=context, **options).result()
        check(caught.value, case["error"], () if name in OTHER_MEMBER else case["spec"])
        return
    if name in OTHERWISE:
        with pytest.raises(ValueError, match="cannot be represented") if "error" not in case else nullcontext():
            ts.open(case["spec"], create=True, context=context, **options).result()
        return
    array = ts.open(case["spec"], create=True, context=context, **options).result()
    keys = array.kvstore
    assert keys is not None
    assert keys["zarr.json"].decode() == case["zarr_json"]
    assert json.dumps(array.schema.to_json(), sort_keys=True) == json.dumps(case["schema"], sort_keys=True)
    assert array.chunk_layout.to_json() == case["chunk_layout"]
    assert array.spec().to_json() == case["spec_out"]
    if isinstance(case["url"], str):
        assert array.url == case["url"]
    else:
        with pytest.raises(ValueError, match="URL") as caught:
            _ = array.url
        check(caught.value, case["url"]["__error__"])
    # the same metadata and chunks, read from what was recorded
    files = {key: base64.b64decode(value) for key, value in case.get("files_b64", {}).items()}
    if len(files) > 1:
        other = ts.Context()
        store = ts.KvStore.open("memory://", context=other).result()
        for key, value in files.items():
            store[key] = value
        spec = {name: case["spec"][name] for name in ("driver", "kvstore", "field") if name in case["spec"]}
        stored = ts.open(spec, context=other).result()
        values = stored.read().result()
        array[...] = values
        again = {key.decode(): bytes(keys[key]) for key in keys.list().result()}
        assert again == files or name in STORED_OTHERWISE
        np.testing.assert_array_equal(array.read().result(), values)


@each("bad_cases")
def test_metadata_are_refused_as_recorded(case: dict[str, Any]) -> None:
    context = ts.Context()
    store = ts.KvStore.open("memory://", context=context).result()
    store["zarr.json"] = json.dumps(case["zarr_json"]).encode()
    name = case["name"]
    if name in READ:
        assert ts.open({"driver": "zarr3", "kvstore": "memory://"}, context=context).result().shape
        return
    with pytest.raises((ValueError, NotImplementedError)) as caught:
        ts.open({"driver": "zarr3", "kvstore": "memory://"}, context=context).result()
    other_member = name in OTHER_MEMBER or name.startswith("chunk_grid=") or "endian" in name
    check(caught.value, case["error"], () if other_member else case["zarr_json"])
