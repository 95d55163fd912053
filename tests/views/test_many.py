"""A thousand arrays of four formats as one, for other libraries too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula
import tegula.tensorstore as ts

from .many import many_arrays

pytestmark = pytest.mark.once(executors="both")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("many")
    values, paths = many_arrays(folder)
    tegula.save_view(tegula.concat(paths), folder / "all.json")
    return values, folder / "all.json"


def test_a_thousand_arrays_are_one(many: Any) -> None:
    values, path = many
    view = tegula.open(path)
    np.testing.assert_array_equal(view[...], values)
    np.testing.assert_array_equal(view[::-7, 1][...], values[::-7, 1])
    chosen = np.random.default_rng(2).integers(0, len(values), 300)
    np.testing.assert_array_equal(view[chosen][...], values[chosen])
    np.testing.assert_array_equal(view.sel(time=slice(5, 9))[...], values[5:9])
    np.testing.assert_array_equal(view.to_dask(chunks=None)[3:90].compute(), values[3:90])
    np.testing.assert_array_equal(ts.open(path).result()[1234].read().result(), values[1234])
    assert tegula.convert(path, tegula.MemoryStore(), chunks=(500, 3)).arrays[0].shape == values.shape


def test_zarr_python_and_xarray_read_them(many: Any) -> None:
    zarr, xarray = pytest.importorskip("zarr"), pytest.importorskip("xarray")
    from tegula.zarr import store  # noqa: PLC0415 - needs zarr-python

    values, path = many
    array = zarr.open_array(store(path), mode="r")
    np.testing.assert_array_equal(array[...], values)
    np.testing.assert_array_equal(array.oindex[[7, 1999, 3], [0, 2]], values[[7, 1999, 3]][:, [0, 2]])
    with xarray.open_dataset(path, engine="tegula", chunks={}) as opened:
        assert opened.data.chunksizes["time"] == (2,) * 1000
        np.testing.assert_array_equal(opened.data.isel(time=slice(None, None, 9)), values[::9])
    for target in (tegula.open(path), tegula.open(path).T.T):
        with xarray.open_dataset(target, engine="tegula") as opened:
            np.testing.assert_array_equal(opened.data.isel(time=[5, 3], x=1), values[[5, 3], 1])
