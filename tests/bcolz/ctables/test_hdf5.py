"""Conversion of ctables to HDF5 files and back with PyTables; the real bcolz reads the files too."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from tegula import TegulaError, bcolz

pytest.importorskip("tables")

DTYPE = np.dtype([("i", "<i4"), ("f", "<f8"), ("s", "S5"), ("n", "<i2", (2, 3)), ("b", "?")])


@pytest.fixture(name="table")
def _table() -> bcolz.ctable:
    rows = np.zeros(1000, DTYPE)
    rows["i"] = np.arange(1000)
    rows["s"] = b"text"
    rows["n"][:, 1, 2] = np.arange(1000)
    table = bcolz.ctable(rows)
    table.attrs["unit"] = "K"
    table.attrs["size"] = 3
    return table


@pytest.mark.parametrize("options", [{}, {"nodepath": "/deep/below/rows"}, {"cname": "zlib"}])
def test_there_and_back(table: bcolz.ctable, options: dict[str, str], tmp_path: Path) -> None:
    place = str(tmp_path / "file.h5")
    table.tohdf5(place, **options)
    nodepath = options.get("nodepath", "/ctable")
    again = bcolz.ctable.fromhdf5(place, nodepath, rootdir=tmp_path / "t")
    assert (again.dtype, again.attrs.getall()) == (DTYPE, {"unit": "K", "size": 3})
    np.testing.assert_array_equal(bcolz.open(tmp_path / "t")[:], table[:])
    assert bcolz.ctable.fromhdf5(place, nodepath, names=["f", "i"]).names == ["f", "i"]


@pytest.mark.parametrize("shuffle", [bcolz.NOSHUFFLE, bcolz.SHUFFLE, bcolz.BITSHUFFLE])
def test_compression(table: bcolz.ctable, shuffle: int, tmp_path: Path) -> None:
    place = str(tmp_path / "file.h5")
    table.tohdf5(place, cparams=bcolz.cparams(clevel=1, shuffle=shuffle, cname="lz4"))
    np.testing.assert_array_equal(bcolz.ctable.fromhdf5(place)[:], table[:])


def test_several_in_one_file(table: bcolz.ctable, tmp_path: Path) -> None:
    place = str(tmp_path / "file.h5")
    table.tohdf5(place, "/one")
    with pytest.raises(OSError):
        table.tohdf5(place, "/two")
    table.tohdf5(place, "/two", mode="a")
    assert len(bcolz.ctable.fromhdf5(place, "/one")) == len(bcolz.ctable.fromhdf5(place, "/two")) == 1000
    with pytest.raises(TegulaError):
        bcolz.ctable.fromhdf5(place, "/three")


def test_unsupported_data_types(tmp_path: Path) -> None:
    for values in (["text"], np.array(["2020"], "M8[D]"), np.array([[1]], object)):
        place = tmp_path / "file.h5"
        with pytest.raises(TegulaError, match="field 'f0'"):
            bcolz.ctable([values]).tohdf5(str(place))
        assert not place.exists()


def test_the_real_bcolz(table: bcolz.ctable, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = pytest.importorskip("bcolz")
        table.delcol("n")
        table.tohdf5(str(tmp_path / "ours.h5"))
        np.testing.assert_array_equal(real.ctable.fromhdf5(str(tmp_path / "ours.h5"))[:], table[:])
        real.ctable(table[:]).tohdf5(str(tmp_path / "its.h5"))
        np.testing.assert_array_equal(bcolz.ctable.fromhdf5(str(tmp_path / "its.h5"))[:], table[:])
