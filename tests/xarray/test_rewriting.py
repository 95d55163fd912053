"""What was opened can be written again, and is the same afterwards: every type, format and engine."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import tegula
import tegula.xarray
from tegula.errors import MetadataError

pytestmark = pytest.mark.once(executors="both")

FORMATS = ["zarr2", "zarr3"]
TYPES: dict[str, tuple[Any, dict[str, Any]]] = {
    **{dtype: (np.array([0, 1, 2]).astype(dtype), {}) for dtype in ("?", "i1", "u2", "i4", "u8", "f2", "f4", ">f8")},
    "c8": (np.array([1, 2j], "c8"), {}),
    **{f"M8[{unit}]": (np.array(["2000-01-01", "NaT"], f"M8[{unit}]"), {}) for unit in ("D", "h", "s", "ms", "ns")},
    **{f"m8[{unit}]": (np.array([60, 120], f"m8[{unit}]"), {}) for unit in ("h", "s", "ns")},
    "U": (np.array(["ä", "bc"]), {}),
    "S": (np.array([b"a", b"\xff"]), {}),
    "text": (np.array(["ä", ""], object), {"dtype": str}),
    "bytes": (np.array([b"a", b"\x00\xff"], object), {"dtype": "bytes"}),
    "V": (np.array([b"abcd", b"\0bc\0"], "V4"), {}),
    "records": (np.array([(1, 2.0), (3, 4.0)], "i4,f8"), {}),
    "packed": (np.array([1, -9], "i2"), {"attributes": {"scale_factor": 0.5, "_FillValue": -9}}),
    "times": (np.array([0, 36]), {"attributes": {"units": "hours since 2000-01-01"}}),
    "float times": (np.array([0.25, 36.5]), {"attributes": {"units": "days since 1970-01-01"}}),
    "durations": (np.array([0, 36]), {"attributes": {"units": "hours", "dtype": "timedelta64[s]"}}),
    "unsigned": (np.array([1, -9], "i1"), {"attributes": {"_Unsigned": "true", "_FillValue": -1}}),
    "two masks": (np.array([1, -9, -8], "i2"), {"attributes": {"_FillValue": -9, "missing_value": -8}}),
    "three masks": (np.array([1, -9, -8, -7], "i2"), {"attributes": {"_FillValue": -9, "missing_value": [-8, -7]}}),
    "NaN twice": (np.array([1, np.nan], "f4"), {"attributes": {"_FillValue": np.nan, "missing_value": np.nan}}),
    "masks of others": (np.array([1, -9, -8], "f4"), {"attributes": {"missing_value": [-9.0, -8.0]}}),
    "masked bytes": (np.array([b"ab", b"X"]), {"attributes": {"_FillValue": "WA=="}}),
}  # fmt: skip


def opened(store: Any, engine: str = "tegula", *, load: bool = True) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options: dict[str, Any] = {"consolidated": False} if engine == "zarr" else {}
        found = xr.open_dataset(store, engine=engine, **options)  # type: ignore[arg-type]
        return found.load() if load else found


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning", "ignore:.*Resolution:UserWarning")
@pytest.mark.filterwarnings("ignore:variable .* has non-conforming", "ignore::FutureWarning")
@pytest.mark.parametrize("load", [True, False], ids=["loaded", "lazy"])
@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("engine", ["tegula", "zarr"])
@pytest.mark.parametrize("kind", TYPES)
def test_data_sets_are_written_as_they_were_opened(
    kind: str, engine: str, format: str, target: str, load: bool, tmp_path: Path
) -> None:
    values, options = TYPES[kind]
    store, copy = tmp_path / "x", tmp_path / "y"
    tegula.create_group(store, format=format)
    if format == "zarr2" and "_FillValue" in options.get("attributes", {}):
        options = {**options, "fill_value": None}
    array = tegula.create_array(
        store, path="v", shape=len(values), format=format, dimension_names=["x"], **({"dtype": values.dtype} | options)
    )
    array[...] = values
    try:
        data = opened(store, engine, load=load)
    except Exception as error:
        if engine == "tegula" or "tegula" in str(error):
            raise
        pytest.skip(f"xarray's engine can't open it: {error!r:.80}")
    tegula.xarray.write(data, copy, format=target)
    if "_FillValue" in data["v"].attrs:  # of times in Zarr v2, which xarray's engine shows
        del data["v"].attrs["_FillValue"]
    # in Zarr v3 xarray's engine knows no missing bytes
    again = opened(copy, "tegula" if values.dtype.kind == "S" and target == "zarr3" else engine)
    assert again.identical(data), (again["v"].values, data["v"].values)


@pytest.mark.parametrize("format", FORMATS)
def test_structured_elements_with_a_fill_value_can_be_opened(format: str) -> None:
    store = tegula.MemoryStore()
    tegula.create_group(store, format=format)
    for name, values in (("r", np.zeros(2, "i4,f4")), ("v", np.zeros(2, "V4"))):
        tegula.create_array(store, path=name, data=values, fill_value=values[0], format=format, dimension_names=["x"])
    assert opened(store)["r"].dtype.names == ("f0", "f1")


def test_trees_without_dimension_names() -> None:
    store = tegula.MemoryStore()
    for path, size in (("a", 2), ("g/a", 3), ("g/b", 2), ("g/h/a", 4), ("g/h/c", 3)):
        tegula.create_array(store, path=path, data=np.arange(size))
    tree = xr.open_datatree(store, engine="tegula")  # type: ignore[arg-type]
    assert [dict(tree[path].sizes) for path in ("a", "g/a", "g/b", "g/h/a", "g/h/c")] == [
        {"dim_0": 2}, {"a_dim_0": 3}, {"b_dim_0": 2}, {"a_dim_0_2": 4}, {"c_dim_0": 3},
    ]  # fmt: skip


@pytest.mark.parametrize("format", FORMATS)
def test_an_append_keeps_the_labels_of_what_is_stored(format: str) -> None:
    store = tegula.MemoryStore()
    data = xr.Dataset({"v": (("t", "x"), np.arange(4.0).reshape(2, 2))}, {"t": [0, 1], "x": ["p", "q"]})
    tegula.xarray.write(data, store, format=format)
    old = {key: store.get(key) for key in store.list()}
    later = data.assign_coords(t=[2, 3])
    with pytest.raises(MetadataError, match="'x' is stored in another order"):
        tegula.xarray.write(later.isel(x=[1, 0]), store, append_dim="t")
    assert {key: store.get(key) for key in store.list()} == old
    tegula.xarray.write(later, store, append_dim="t")
    assert opened(store).identical(xr.concat([data, later], "t", data_vars=None, join="exact"))
