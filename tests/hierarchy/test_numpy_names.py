"""NumPy's names for new arrays, and arrays that are created with their elements."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import tegula
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, StoreError
from tegula.testing import Crash, Fault, FaultyStore


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
@pytest.mark.parametrize("dtype", ["f8", "i2", "?", "c8", "<U3", "M8[s]"])
def test_elements_agree_with_numpy(name: str, dtype: str) -> None:
    if name == "ones" and dtype in ("<U3", "M8[s]"):
        return
    made = getattr(tegula, name)((3, 4), dtype=dtype, chunks=2)
    expected = np.zeros((3, 4), dtype) if name == "empty" else getattr(np, name)((3, 4), dtype)
    assert made.dtype == expected.dtype
    assert np.array_equal(made[:], expected, equal_nan=dtype != "<U3")
    assert made.nchunks_initialized() == 0 or made.fill_value is None


@pytest.mark.parametrize("value", [7, 2.5, True, 1j, "abc", b"xy", np.float32(1.5), np.datetime64("2020-01-01")])
def test_full_takes_the_type_of_the_value(value: Any) -> None:
    made = tegula.full(3, value)
    assert made[:].tolist() == np.full(3, value).tolist()


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "zarr1", "bcolz"])
def test_like_functions_keep_chunks_codecs_and_format(format: str) -> None:
    a = tegula.create_array({}, shape=(6, 4), chunks=(2, 4), dtype="i4", format=format, codecs=[{"id": "blosc"}])
    for make, value in ((tegula.zeros_like, 0), (tegula.ones_like, 1)):
        b = make(a)
        assert (b.shape, b.chunks, b.dtype, b.format) == (a.shape, a.chunks, a.dtype, a.format)
        assert b.compressors == a.compressors
        assert (b[:] == value).all()
    c = tegula.full_like(a, 2.5, dtype="f8", shape=(2, 4))
    assert (c.shape, c.chunks, c.dtype, c[:].tolist()) == ((2, 4), a.chunks, np.dtype("f8"), [[2.5] * 4] * 2)
    assert tegula.zeros_like(a, shape=10).shape == (10,)
    assert tegula.empty_like(a, format="zarr3").format == "zarr3"
    b = tegula.array(a)
    assert (b.chunks, b.compressors, b.format) == (a.chunks, a.compressors, a.format)


def test_shards_and_names_are_taken_over() -> None:
    a = tegula.create_array({}, shape=(8, 8), chunks=(2, 2), shards=(4, 4), dtype=str, dimension_names=["y", "x"])
    a[0, 0] = "text"
    for b in (tegula.empty_like(a), tegula.array(a)):
        assert (b.chunks, b.shards, b.dimension_names) == (a.chunks, a.shards, a.dimension_names)
    assert tegula.array(a)[0, 0] == "text"
    assert tegula.empty_like(a, chunks=(3, 3)).chunks == (3, 3)


def test_like_functions_keep_chunks_of_other_libraries(tmp_path: Path) -> None:
    z = zarr.create_array(tmp_path / "z", shape=(6, 4), chunks=(3, 2), dtype="i2")
    z[:] = np.arange(24).reshape(6, 4)
    assert tegula.zeros_like(z).chunks == (3, 2)
    assert tegula.array(z)[:].tolist() == np.arange(24).reshape(6, 4).tolist()
    assert tegula.ones_like([[1, 2]]).shape == (1, 2)


def test_a_store_that_is_given_is_used(tmp_path: Path) -> None:
    tegula.array([1, 2], store=tmp_path / "a.bcolz")
    tegula.ones(3, store=tmp_path / "g", path="x/y")
    assert tegula.open(tmp_path / "a.bcolz").format == "bcolz"
    assert list(tegula.open_group(tmp_path / "g")) == ["x"]
    with pytest.raises(AlreadyExistsError):
        tegula.zeros(2, store=tmp_path / "a.bcolz")
    assert tegula.zeros(2, store=tmp_path / "a.bcolz", overwrite=True)[0] == 0


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "zarr1", "bcolz"])
def test_an_array_is_created_with_its_elements(format: str) -> None:
    values = np.arange(10.0).reshape(5, 2)
    a = tegula.create_array({}, data=values, format=format, chunks=(2, 2))
    assert a.dtype == values.dtype
    assert np.array_equal(a[:], values)
    b = tegula.create_array({}, data=values, dtype="i4", shape=(5, 2), format=format)
    assert b[:].dtype == "i4"
    if format in ("zarr2", "zarr3"):
        g = tegula.create_group({}, format=format)
        assert g.create_array("x", data=values).format == format
        g["y"] = ["a", "bc"]
        assert g["y"][:].tolist() == ["a", "bc"]


def test_shape_and_data_must_agree() -> None:
    for options in ({"shape": (3,), "data": [1, 2]}, {"shape": 3}, {"dtype": "i4"}, {"data": [[1], [1, 2]]}):
        store: dict[str, Any] = {}
        with pytest.raises(MetadataError):
            tegula.create_array(store, **options)
        assert not store


@pytest.mark.parametrize("format", ["zarr3", "bcolz"])
@pytest.mark.parametrize("what", [errno.ENOSPC, "crash"])
def test_an_array_that_could_not_be_filled_is_removed(format: str, what: Any) -> None:
    kept = tegula.MemoryStore({"README": b"of others"})
    store = FaultyStore(kept)
    store.arm(Fault(what, on="set", keys="^c/|blp", skip=2, times=None))
    with tegula.config.configure(threads=1), pytest.raises((StoreError, Crash)):
        tegula.create_array(store, data=np.arange(1, 41), chunks=4, format=format)
    if what != "crash":
        assert [*kept.list()] == ["README"]
        with pytest.raises(NotFoundError):
            tegula.open(kept)


def test_an_array_may_replace_the_one_it_is_copied_from(tmp_path: Path) -> None:
    a = tegula.array(np.arange(4), store=tmp_path / "a")
    b = tegula.create_array(tmp_path / "a", data=a, dtype="f4", chunks=3, overwrite=True)
    assert b[:].tolist() == tegula.open(tmp_path / "a")[:].tolist() == [0, 1, 2, 3]
    with pytest.raises(AlreadyExistsError):
        tegula.create_array(tmp_path / "a", data=b)
