"""Reduced precision: other data types, packing by scale and offset, and rounded fractions, with their errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numcodecs.bitround import BitRound

import tegula
from tegula.errors import AlreadyExistsError, CodecError, MetadataError, TegulaError, UnsupportedError

RNG = np.random.default_rng(1)
FORMATS = ["zarr1", "zarr2", "zarr3", "bcolz"]


def converted(source: Any, **options: Any) -> tuple[tegula.Array, Any]:
    target = tegula.MemoryStore()
    report = tegula.convert(source, target, verify=True, **options)
    assert report.ok
    return tegula.open_array(target), report.arrays[0]


@pytest.mark.parametrize("format", FORMATS)
def test_bitround_in_a_conversion(format: str) -> None:
    values = RNG.normal(size=(40, 30)).astype("f4")
    source = tegula.create_array({}, data=values, chunks=(40, 30) if format != "bcolz" else 40, format=format)
    result, line = converted(source, bitround=7)
    expected = np.asarray(BitRound(7).encode(values)).view("f4")
    assert result[...].tobytes() == expected.tobytes()
    assert result.nbytes_stored() < source.nbytes_stored() / 1.3
    error = np.abs(expected.astype("f8") - values)
    assert line.max_error == error.max()
    assert line.max_relative_error == (error / np.abs(values)).max() <= 2**-8
    assert line.chunks_copied == 0
    assert line.dtype == "float32"
    assert "rounded to 7 bits" in line.notes[-1]
    same, line = converted(source, bitround=23)
    assert same[...].tobytes() == values.tobytes()
    assert (line.max_error, line.max_relative_error) == (0.0, 0.0)


# --- packing


@pytest.mark.parametrize("new", ["zarr2", "zarr3"])
@pytest.mark.parametrize("old", ["zarr2", "zarr3"])
@pytest.mark.parametrize(("dtype", "missing"), [("i2", -(2**15)), ("u2", 2**16 - 1), ("i1", -128)])
def test_xarray_reads_packed_values_back(tmp_path: Path, old: str, new: str, dtype: str, missing: int) -> None:
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    values = RNG.uniform(-10, 30, (12, 9)).astype("f4")
    values[3, 4:] = np.nan
    scale, offset = (0.25, 10.0) if dtype == "i1" else (0.001, -20.0 if dtype == "u2" else 10.0)
    xarray.Dataset({"t": (("y", "x"), values, {"units": "K"})}).to_zarr(
        tmp_path / "old", zarr_format=int(old[-1]), consolidated=False, encoding={"t": {"chunks": (5, 5)}}
    )
    report = tegula.convert(
        tmp_path / "old", tmp_path / "new", format=new, dtype={"t": dtype}, scale_offset={"t": (scale, offset)},
        verify=True,
    )  # fmt: skip
    assert report.ok
    raw = tegula.open(tmp_path / "new")["t"]
    assert raw.dtype == np.dtype(dtype)
    assert (raw[3, 4:] == missing).all()
    assert (raw.attrs["scale_factor"], raw.attrs["add_offset"], raw.attrs["units"]) == (scale, offset, "K")
    with xarray.open_dataset(tmp_path / "new", engine="zarr", consolidated=False) as found:
        np.testing.assert_array_equal(np.isnan(found["t"].values), np.isnan(values))
        np.testing.assert_allclose(found["t"].values, values, atol=scale / 2 * 1.001)
        error = np.nanmax(np.abs(found["t"].values.astype("f8") - values))
    (line,) = report.arrays
    assert line.max_error == pytest.approx(error, rel=1e-3)
    assert line.max_error <= scale / 2 * 1.001
    with xarray.open_dataset(tmp_path / "new", engine="tegula") as found:
        np.testing.assert_allclose(found["t"].values, values, atol=scale / 2 * 1.001)


def test_masks_stay_missing() -> None:
    values = np.array([1.5, -999.0, np.nan, 1e20, 2.5, 0.0])
    source = tegula.create_array({}, data=values, attributes={"_FillValue": -999.0, "missing_value": [1e20]})
    result, line = converted(source, dtype="i2", scale_offset=(0.5, 0))
    assert result[:].tolist() == [3, -32768, -32768, -32768, 5, 0]
    assert result.attrs.asdict() == {"_FillValue": -32768, "scale_factor": 0.5, "add_offset": 0.0}
    assert line.max_error == 0
    # another floating-point type keeps the mask, rounded as the values are, and NaN
    result, line = converted(source, dtype="f4")
    expected = np.array([1.5, -999.0, np.nan, -999.0, 2.5, 0.0], "f4")
    np.testing.assert_array_equal(result[:], expected)
    assert result.attrs["_FillValue"] == -999.0
    # masks are not rounded
    result, _ = converted(source, bitround=0)
    np.testing.assert_array_equal(result[:], [2.0, -999.0, np.nan, -999.0, 2.0, 0.0])


@pytest.mark.parametrize("format", FORMATS)
def test_absent_chunks(format: str) -> None:
    options: dict[str, Any] = {"shape": 20, "chunks": 5, "dtype": "f8", "format": format}
    for fill, packed in ((0.0, -20), (10.0, 0), (1e9, None)):
        source = tegula.create_array({}, **options, fill_value=fill)
        source[:5] = 11
        if packed is None and format != "bcolz":
            source[...] = 11.0  # a fill value that no element holds need not fit
        if packed is not None or format != "bcolz":
            result, _ = converted(source, dtype="i2", scale_offset=(0.5, 10), format="zarr3")
            np.testing.assert_array_equal(result[...] * 0.5 + 10, source[...])
            assert result.fill_value == (packed if packed is not None else -(2**15))
            assert packed is None or result.nchunks_initialized() == 1
    wrong = tegula.create_array({}, **options, fill_value=1e9)
    wrong[:5] = 11
    with pytest.raises(CodecError, match=r"the value 1000000000.0 at \[5\] is out of the range of int16 when packed"):
        tegula.convert(wrong, tegula.MemoryStore(), dtype="i2", scale_offset=(0.5, 10))


@pytest.mark.slow
def test_a_huge_sparse_array_is_not_visited() -> None:
    source = tegula.create_array({}, shape=(10**9, 10**9), chunks=(100, 100), dtype="f8", fill_value=20.0)
    source[10**8, 5:8] = [1, 2, 3]
    result, line = converted(source, dtype="i2", scale_offset=(0.5, 10))
    assert result.nchunks_initialized() == 1
    assert result[10**8, 4:8].tolist() == [20, -18, -16, -14]
    assert line.max_error == 0


def test_types_of_ml_dtypes() -> None:
    source = tegula.create_array({}, data=np.array([1.0, 2.5, -3.0]))
    result, line = converted(source, dtype="bfloat16")
    assert result[:].astype("f8").tolist() == [1.0, 2.5, -3.0]
    result, line = converted(source, dtype="int4")
    assert result[:].astype("i8").tolist() == [1, 2, -3]
    assert line.max_error == 0.5
    back, _ = converted(result, dtype="f8")
    assert back[:].tolist() == [1.0, 2.0, -3.0]
    with pytest.raises(CodecError, match=r"-3.0 at \[2\] is out of the range of uint4"):
        converted(source, dtype="uint4")


def test_complex_numbers() -> None:
    source = tegula.create_array({}, data=np.array([1 + 2j, 0.1 - 1j]))
    result, line = converted(source, dtype="c8")
    np.testing.assert_array_equal(result[:], source[:].astype("c8"))
    assert line.max_error == np.abs(source[:].astype("c8").astype("c16") - source[:]).max()
    for options in ({"dtype": "f8"}, {"dtype": "i2", "scale_offset": (1, 0)}, {"bitround": 3}):
        with pytest.raises(UnsupportedError):
            tegula.convert(source, tegula.MemoryStore(), **options)


@pytest.mark.parametrize("codecs", [["delta", "zlib"], ["shuffle", "zlib"], {"id": "blosc"}, ["fixedscaleoffset"]])
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_codecs_fit_the_new_type(format: str, codecs: Any) -> None:
    if codecs == ["fixedscaleoffset"]:
        codecs = [{"id": "fixedscaleoffset", "offset": 0, "scale": 1, "dtype": "<f8", "astype": "<i4"}]
    values = RNG.integers(0, 99, (20, 20)).astype("f8")
    source = tegula.create_array({}, data=values, chunks=7, codecs=codecs, format="zarr2")
    result, _ = converted(source, dtype="i2", format=format)
    np.testing.assert_array_equal(result[...], values)
    assert tegula.check(result).ok


# --- hierarchies, and errors


def station(store: tegula.MemoryStore) -> tegula.Group:
    group = tegula.create_group(store)
    group.create_array("time", data=np.arange(10) * 1.1, dimension_names=["time"])
    group.create_array("t", data=RNG.normal(size=10), dimension_names=["time"])
    group.create_array("deep/p", data=RNG.normal(size=10).astype("f4"), dimension_names=["time"])
    group.create_array("count", data=np.arange(10))
    group.create_array("name", data=np.full(10, "a"))
    return group


def test_plain_values_are_for_numbers_of_their_kind() -> None:
    source, target = tegula.MemoryStore(), tegula.MemoryStore()
    station(source)
    report = tegula.convert(source, target, dtype="f4", bitround=5, verify=True)
    assert report.ok
    nodes = tegula.open_group(target).walk()
    kinds = {path: node.dtype for path, node in nodes if isinstance(node, tegula.Array)}
    assert {name: str(dtype) for name, dtype in kinds.items() if name != "name"} == {
        "time": "float64", "t": "float32", "deep/p": "float32", "count": "int64",
    }  # fmt: skip
    assert {item.path for item in report.arrays if item.max_error is not None} == {"t", "deep/p"}
    (first, second) = report.notes[""]
    assert first.startswith(
        "dtype float32 is not meant for dimension coordinates and other kinds of elements: 3 arrays"
    )
    assert second.startswith("bitround 5 is not meant for ")


def test_rules_by_array() -> None:
    source, target = tegula.MemoryStore(), tegula.MemoryStore()
    station(source)
    report = tegula.convert(
        source, target, dtype={"t": "i2", "/deep/*": "i4", "count": "u1"}, scale_offset={"t": (0.01, 0), "p": (0.1, 1)},
        bitround={"time": 20},
    )  # fmt: skip
    assert report.ok
    group = tegula.open_group(target)
    assert [str(group[name].dtype) for name in ("time", "t", "deep/p", "count")] == [
        "float64", "int16", "int32", "uint8",
    ]  # fmt: skip
    assert group["deep/p"].attrs["add_offset"] == 1
    assert not report.notes
    with pytest.raises(MetadataError, match="the rule q=5 matches no array; arrays: "):
        tegula.convert(source, tegula.MemoryStore(), bitround={"q": 5})
    # a rule that an array can't follow is reported
    report = tegula.convert(source, tegula.MemoryStore(), bitround={"count": 5}, dtype={"name": "f4"})
    assert sorted(report.failed) == ["count", "name"]
    assert "bitround is for floating-point numbers" in report.failed["count"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "nonsense"}, "not a data type"), ({"dtype": "U3"}, "numbers only"),
        ({"dtype": "M8[s]"}, "numbers only"),
        ({"scale_offset": 3}, "two numbers"), ({"scale_offset": (0, 1)}, "two numbers"),
        ({"scale_offset": (1, float("nan"))}, "two numbers"), ({"scale_offset": "ab"}, "two numbers"),
        ({"scale_offset": (1, 0)}, "need a dtype"), ({"scale_offset": (1, 0), "dtype": "?"}, "need a dtype"),
        ({"bitround": -1}, "number of bits"), ({"bitround": 53}, "number of bits"),
        ({"bitround": True}, "number of bits"),
        ({"bitround": 24, "dtype": "f4"}, "23 bits of the fraction, fewer than 24"),
        ({"bitround": 5, "dtype": "i4"}, "bitround is for floating-point"),
        ({"dtype": "i2"}, r"the value nan at \[2\] is missing, and int16 has no value for that"),
        ({"dtype": "f2"}, r"the value 1e\+30 at \[1\] is out of the range of float16"),
        ({"dtype": "i8", "scale_offset": (1, 0)}, r"1e\+30 at \[1\] is out of the range of int64 when packed"),
        ({"dtype": "u1", "scale_offset": (1, -253.5), "select": slice(1)}, "would become 255, the value that marks"),
    ],
)  # fmt: skip
def test_errors_name_the_element_and_leave_nothing(options: dict[str, Any], message: str) -> None:
    source, target = tegula.MemoryStore(), tegula.MemoryStore()
    tegula.save(source, np.array([1.5, 1e30, np.nan, 3.0]))
    before = {key: source.get(key) for key in source.list()}
    with pytest.raises(TegulaError, match=message) as caught:
        tegula.convert(source, target, **options)
    if isinstance(caught.value, CodecError):
        assert caught.value.path is not None
    assert [*target.list()] == []
    assert {key: source.get(key) for key in source.list()} == before


def test_packed_values_are_not_packed_again() -> None:
    source = tegula.create_array({}, data=np.arange(3.0), attributes={"scale_factor": 2.0})
    with pytest.raises(MetadataError, match="packed already"):
        tegula.convert(source, tegula.MemoryStore(), dtype="i2", scale_offset=(1, 0))
    result, _ = converted(source, dtype="f4")
    assert result.attrs.asdict() == {"scale_factor": 2.0}
    masked = tegula.create_array({}, data=np.arange(3.0), attributes={"_FillValue": 1e30})
    with pytest.raises(UnsupportedError, match="marks missing data and is out of the range of int16"):
        tegula.convert(masked, tegula.MemoryStore(), dtype="i2")


def test_parts_of_arrays_and_dry_runs() -> None:
    source = tegula.create_array({}, data=np.arange(100.0).reshape(10, 10), chunks=3)
    result, _ = converted(source, dtype="i1", select=(slice(2, 8), 5))
    assert result[:].tolist() == [25, 35, 45, 55, 65, 75]
    source[4, 5] = 1e6
    with pytest.raises(CodecError, match=r"1000000.0 at \[2\]"):
        converted(source, dtype="i1", select=(slice(2, 8), 5))
    report = tegula.convert(source, tegula.MemoryStore(), dtype="i1", dry_run=True)
    assert (report.arrays[0].dtype, report.arrays[0].max_error) == ("int8", None)


def test_a_ledger_remembers_the_precision_and_the_error(tmp_path: Path) -> None:
    tegula.save(tmp_path / "old", RNG.normal(size=(40, 30)))
    plain = tegula.convert(tmp_path / "old", tegula.MemoryStore(), bitround=9, verify=True).arrays[0]
    line = tegula.convert(tmp_path / "old", tmp_path / "new", bitround=9, verify=True, resume=True).arrays[0]
    assert (line.max_error, line.max_relative_error) == (plain.max_error, plain.max_relative_error)
    assert line.digest == plain.digest == tegula.checksum(tmp_path / "new")
    with pytest.raises(AlreadyExistsError):
        tegula.convert(tmp_path / "old", tmp_path / "new", bitround=5, resume=True)
