"""``tegula.downsample``: pyramids, compared with NumPy on whole arrays and with the models of OME-Zarr."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from waves import WaveStore

import tegula
from tegula.errors import (
    AlreadyExistsError,
    CodecError,
    MetadataError,
    ReadOnlyError,
    TegulaError,
    UnsupportedError,
)
from tegula.jobs import units
from tegula.jobs.downsampling.levels import Reduction

RNG = np.random.default_rng(3)
YX = ["y", "x"]


def reduced(values: Any, factors: Any, method: str, masks: Any = ()) -> Any:
    return Reduction(tuple(factors), method, tuple(masks)).of(values)


@pytest.mark.slow
@settings(max_examples=80)
@given(st.data())
def test_each_level_is_made_of_the_one_before(data: Any) -> None:
    shape = data.draw(npst.array_shapes(min_dims=2, max_dims=3, max_side=20))
    dtype = data.draw(st.sampled_from(["?", "u1", "i4", "f4", "c8", "M8[s]"]))
    method = data.draw(st.sampled_from(["mean", "mode", "nearest"]))
    values = data.draw(npst.arrays(np.dtype("i8"), shape, elements=st.integers(0, 9))).astype(dtype)
    values[data.draw(st.integers(0, 20)) :] = np.zeros((), dtype)
    options: dict[str, Any] = {"chunks": tuple(data.draw(st.integers(1, 6)) for _ in shape)}
    if data.draw(st.booleans()):
        options["shards"] = tuple(2 * length for length in options["chunks"])
    factors = tuple(data.draw(st.integers(1, 3)) for _ in shape)
    assume(any(factor > 1 for factor in factors))
    source = tegula.create_array({}, data=values, **options)
    target = tegula.MemoryStore()
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            patch.setattr(units, "BLOCK_BYTES", 64)
        found = tegula.downsample(source, target, factors=factors, levels=3, method=method)
    group = tegula.open_group(target)
    expected = values
    for level in found.levels:
        array = group[level.path]
        np.testing.assert_array_equal(array[...], expected)
        assert (array.shape, array.chunks, array.dtype) == (level.shape, level.chunks, values.dtype)
        assert array.dimension_names == tuple("zyx"[-len(shape) :])
        expected = reduced(expected, factors, method)
    assert [level.path for level in found.levels] == ["s0", "s1", "s2", "s3"]
    assert tegula.check(target).ok


def test_metadata() -> None:
    target = tegula.MemoryStore()
    source = tegula.create_array({}, data=np.zeros((2, 3, 50, 70), "u1"), chunks=(1, 1, 20, 20))
    axes = ["t", {"name": "stain", "type": "channel"}, {"name": "y", "type": "space", "unit": "micrometer"}, "x"]
    tegula.downsample(source, target, axes=axes, scale={"y": 0.5, "x": 0.25, "t": 3}, name="cells")
    group = tegula.open_group(target)
    assert (group.format, [*group]) == ("zarr3", ["s0", "s1", "s2"])
    (pyramid,) = group.attrs["ome"]["multiscales"]
    assert group.attrs["ome"]["version"] == "0.5"
    assert pyramid["name"] == "cells"
    assert pyramid["type"] == "mean"
    assert pyramid["axes"] == [
        {"name": "t", "type": "time"}, {"name": "stain", "type": "channel"},
        {"name": "y", "type": "space", "unit": "micrometer"}, {"name": "x", "type": "space"},
    ]  # fmt: skip
    assert pyramid["datasets"] == [
        {"path": "s0", "coordinateTransformations": [{"type": "scale", "scale": [3.0, 1.0, 0.5, 0.25]}]},
        {"path": "s1", "coordinateTransformations": [
            {"type": "scale", "scale": [3.0, 1.0, 1.0, 0.5]},
            {"type": "translation", "translation": [0.0, 0.0, 0.25, 0.125]}]},
        {"path": "s2", "coordinateTransformations": [
            {"type": "scale", "scale": [3.0, 1.0, 2.0, 1.0]},
            {"type": "translation", "translation": [0.0, 0.0, 0.75, 0.375]}]},
    ]  # fmt: skip
    assert group["s2"].shape == (2, 3, 13, 18)
    assert group["s2"].dimension_names == ("t", "stain", "y", "x")
    nearest = tegula.MemoryStore()
    tegula.downsample(source, nearest, axes="tcyx", method="nearest", levels=1)
    last = tegula.open_group(nearest).attrs["ome"]["multiscales"][0]["datasets"][-1]["coordinateTransformations"]
    assert [step["type"] for step in last] == ["scale"]  # its elements are elements of the array


def test_axes_of_0_6_belong_to_a_coordinate_system() -> None:
    source = tegula.create_array({}, data=np.zeros((40, 40), "u1"), chunks=20)
    older, newer = tegula.MemoryStore(), tegula.MemoryStore()
    tegula.downsample(source, older, scale=0.5)
    tegula.downsample(source, newer, scale=0.5, ome_version="0.6")
    group = tegula.open_group(newer)
    assert group.attrs["ome"]["version"] == "0.6"
    (old,), (new,) = (tegula.open_group(each).attrs["ome"]["multiscales"] for each in (older, newer))
    assert new["coordinateSystems"] == [{"name": "intrinsic", "axes": old["axes"]}]
    assert "axes" not in new
    ends = [{"input": {"path": path}, "output": {"name": "intrinsic"}} for path in ("s0", "s1")]
    assert [item["path"] for item in new["datasets"]] == ["s0", "s1"]
    assert [item["coordinateTransformations"] for item in new["datasets"]] == [
        [{"type": "scale", "scale": [0.5, 0.5], **ends[0]}],
        [{"type": "sequence", "transformations": old["datasets"][1]["coordinateTransformations"], **ends[1]}],
    ]
    np.testing.assert_array_equal(group["s1"][:], tegula.open_group(older)["s1"][:])
    with pytest.raises(MetadataError, match=r"'0\.4' is not 0\.5 or 0\.6"):
        tegula.downsample(source, {}, ome_version="0.4")  # type: ignore[arg-type]


@pytest.mark.parametrize("versions", [("0.5", "0.6"), ("0.6", "0.5")])
def test_a_pyramid_of_either_version_replaces_one_of_the_other(versions: tuple[Any, Any]) -> None:
    store = tegula.MemoryStore()
    image = tegula.create_group(store).create_array(
        "image", data=np.zeros((80, 80), "u1"), chunks=10, dimension_names=YX
    )
    tegula.downsample(image, ome_version=versions[0])
    assert [*tegula.open_group(store)] == ["image", "s1", "s2", "s3"]
    tegula.downsample(image, levels=1, overwrite=True, ome_version=versions[1])
    group = tegula.open_group(store)
    assert ([*group], group.attrs["ome"]["version"]) == (["image", "s1"], versions[1])


@pytest.mark.slow
@pytest.mark.parametrize("names", [("y", "x"), ("time", "lat", "lon"), ("t", "c", "z", "y", "x")])
def test_the_models_of_ome_zarr_accept_it(tmp_path: Path, names: tuple[str, ...]) -> None:
    models = pytest.importorskip("ome_zarr_models.v05", reason="ome-zarr-models is not installed")
    zarr = pytest.importorskip("zarr", minversion="3", reason="zarr-python 3 is not installed")
    values = RNG.integers(0, 99, (2, 2, 9, 30, 40)[-len(names) :], "u2")
    source = tegula.create_array({}, data=values, chunks=10, dimension_names=names)
    tegula.downsample(source, tmp_path / "x.zarr", shards=20)
    group = zarr.open_group(tmp_path / "x.zarr", mode="r")
    image = models.Image.from_zarr(group)
    assert [axis.name for axis in image.ome_attributes.multiscales[0].axes] == [*names]
    np.testing.assert_array_equal(group["s1"][...], reduced(values, [1] * (len(names) - 2 - ("z" in names)) +
                                                            [2] * (2 + ("z" in names)), "mean"))  # fmt: skip


@pytest.mark.parametrize("how", ["array", "path", "url", "named"])
def test_an_array_stays_where_it_is(tmp_path: Path, how: str) -> None:
    group = tegula.create_group(tmp_path / "g", attributes={"title": "x"})
    image = group.create_array("deep/image", data=np.arange(400.0).reshape(20, 20), chunks=(5, 5), dimension_names=YX)
    document = (tmp_path / "g/deep/image/zarr.json").read_bytes()
    if how == "array":
        found = tegula.downsample(image)
    elif how == "path":
        found = tegula.downsample(tmp_path / "g/deep/image")
    elif how == "url":
        found = tegula.downsample(tegula.open(tmp_path / "g", path="deep/image"), tmp_path / "g/deep")
    else:
        found = tegula.downsample(str(tmp_path / "g/deep/image"), str(tmp_path / "g"), path="deep")
    assert [level.path for level in found.levels] == ["image", "s1", "s2"]
    assert (tmp_path / "g/deep/image/zarr.json").read_bytes() == document
    deep = tegula.open_group(tmp_path / "g", path="deep")
    assert [*deep] == ["image", "s1", "s2"]
    np.testing.assert_array_equal(deep["s1"][...], reduced(image[...], (2, 2), "mean"))
    assert [item["path"] for item in deep.attrs["ome"]["multiscales"][0]["datasets"]] == ["image", "s1", "s2"]
    # again: only with overwrite, which removes levels that are no longer there
    with pytest.raises(AlreadyExistsError, match="has a pyramid"):
        tegula.downsample(deep["image"], tmp_path / "g", path="deep")
    found = tegula.downsample(deep["image"], tmp_path / "g", path="deep", levels=1, overwrite=True, factors=4)
    assert [*tegula.open_group(tmp_path / "g", path="deep")] == ["image", "s1"]
    assert found.levels[1].shape == (5, 5)


def test_a_group_that_holds_the_array_of_another_level(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g")
    image = group.create_array("s1", data=np.zeros((20, 20)), chunks=5, dimension_names=YX)
    with pytest.raises(AlreadyExistsError, match="name of a level"):
        tegula.downsample(image, overwrite=True)
    assert [*group] == ["s1"]
    unnamed = group.create_array("a", data=np.zeros((20, 20)))
    with pytest.raises(MetadataError, match="demands the names"):
        tegula.downsample(unnamed)
    with pytest.raises(ReadOnlyError):
        tegula.downsample(tegula.open(tmp_path / "g")["s1"])
    old = tegula.create_array(tmp_path / "old/x", data=np.zeros((20, 20)), format="zarr2")
    with pytest.raises(UnsupportedError, match="Zarr v3, not zarr2"):
        tegula.downsample(old, tmp_path / "old")
    with pytest.raises(MetadataError, match="keeps its chunks"):
        tegula.downsample(image, tmp_path / "g", chunks=3)


@pytest.mark.parametrize("how", ["default", "path", "resume", "of a file"])
def test_a_variable_of_a_data_set_gets_a_pyramid_in_a_group_of_its_own(tmp_path: Path, how: str) -> None:
    group = data_set(tmp_path / "x.zarr", consolidated=how != "resume")
    before = xarray.open_dataset(tmp_path / "x.zarr", engine="tegula").load()
    if how == "path":
        found = tegula.downsample(group["t"], path="deep/small")
    elif how == "of a file":
        found = tegula.downsample(tmp_path / "x.zarr/t")
    else:
        found = tegula.downsample(group["t"], resume=True if how == "resume" else None)
        with pytest.raises(tegula.AlreadyExistsError):
            tegula.downsample(group["t"])
        tegula.downsample(group["t"], overwrite=True)
    name = "deep/small" if how == "path" else "t_pyramid"
    assert found.target == f"{group.store.url}/{name}"
    assert [level.path for level in found.levels] == ["s0", "s1", "s2"]
    assert [*tegula.open(tmp_path / "x.zarr")[name]] == ["s0", "s1", "s2"]
    assert (tegula.open(tmp_path / "x.zarr")[f"{name}/s0"][...] == group["t"][...]).all()
    assert "ome" not in tegula.open(tmp_path / "x.zarr").attrs
    assert tegula.check(tmp_path / "x.zarr").ok
    assert not tegula.check(tmp_path / "x.zarr").counts.keys() & {"consolidated-missing", "consolidated-differs"}
    assert xarray.open_dataset(tmp_path / "x.zarr", engine="tegula").identical(before)
    if how != "resume":
        assert name in tegula.open_group(tmp_path / "x.zarr", consolidated=True)


@pytest.mark.parametrize("target", ["group", "above"])
def test_levels_beside_other_variables_are_refused(tmp_path: Path, target: str) -> None:
    group = data_set(tmp_path / "x.zarr")
    source = group["t"]
    if target == "above":
        values, names = group["t"][...], group["t"].dimension_names
        source = group.create_array("deep/t", data=values, chunks=(1, 8, 8), dimension_names=names)
    before = {key: group.store.get(key) for key in group.store.list()}
    for options in ({}, {"dry_run": True}, {"overwrite": True}, {"resume": True}):
        with pytest.raises(tegula.MetadataError, match=r"other variables \(crs, lat, .*such as t_pyramid"):
            tegula.downsample(source, tmp_path / "x.zarr", **options)
    assert {key: group.store.get(key) for key in group.store.list()} == before


def test_an_image_without_other_variables_keeps_its_levels_beside_it(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "x.zarr")
    group.create_array("image", data=np.zeros((20, 20)), chunks=5, dimension_names=YX)
    group.create_array("loose", data=np.zeros((3, 4)))  # xarray reads no group with it
    group.create_array("labels/cells", data=np.zeros((20, 20)), dimension_names=YX)
    for options in ({}, {"overwrite": True}, {"overwrite": True, "levels": 1}):
        assert [level.path for level in tegula.downsample(group["image"], **options).levels][:2] == ["image", "s1"]
    assert [*tegula.open(tmp_path / "x.zarr")] == ["image", "labels", "loose", "s1"]


def data_set(place: Path, *, consolidated: bool = True) -> tegula.Group:
    """Make a data set as xarray does, with a scalar variable and coordinates."""
    group = tegula.create_group(place, attributes={"Conventions": "CF-1.11"})
    for name, values, dims in (
        ("t", RNG.normal(size=(2, 20, 24)), ["time", "lat", "lon"]),
        ("time", np.arange(2.0), ["time"]),
        ("lat", np.arange(20.0), ["lat"]),
        ("lon", np.arange(24.0), ["lon"]),
        ("crs", np.array(0), []),
    ):
        chunks = (1, 8, 8) if name == "t" else values.shape
        group.create_array(
            name, data=values, chunks=chunks, dimension_names=dims, fill_value=np.nan if name == "t" else 9
        )
    if consolidated:
        group.consolidate()
    return group


def test_consolidated_metadata_are_written_anew() -> None:
    store = tegula.MemoryStore()
    group = tegula.create_group(store)
    image = group.create_array("image", data=np.zeros((20, 20)), chunks=5, dimension_names=YX)
    group.consolidate()
    tegula.downsample(image)
    assert tegula.check(store).ok
    assert not tegula.check(store).counts


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "bcolz"])
def test_from_every_format(format: str) -> None:
    values = RNG.normal(size=(30, 20)).astype("f4")
    source = tegula.create_array({}, data=values, format=format)
    target = tegula.MemoryStore()
    tegula.downsample(source, target, chunks=(8, 8), codecs="gzip", levels=1)
    level = tegula.open_group(target)["s1"]
    assert (level.chunks, [codec.name for codec in level.metadata.codecs][-1]) == ((8, 8), "gzip")
    np.testing.assert_array_equal(level[...], reduced(values, (2, 2), "mean"))


def test_missing_values() -> None:
    values = np.array([[1, 2, -9, -9], [-9, 4, -9, -9]], "i2")
    options: dict[str, Any] = {"data": values, "dimension_names": YX, "chunks": (1, 1)}
    marked = tegula.create_array({}, **options, attributes={"_FillValue": -9})
    plain = tegula.create_array({}, **options, fill_value=-9)
    for source, more in ((marked, {}), (plain, {"missing": "fill_value"}), (plain, {"missing": -9})):
        target = tegula.MemoryStore()
        tegula.downsample(source, target, levels=1, **more)
        assert tegula.open_group(target)["s1"][...].tolist() == [[2, -9]]
    target = tegula.MemoryStore()
    tegula.downsample(plain, target, levels=1)
    assert tegula.open_group(target)["s1"][...].tolist() == [[0, -9]]
    assert tegula.open_group(target)["s1"].nchunks_initialized() == 1  # a block of fill values is not stored
    with pytest.raises(MetadataError, match="missing"):
        tegula.downsample(plain, tegula.MemoryStore(), missing="x")


@pytest.mark.parametrize("shards", [None, (1000, 1000)])
def test_absent_chunks_are_not_visited(shards: Any) -> None:
    source = tegula.create_array({}, shape=(10**7, 10**7), chunks=(100, 100), shards=shards, dtype="i2", fill_value=3)
    source[5_000_000:5_000_004, 7_000_001] = 7
    target = tegula.MemoryStore()
    tegula.downsample(source, target, levels=2)
    group = tegula.open_group(target)
    assert group["s1"].shape == (5_000_000, 5_000_000)
    assert group["s1"][2_500_000:2_500_002, 3_500_000].tolist() == [5, 5]
    assert group["s2"][1_250_000, 1_750_000] == 4
    assert sum(key.startswith("s2/c/") for key in target.list()) == 1
    assert group["s2"][0, 0] == 3
    # blocks of fill values that become another value would all have to be stored
    odd = tegula.create_array({}, shape=(10**7, 10**7), chunks=(100, 100), dtype="f8", fill_value=0.1)
    tegula.downsample(odd, tegula.MemoryStore(), levels=1)
    with pytest.raises(UnsupportedError, match="max_chunks"):
        tegula.downsample(odd, tegula.MemoryStore(), levels=1, factors=3)


@pytest.mark.slow
def test_memory_is_bounded() -> None:
    source = tegula.create_array({}, shape=(4000, 4000), chunks=(250, 250), dtype="u1", codecs="zstd")
    source[...] = 7
    target = tegula.MemoryStore()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "BLOCK_BYTES", 2**20)
        tracemalloc.start()
        tegula.downsample(source, target, levels=2)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (tegula.open_group(target)["s2"][...] == 7).all()
    assert peak < 20e6  # the array has 16 MB, and means of it in 64 bits 128 MB


def contents(store: tegula.MemoryStore) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factors": 0}, "are not factors"), ({"factors": 1}, "2 to 1048576 elements"),
        ({"factors": (2, 2, 2)}, "for 2 axes"), ({"factors": {"q": 2}}, "none of the axes y, x"),
        ({"factors": 2.5}, "are not factors"), ({"factors": 10**9}, "elements"), ({"levels": 0}, "number of levels"),
        ({"levels": True}, "number of levels"), ({"method": "median"}, "method must be one of mean, mode, nearest"),
        ({"axes": ("x",)}, "are not axes"), ({"axes": ("x", "x")}, "two axes have the same name"),
        ({"axes": ("x", "t")}, "two or three spatial axes"), ({"axes": ("x", 3)}, "not an axis"),
        ({"axes": [{"name": "x", "kind": "space"}, "y"]}, "not an axis"),
        ({"scale": 0}, "not a scale"), ({"scale": "x"}, "not a scale"), ({"scale": float("nan")}, "not a scale"),
        ({"target": True, "path": "s0/image/deep"}, "lies within it or contains it"),
    ],
)  # fmt: skip
def test_wrong_arguments_change_nothing(options: dict[str, Any], message: str) -> None:
    source, target = tegula.MemoryStore(), tegula.MemoryStore()
    group = tegula.create_group(source)
    image = group.create_array("s0/image", data=np.zeros((20, 20)), chunks=5, dimension_names=YX)
    before = contents(source), contents(target)
    with pytest.raises(TegulaError, match=message):
        tegula.downsample(image, source if options.pop("target", False) else target, **{"path": "b", **options})
    assert (contents(source), contents(target)) == before


def test_what_has_no_pyramid() -> None:
    store = tegula.MemoryStore()
    group = tegula.create_group(store)
    line = group.create_array("line", data=np.zeros(9))
    four = group.create_array("four", data=np.zeros((2, 2, 9, 9)))
    text = group.create_array("text", data=np.full((9, 9), "a"), dimension_names=YX)
    before = contents(store)
    for node, message in (
        (line, "2 to 5 dimensions"),
        (four, "pass axes"),
        (text, "have no mean"),
        (group, "only arrays"),
    ):
        with pytest.raises(TegulaError, match=message):
            tegula.downsample(node, tegula.MemoryStore())
    with pytest.raises(MetadataError, match="pass a target"):
        tegula.downsample(tegula.create_array({}, data=np.zeros((9, 9)), dimension_names=YX))
    assert contents(store) == before


def test_after_an_error_nothing_new_is_left() -> None:
    store = tegula.MemoryStore()
    group = tegula.create_group(store)
    image = group.create_array("image", data=RNG.normal(size=(20, 20)), chunks=5, dimension_names=YX)
    store.set("image/c/3/3", b"damaged")
    before = contents(store)
    with pytest.raises(CodecError):
        tegula.downsample(image)
    assert contents(store) == before
    target = tegula.MemoryStore()
    with pytest.raises(CodecError):
        tegula.downsample(image, target)
    assert contents(target) == {}


@pytest.mark.slow
def test_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BLOCK_BYTES", 8 * 400)
    values = RNG.normal(size=(70, 60))
    source = tegula.create_array(tmp_path / "a", data=values, chunks=(10, 10))
    tegula.downsample(source, tmp_path / "b", workers=2, levels=2)
    expected = reduced(reduced(values, (2, 2), "mean"), (2, 2), "mean")
    np.testing.assert_array_equal(tegula.open_group(tmp_path / "b")["s2"][...], expected)
    with pytest.raises(UnsupportedError, match="in the memory of this process"):
        tegula.downsample(source, tegula.MemoryStore(), workers=2)


@pytest.mark.slow
def test_many_remote_chunks_take_as_many_waves_of_requests_as_few() -> None:
    counts = []
    for size in (16, 96):
        source, target = WaveStore(concurrency=256), WaveStore(concurrency=256)
        array = tegula.create_array(source, data=np.arange(size * size).reshape(size, size), chunks=(8, 8))
        with source.waves() as read, target.waves() as written:
            tegula.downsample(array, target, levels=1)
        counts.append((len(read), len(written)))
        np.testing.assert_array_equal(tegula.open_group(target)["s1"][...], reduced(array[...], (2, 2), "mean"))
    (few_read, few_written), (many_read, many_written) = counts
    assert many_read <= few_read + 2 <= 10  # two look whether chunks are under the keys of another encoding
    assert many_written <= few_written + 2 <= 28  # most of them are documents: of the group, of two arrays, attributes


def test_labels_text_and_progress() -> None:
    values = np.array([["a", "b", "b"], ["c", "b", "a"]], object)
    target = tegula.MemoryStore()
    seen: dict[str, tuple[int, int]] = {}
    tegula.downsample(
        tegula.create_array({}, data=values, dtype=str), target, method="mode", levels=1,
        progress=lambda path, done, total: seen.update({path: (done, total)}),
    )  # fmt: skip
    assert tegula.open_group(target)["s1"][...].tolist() == [["b", "a"]]
    assert {path: done == total for path, (done, total) in seen.items()} == {"s0": True, "s1": True}
    found = tegula.downsample(tegula.create_array({}, data=np.zeros((9, 9))), tegula.MemoryStore(), levels=1)
    assert found.as_dict()["levels"][1]["shape"] == (5, 5)
    assert repr(found).splitlines()[1:] == ["s0  (9, 9) in chunks (9, 9)", "s1  (5, 5) in chunks (5, 5)"]


IMAGE = np.arange(3 * 8 * 8, dtype="u1").reshape(3, 8, 8)


@pytest.mark.parametrize("version", ["0.4", "0.5", "0.6", "names"])
@pytest.mark.parametrize("where", ["in a group", "alone", "nested", "nested alone", "in another store"])
def test_the_axes_of_an_array_without_names_are_those_of_its_image(version: str, where: str, tmp_path: Path) -> None:
    axes: list[Any] = [{"name": "c", "type": "channel"}, {"name": "y", "type": "space"}, {"name": "x", "type": "space"}]
    name = "a/0" if where.startswith("nested") else "0"
    image: dict[str, Any] = {"datasets": [{"path": name}], "axes": ["c", "y", "x"] if version == "names" else axes}
    if version == "0.6":
        image["coordinateSystems"] = [{"name": "intrinsic", "axes": image.pop("axes")}]
    attributes = {"multiscales": [image]} if version in ("0.4", "names") else {"ome": {"multiscales": [image]}}
    target: Any = tmp_path / "image.zarr"
    if where == "in another store":
        target = f"memory://{tmp_path.name}/image.zarr"
    group = tegula.create_group(target, attributes=attributes, format="zarr3", overwrite=True)
    array = group.create_array(name, data=IMAGE, chunks=(1, 2, 2))
    if where not in ("in a group", "nested"):
        array = tegula.open_array(f"{target}/{name}")
    pyramid = tegula.downsample(array, tmp_path / "pyramid.zarr", levels=1)
    assert [axis.type for axis in pyramid.axes] == ["channel", "space", "space"]
    means = IMAGE.reshape(3, 4, 2, 4, 2).mean((2, 4))
    np.testing.assert_array_equal(tegula.open(tmp_path / "pyramid.zarr")["s1"][:], np.rint(means).astype("u1"))


def test_an_image_that_does_not_say_its_axes_is_refused() -> None:
    group = tegula.create_group({}, attributes={"multiscales": [{"datasets": [{"path": "0"}]}]})
    array = group.create_array("0", data=IMAGE)
    with pytest.raises(MetadataError, match="which axes are channels: pass axes"):
        tegula.downsample(array, {})
    assert tegula.downsample(array, {}, axes="cyx", levels=1).levels[1].shape == (3, 4, 4)
