"""Data sets of xarray read the same with xarray after they were converted."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import example, given
from hypothesis import strategies as st

import tegula

xr = pytest.importorskip("xarray")
KEPT = ("_FillValue", "missing_value", "scale_factor", "add_offset", "dtype", "units", "calendar", "_Unsigned")
WAYS = [(2, 3), (3, 2), (2, 2), (3, 3)]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Let xarray and zarr-python warn of data types without a specification."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def dataset() -> Any:
    """Return a data set with each kind of mask and each type that xarray can store."""
    small = {"dtype": "i2", "scale_factor": 0.1, "chunks": (1, 2)}
    return xr.Dataset(
        {
            "packed": (("y", "x"), np.array([[1.0, np.nan], [0, 0]]), {"units": "K"}, {**small, "_FillValue": -999}),
            "masked_0": ("x", np.array([0.0, 5]), {}, {"dtype": "i4", "_FillValue": 0}),
            "unsigned": ("x", np.array([1, np.nan]), {}, {"dtype": "i1", "_Unsigned": "true", "_FillValue": -1}),
            "float": ("x", np.array([1, np.nan], "f4")),
            "float_1e20": ("x", np.array([1, np.nan], "f4"), {}, {"_FillValue": np.float32(1e20)}),
            "double_0": ("x", np.array([0.0, np.nan]), {}, {"_FillValue": -1.5}),
            "complex": ("x", np.array([0, 4j])),
            "time": ("x", np.array(["2020-01-01", "NaT"], "M8[ns]")),
            "span": ("x", np.array([0, 3], "m8[h]").astype("m8[ns]")),
            "bool": ("x", np.array([True, False])),
            "int": ("y", np.array([0, 1], ">i4"), {}, {"chunks": (1,)}),
            "fixed": ("x", np.array(["é", ""])),
            "bytes": ("x", np.array([b"a", b""])),
            "strings": ("x", np.array(["a", ""], object)),
            "scalar": ((), 0, {"grid_mapping_name": "latitude_longitude"}),
        },
        coords={"x": [0, 1], "label": ("y", ["p", "q"])},
        attrs={"title": "an example", "version": 1.0},
    )


def assert_same(one: Any, two: Any) -> None:
    """Compare values, masks, types, attributes, and the encodings that say what is stored."""
    xr.testing.assert_identical(one, two)
    for name in one.variables:
        assert one[name].dtype == two[name].dtype
        first, second = one[name].encoding, two[name].encoding
        for key in KEPT:
            np.testing.assert_equal(_plain(first.get(key)), _plain(second.get(key)), err_msg=f"{name}: {key}")


def _plain(value: Any) -> Any:
    if isinstance(value, np.dtype) and value.kind != "T":
        return value.newbyteorder("=")  # in Zarr v3 the order of bytes is no part of the type
    return value.item() if isinstance(value, np.generic) else value


def opened(path: Path, **options: Any) -> Any:
    with xr.open_zarr(path, **options) as found:
        return found.load()


@pytest.mark.slow
@pytest.mark.sampled(one_in=8)
@pytest.mark.parametrize(("old", "new"), WAYS)
@pytest.mark.parametrize("chunks", [None, 1])
def test_a_data_set_is_identical_after_conversion_and_after_the_way_back(
    old: int, new: int, chunks: int | None, tmp_path: Path
) -> None:
    dataset().to_zarr(tmp_path / "a.zarr", zarr_format=old, consolidated=True)
    report = tegula.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format=f"zarr{new}", chunks=chunks, verify=True)
    assert report.ok
    assert tegula.convert(tmp_path / "b.zarr", tmp_path / "c.zarr", format=f"zarr{old}", verify=True).ok
    source = opened(tmp_path / "a.zarr", consolidated=True)
    assert_same(source, opened(tmp_path / "b.zarr", consolidated=True))
    assert_same(source, opened(tmp_path / "c.zarr", consolidated=True))
    assert tegula.check(tmp_path / "b.zarr").findings == []


@st.composite
def masked(draw: st.DrawFn) -> tuple[str, list[int], Any, Any, tuple[int, int], int]:
    """Draw a data type, values, their mask, the fill value, two versions of Zarr, and how many values are stored."""
    dtype = draw(st.sampled_from(["i1", "u1", "<i2", ">u4", "i8", "f4", ">f8", "c16", "bool"]))
    values = draw(st.lists(st.sampled_from([0, 1, 2, 5, 100]), min_size=4, max_size=4))
    numbers = st.sampled_from([*values, 7] + ([float("nan"), float("inf")] if np.dtype(dtype).kind in "fc" else []))
    masks = st.none() | numbers.map(lambda number: np.dtype(dtype).type(number).item())
    return dtype, values, draw(masks), draw(masks), draw(st.sampled_from([(2, 3), (3, 2)])), draw(st.integers(0, 4))


@pytest.mark.slow
@given(case=masked())
@example(case=("c16", [0] * 4, 7 + 0j, None, (3, 2), 0))
@example(case=("c16", [0] * 4, None, complex("nan"), (3, 2), 0))
@example(case=("f4", [0] * 4, None, float("nan"), (3, 2), 0))
def test_any_mask_of_any_number_survives(case: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("masks")
    name, numbers, mask, fill, (old, new), stored = case
    dtype = np.dtype(name)
    group = zarr.open_group(path / "a.zarr", mode="w", zarr_format=old)
    names: dict[str, Any] = {"dimension_names": ["x"]} if old == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["x"]}}
    if old == 3 and fill is None:
        fill = 0
    array = group.create_array("v", shape=(4,), chunks=(1,), dtype=dtype, fill_value=fill, **names)
    array[:stored] = np.array(numbers).astype(dtype)[:stored]
    if mask is not None and old == 3:
        array.attrs["_FillValue"] = xr.backends.zarr.FillValueCoder.encode(mask, dtype)
    elif mask is not None and fill is None and dtype.kind in "iu":
        array.attrs["_FillValue"] = mask  # which counts where the fill value is undefined
    assert tegula.convert(path / "a.zarr", path / "b.zarr", format=f"zarr{new}", verify=True).ok
    before, after = (opened(path / name, consolidated=False) for name in ("a.zarr", "b.zarr"))
    if old == 3 and mask is None and np.isnan(fill):  # it stays the fill value, since NaN is missing in any case
        assert np.isnan(after["v"].encoding.pop("_FillValue"))
    assert_same(before, after)


@pytest.mark.slow
def test_names_of_dimensions_move_and_are_not_left_behind(tmp_path: Path) -> None:
    dataset().to_zarr(tmp_path / "a.zarr", zarr_format=2)
    tegula.convert(tmp_path / "a.zarr", tmp_path / "b.zarr")
    packed = tegula.open_array(tmp_path / "b.zarr", path="packed")
    assert packed.dimension_names == ("y", "x")
    assert dict(packed.attrs) == {"units": "K", "scale_factor": 0.1, "coordinates": "label", "_FillValue": -999}
    assert tegula.open_array(tmp_path / "b.zarr", path="scalar").dimension_names == ()
    for number, format in enumerate(("zarr1", "bcolz")):
        report = tegula.convert(tmp_path / "b.zarr", tmp_path / str(number), format=format, codecs="auto")
        kept = tegula.open_array(tmp_path / str(number), path="packed")
        assert kept.dimension_names == ("y", "x") == tuple(kept.attrs["_ARRAY_DIMENSIONS"])
        assert not [note for item in report.arrays for note in item.notes if "names" in note]
        tegula.convert(tmp_path / str(number), tmp_path / f"{number}.zarr")
        again = tegula.open_array(tmp_path / f"{number}.zarr", path="packed")
        assert (again.dimension_names, dict(again.attrs)) == (("y", "x"), dict(packed.attrs))


def test_chunks_that_the_fill_value_stands_for_no_more_are_stored(tmp_path: Path) -> None:
    source = tegula.create_array(
        tmp_path / "a.zarr", path="v", shape=(4, 4), chunks=(2, 2), dtype="i2", fill_value=0, codecs="zstd",
        dimension_names=["y", "x"],
    )  # fmt: skip
    source[:2, :2] = 7
    report = tegula.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format="zarr2", verify=True)
    target = tegula.open_array(tmp_path / "b.zarr", path="v")
    assert target.metadata.fill_value is None
    assert target.nchunks_initialized() == 4
    assert report.arrays[0].chunks_copied == 1  # without being compressed anew
    assert "fill value was 0 and is now undefined" in report.arrays[0].notes[0]
    plain = tegula.create_array(tmp_path / "plain.zarr", path="v", shape=4, chunks=2, dtype="i2", fill_value=5)
    plain[:2] = 7
    tegula.convert(tmp_path / "plain.zarr", tmp_path / "c.zarr", format="zarr2")
    copy = tegula.open_array(tmp_path / "c.zarr", path="v")
    assert (copy.metadata.fill_value, copy.nchunks_initialized(), dict(copy.attrs)) == (5, 1, {})


def test_huge_sparse_array_keeps_its_fill_value_with_a_note(tmp_path: Path) -> None:
    shape, chunks = (10**5, 10**5), (10, 10)
    tegula.create_array(
        tmp_path / "a.zarr", path="v", shape=shape, chunks=chunks, dtype="i2", dimension_names=["y", "x"]
    )
    report = tegula.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format="zarr2", dry_run=True)
    assert "100000000 chunks" in report.arrays[0].notes[0]


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_attributes_of_other_conventions_are_not_touched(format: str, tmp_path: Path) -> None:
    attributes = {
        "multiscales": [{"axes": [{"name": "y", "type": "space"}], "version": "0.4", "x": 1e-7}], "_FillValue": -1,
        "proj:code": "EPSG:3857", "encoding-type": "array", "encoding-version": "0.2.0", "omero": {"é": [None, True]},
    }  # fmt: skip
    other = "zarr3" if format == "zarr2" else "zarr2"
    source = tegula.create_array(
        tmp_path / "a.zarr", path="0", shape=4, dtype="u2", attributes=attributes, format=other
    )
    tegula.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format=format)
    copy = tegula.open_array(tmp_path / "b.zarr", path="0")
    assert dict(copy.attrs) == attributes == dict(source.attrs)
    assert copy.metadata.fill_value == 0


def test_what_xarray_can_not_read_in_v3_is_left_out_with_a_note(tmp_path: Path) -> None:
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    names = {"_ARRAY_DIMENSIONS": ["x"]}
    group.create_array("s", shape=(2,), dtype="S2", fill_value=b"x", attributes=names)
    group.create_array("t", shape=(2,), dtype="M8[s]", fill_value=0, attributes={**names, "_FillValue": 0})
    group.create_array("f", shape=(2,), dtype="f4", fill_value=None, attributes={**names, "_FillValue": "NaN"})
    report = tegula.convert(tmp_path / "a.zarr", tmp_path / "b.zarr")
    notes = {item.path: " ".join(item.notes) for item in report.arrays}
    assert "b'x' marks missing data, but not for xarray's own engine" in notes["s"]
    with xr.open_dataset(tmp_path / "b.zarr", engine="tegula") as ours:
        assert ours["s"].isnull().all()
    assert "no longer marks" in notes["t"]
    assert {*opened(tmp_path / "b.zarr", consolidated=False)} == {"s", "t", "f"}


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), WAYS)
def test_a_tree_of_data_sets_is_identical(old: int, new: int, tmp_path: Path) -> None:
    fine = dataset().isel(y=[0]).drop_vars("label")
    tree = xr.DataTree.from_dict(
        {"/": dataset()[["float", "scalar"]], "/fine": fine, "/fine/inner": xr.Dataset({"a": 3})}
    )
    tree.to_zarr(tmp_path / "a.zarr", zarr_format=old, consolidated=True)
    assert tegula.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format=f"zarr{new}").ok
    with (
        xr.open_datatree(tmp_path / "a.zarr", engine="zarr", consolidated=True) as one,
        xr.open_datatree(tmp_path / "b.zarr", engine="zarr", consolidated=True) as two,
    ):
        for path in ("/", "/fine", "/fine/inner"):
            assert_same(one[path].to_dataset().load(), two[path].to_dataset().load())
