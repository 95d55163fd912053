"""Files of other formats are recognised by their bytes, and the error says what opens them."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import StoreError, TegulaError
from tegula.stores.targets.foreign import recognise

FILES = {
    "a.h5": (b"\x89HDF\r\n\x1a\n" + bytes(99), "HDF5", "h5py"),
    "b.nc": (b"\x89HDF\r\n\x1a\n" + bytes(99), "netCDF-4", "xarray"),
    "c": (b"\x89HDF\r\n\x1a\n_NCProperties", "netCDF-4", "xarray"),
    "d.nc": (b"CDF\x02" + bytes(9), "netCDF-3", "xarray"),
    "e.parquet": (b"PAR1" + bytes(9), "Parquet", "create_table"),
    "f.tif": (b"II*\0" + bytes(9), "TIFF", "tifffile"),
    "g": (b"MM\0+" + bytes(9), "TIFF", "tifffile"),
    "h.fits": (b"SIMPLE  =       T", "FITS", "astropy"),
    "i.grib": (b"GRIB\0", "GRIB", "cfgrib"),
    "j.feather": (b"ARROW1\0\0", "Arrow", "pyarrow"),
    "k.sqlite": (b"SQLite format 3\0", "SQLite", "zarr 2"),
}


@pytest.mark.parametrize("name", FILES)
def test_files(tmp_path: Path, name: str) -> None:
    data, kind, advice = FILES[name]
    (tmp_path / name).write_bytes(data)
    for act in (tegula.open, tegula.open_array, tegula.load, tegula.statistics):
        with pytest.raises(tegula.UnsupportedError, match=kind) as caught:
            act(tmp_path / name)
        assert advice in caught.value.message
        assert caught.value.path == str(tmp_path / name)
    assert (tmp_path / name).read_bytes() == data


def test_files_of_numpy(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    np.savez(tmp_path / "y.npz", x=np.arange(3))
    with pytest.raises(tegula.UnsupportedError, match=r"NumPy file.*numpy\.load"):
        tegula.open(tmp_path / "x.npy")
    with pytest.raises(tegula.UnsupportedError, match="NumPy archive"):
        tegula.open(tmp_path / "y.npz")


def test_directories(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(tegula.UnsupportedError, match="Parquet"):
        tegula.open(tmp_path / "rows")


def test_files_of_no_known_format(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").mkdir()
    (tmp_path / "attributes.json").write_text("[1]")
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    for name in ("text", "empty", "z.zip", "nothing", "."):
        assert recognise(str(tmp_path / name)) is None
    with pytest.raises(tegula.StoreError, match="not a directory"):
        tegula.open(tmp_path / "text")
    for name in ("empty", "z.zip"):
        with pytest.raises(tegula.NotFoundError):
            tegula.open(tmp_path / name)


def test_a_node_is_opened_whatever_files_lie_beside_it(tmp_path: Path) -> None:
    tegula.save(tmp_path / "x", [1, 2])
    (tmp_path / "x/part-0.parquet").write_bytes(b"PAR1")
    found: Any = tegula.load(tmp_path / "x")
    assert found.tolist() == [1, 2]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    for name in ("x.zarr", "x.zip", "x.json"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(StoreError, match=r"not a (directory|file)"):
            tegula.open(str(tmp_path / name))
    with pytest.raises(StoreError, match="not a directory"):
        tegula.create_array(str(tmp_path / "x.zarr"), shape=3, dtype="i4")


@pytest.mark.parametrize("name", ["\0", "x\0y", "\ud800"])
def test_what_no_file_can_be_called_is_an_error(name: str) -> None:
    for mode in ("r", "r+"):
        with pytest.raises(TegulaError):
            tegula.open(name, mode)


@pytest.mark.skipif(sys.platform == "win32", reason="a directory that is in use can't be deleted")
def test_a_relative_path_in_a_directory_that_is_gone_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for make in (
        lambda: tegula.create_array("x.zarr", shape=3, dtype="i4"),
        lambda: tegula.create_array("x.zip", shape=3, dtype="i4"),
        lambda: tegula.ZipStore("x.zip", "w"),
        lambda: tegula.CachedStore(tegula.MemoryStore(), "x", 10),
    ):
        with pytest.raises(StoreError, match="the current directory is gone"):
            make()
