"""xarray reads nodes of any format through tegula's store."""

from pathlib import Path

import numpy as np
import pytest

import tegula

pytest.importorskip("zarr", minversion="3")
pytest.importorskip("xarray")
import xarray as xr

import tegula.zarr

pytestmark = [pytest.mark.once(executors="both"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("consolidated", [False, True])
def test_a_dataset_in_zarr2_is_the_same_through_the_store(tmp_path: Path, consolidated: bool) -> None:
    data = xr.Dataset(
        {"t": (("x", "y"), np.array([[1.5, np.nan], [2.5, 3.5], [0.0, -1.0]])), "n": ("x", np.array([1, 2, 3], "i2"))},
        coords={"x": [10, 20, 30], "time": ("x", np.array(["2000-01-01", "2001-01-01", "NaT"], "M8[ns]"))},
        attrs={"title": "ä"},
    )
    data["n"].encoding = {"_FillValue": np.int16(2)}
    data.to_zarr(tmp_path / "d", zarr_format=2, consolidated=consolidated)
    expected = xr.open_zarr(tmp_path / "d").load()
    assert xr.open_zarr(tegula.zarr.store(tmp_path / "d")).load().identical(expected)


def test_a_dataset_is_written_and_appended_to(tmp_path: Path) -> None:
    data = xr.Dataset({"t": (("x",), [1.0, 2.0, 3.0])}, coords={"x": [0, 1, 2]})
    store = tegula.zarr.store(tmp_path / "new")
    data.to_zarr(store)
    data.to_zarr(store, append_dim="x")
    assert tegula.open(tmp_path / "new")["t"][:].tolist() == [1, 2, 3, 1, 2, 3]
    assert xr.open_zarr(store)["t"].values.tolist() == [1, 2, 3, 1, 2, 3]


def test_bcolz_and_zarr1_with_dimension_names_are_datasets() -> None:
    for item in ("bcolz", "zarr1"):
        array = tegula.create_array(
            {}, path="t", shape=(3, 2), dtype="f8", format=item, attributes={"_ARRAY_DIMENSIONS": ["x", "y"]}
        )
        array[:] = [[1, 2], [3, 4], [5, 6]]
        found = xr.open_zarr(tegula.zarr.store(array.store), consolidated=False)
        assert found["t"].dims == ("x", "y")
        assert found["t"].values.tolist() == [[1, 2], [3, 4], [5, 6]]
