"""Data types have TensorStore's names; NumPy's dtypes are supported, too."""

import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorstore as real

from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.constraints.dtypes import dtype

pytestmark = pytest.mark.once(executors="none")

NAMES = [name for name in dir(real) if isinstance(getattr(real, name), real.dtype)]


@pytest.mark.parametrize("name", NAMES)
def test_names_mean_the_same(name: str) -> None:
    mine, theirs = getattr(dtypes, name), getattr(real, name)
    assert (repr(mine), mine.name, mine.to_json(), mine.type) == (
        repr(theirs),
        theirs.name,
        theirs.to_json(),
        theirs.type,
    )
    assert mine is dtype(name) is dtype(mine) is pickle.loads(pickle.dumps(mine))
    assert mine == name
    assert mine.numpy_dtype.kind == theirs.numpy_dtype.kind
    if name not in ("char", "byte"):  # one byte here, no size in TensorStore
        assert mine.numpy_dtype == theirs.numpy_dtype
    assert np.dtype(mine) == mine.numpy_dtype


@pytest.mark.parametrize(
    "given",
    [int, float, bool, complex, str, bytes, np.int8, np.uint64, np.longlong, np.ulonglong, np.intc, np.bytes_, np.void]
    + [np.dtype(text) for text in (">i4", "<f2", ">c16", "S4", "S1", "V1", "V7", "?")]
    + [ml_dtypes.bfloat16, ml_dtypes.int4, "int32", "json", "bfloat16"],
)
def test_what_numpy_knows(given: Any) -> None:
    assert dtype(given).name == real.dtype(given).name


@pytest.mark.parametrize(
    "given", ["i4", ">i4", "float", "", "longlong", "<x4", "[[", object, np.float128, None, 5, b"int8"]
)
def test_unknown_types_are_refused_the_same(given: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as theirs:
        real.dtype(given)
    with pytest.raises(theirs.type) as mine:
        dtype(given)
    if theirs.type is ValueError:
        assert str(mine.value) == str(theirs.value)


@pytest.mark.parametrize("text", ["M8[ns]", "m8[3D]", "U4"])
def test_types_that_only_numpy_has_are_carried(text: str) -> None:
    carried = dtype(np.dtype(text).newbyteorder(">"))
    assert carried.numpy_dtype == np.dtype(text)
    assert carried == dtype(carried.name) == pickle.loads(pickle.dumps(carried))
    assert carried.to_json() == np.dtype(text).str
    assert carried != dtypes.int32


def test_structures_are_carried() -> None:
    fields = np.dtype([("a", "<i4", (2,)), ("b", ">M8[s]"), ("c", [("d", "S3")])])
    carried = dtype(fields)
    assert carried.numpy_dtype == fields
    assert dtype(carried.name) == carried
    assert hash(dtype(carried.name)) == hash(carried)


def test_calling_a_type_converts_values() -> None:
    assert dtypes.int32(5.5) == np.int32(5)
    assert dtypes.ustring(5) == "5"
    assert dtypes.int8 != 5
    assert dtypes.int32 == np.int32
