"""Values that users assign, of another type than the array's."""

from typing import Any

import numpy as np
import pytest

import tegula
from tegula import MemoryStore, config
from tegula.errors import MetadataError

UNIT = np.array(["2000-01-01", "NaT"], "M8[s]")


@pytest.mark.parametrize("executor", ["auto", "reference"])
@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "bcolz"])
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("M8", UNIT),
        ("M8", UNIT[0]),
        ("M8", "2000-01-01"),
        ("m8", UNIT - UNIT[0]),
        ("m8", np.timedelta64(3, "Y")),
        ("U3", UNIT[0]),
    ],
)
def test_times_that_do_not_fit_change_nothing(executor: Any, format: str, dtype: str, values: Any) -> None:
    store = MemoryStore()
    with config.configure(executor=executor):
        array = tegula.create_array(store, shape=2, chunks=1, dtype=dtype, format=format)
        before = {key: store.get(key) for key in store.list()}
        for selection in (..., slice(1, 2), 0):
            with pytest.raises(MetadataError, match="can't be converted"):
                array[selection] = values if selection is ... else np.asarray(values).reshape(-1)[0]
        assert {key: store.get(key) for key in store.list()} == before


@pytest.mark.parametrize("dtype", ["<U3", ">U3"])
@pytest.mark.parametrize("format", ["zarr1", "zarr2", "bcolz"])
def test_text_of_any_length_for_text_of_fixed_length(format: str, dtype: str) -> None:
    array = tegula.create_array(MemoryStore(), shape=3, chunks=2, dtype=dtype, format=format)
    array[...] = np.array(["a", "bcde", "𝄞"], np.dtypes.StringDType())
    assert array[...].tolist() == ["a", "bcd", "𝄞"]
