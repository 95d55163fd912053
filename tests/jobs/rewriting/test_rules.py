"""Rules for chunks, shards and codecs by dimension, name and path: the values for each array of a hierarchy."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import tegula
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.jobs.rewriting.rules import match_rules, rules_of

SIZES = {"time": 60, "lat": 18, "lon": 36, "lev": 4}
CHUNKS = {"time": 30, "lat": 9, "lon": 36, "lev": 1}
ARRAYS: dict[str, tuple[str, ...]] = {
    "crs": (),
    "time": ("time",),
    "lat": ("lat",),
    "orog": ("lat", "lon"),
    "tas": ("time", "lat", "lon"),
    "model/tas": ("time", "lat", "lon"),
    "model/ua": ("time", "lev", "lat", "lon"),
    "model/run/lat": ("lat",),
}


def hierarchy(format: str = "zarr3", **options: Any) -> tegula.Group:
    root = tegula.create_group(tegula.MemoryStore(), format=format)
    for path, dims in ARRAYS.items():
        shape, chunks = ([table[dim] for dim in dims] for table in (SIZES, CHUNKS))
        names = dims if dims or format == "zarr3" else None
        root.create_array(path, shape=shape, chunks=chunks, dtype="i2", dimension_names=names, **options)[...] = 7
    return root


def converted(source: Any, **options: Any) -> tuple[dict[str, tegula.Array], tegula.ConvertReport]:
    target = tegula.MemoryStore()
    report = tegula.convert(source, target, verify=True, **options)
    assert report.ok, report.failed
    node = tegula.open(target)
    arrays = {"": node} if isinstance(node, tegula.Array) else dict(node.walk())
    return {path: array for path, array in arrays.items() if isinstance(array, tegula.Array)}, report


def refused(error: type[TegulaError], match: str, source: Any, **options: Any) -> None:
    for dry_run in (True, False):
        target = tegula.MemoryStore()
        with pytest.raises(error, match=match):
            tegula.convert(source, target, dry_run=dry_run, **options)
        assert [*target.list()] == []


# --- by dimension


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_one_integer_for_a_dimension_is_the_length_along_it(format: str) -> None:
    arrays, report = converted(hierarchy(format), chunks={"time": 24, "lat": 6})
    new = {**CHUNKS, "time": 24, "lat": 6}
    assert {path: a.chunks for path, a in arrays.items()} == {
        path: tuple(new[dim] for dim in dims) for path, dims in ARRAYS.items()
    }
    assert report.notes == {"": ["chunks time=24,lat=6: 1 array has none of these, which keeps its own (crs)"]}


def test_names_in_attributes_count_in_bcolz() -> None:
    root = tegula.create_group(tegula.MemoryStore(), format="zarr3")
    root.create_array("x", shape=(9, 2), chunks=(4, 2), dtype="i4", dimension_names=("time", "y"))[...] = 1
    old = tegula.MemoryStore()
    assert tegula.convert(root, old, format="bcolz").ok
    arrays, _ = converted(tegula.open(old), chunks={"time": 3})
    assert arrays["x"].chunks == (3, 2)


def test_minus_one_is_the_whole_axis_for_chunks_and_shards() -> None:
    arrays, _ = converted(hierarchy(), chunks={"time": 7, "lat": -1}, shards={"time": -1, "lat": -1})
    assert (arrays["tas"].chunks, arrays["tas"].shards) == ((7, 18, 36), (63, 18, 36))
    assert (arrays["lat"].chunks, arrays["lat"].shards) == ((18,), (18,))
    assert arrays["crs"].shards is None


def test_other_dimensions_keep_chunks_of_varying_length_and_shards() -> None:
    root = tegula.create_group(tegula.MemoryStore())
    names = ("time", "y")
    root.create_array("v", shape=(10, 5), chunks=([3, 7], 5), dtype="i4", dimension_names=names)[...] = 1
    root.create_array("s", shape=(8, 8), chunks=(2, 2), shards=(4, 8), dtype="i4", dimension_names=names)[...] = 1
    arrays, report = converted(root, chunks={"y": 1})
    assert arrays["v"].chunks == ((3, 7), (1, 1, 1, 1, 1)) or arrays["v"].chunks == ((3, 7), 1)
    assert (arrays["s"].chunks, arrays["s"].shards) == ((2, 1), (4, 8))
    arrays, report = converted(root, chunks={"y": 3})
    assert (arrays["s"].chunks, arrays["s"].shards) == ((2, 3), None)
    assert [item.notes for item in report.arrays if item.path == "s"] == [
        ("the shards (4, 8) are left out: they are not multiples of the new chunks",)
    ]
    arrays, _ = converted(root["s"], shards={"y": 2})
    assert arrays[""].shards == (4, 2)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_coordinate_in_one_chunk_stays_so_unless_it_is_named(format: str) -> None:
    root = tegula.create_group(tegula.MemoryStore(), format=format)
    root.create_array("time", data=np.arange(12), dimension_names=["time"])
    root.create_array("area", data=np.arange(12), dimension_names=["time"])
    root.create_array("t", data=np.ones((12, 2)), dimension_names=["time", "y"])
    for rules, expected in [({"time": 4}, (12,)), ({"/time": 6, "time": 4}, (6,)), ({"time": (3,)}, (3,))]:
        arrays, _ = converted(root, chunks=rules)
        assert arrays["time"].chunks == expected
        assert arrays["area"].chunks == ((4,) if rules.get("time") == 4 else (12,))
    arrays, _ = converted(root["time"], chunks={"time": 4})
    assert arrays[""].chunks == (4,)


# --- by array


def test_names_are_found_at_any_level_and_paths_at_one() -> None:
    wanted = {"tas": (20, 9, 9), "/lat": 5, "model/u?": "auto", "model/*/lat": [4]}
    arrays, _ = converted(hierarchy(), chunks=wanted)
    assert arrays["tas"].chunks == arrays["model/tas"].chunks == (20, 9, 9)
    assert arrays["lat"].chunks == (5,)
    assert arrays["model/ua"].chunks == (60, 4, 18, 36)
    assert arrays["model/run/lat"].chunks == (4,)
    assert arrays["orog"].chunks == (9, 36)


def test_a_name_of_both_a_dimension_and_an_array() -> None:
    def chunks(rules: dict[str, Any]) -> tuple[Any, ...]:
        arrays, _ = converted(hierarchy(), chunks=rules)
        return arrays["time"].chunks, arrays["tas"].chunks

    assert chunks({"time": 10}) == ((10,), (10, 9, 36))  # the dimension, as in xarray
    assert chunks({"time": (10,)}) == ((10,), (30, 9, 36))
    assert chunks({"/time": 10}) == ((10,), (30, 9, 36))
    assert chunks({"/time": 10, "time": 20}) == ((10,), (20, 9, 36))
    assert chunks({"time": 20, "tas": (1, 9, 9)}) == ((20,), (1, 9, 9))
    assert chunks({"time": 20, "tas": None}) == ((20,), (30, 9, 36))


def test_an_integer_for_a_name_that_is_no_dimension_is_for_the_array() -> None:
    arrays, _ = converted(hierarchy(), chunks={"orog": 3})
    assert arrays["orog"].chunks == (3, 3)


def test_a_rule_that_does_not_fit_is_noted() -> None:
    arrays, report = converted(hierarchy(), chunks={"tas": (5, 5)}, shards={"orog": (9,)})
    assert arrays["tas"].chunks == (30, 9, 36)
    notes = {item.path: item.notes for item in report.arrays if item.notes}
    text = "the chunks stay as they are: tas=5,5 does not fit an array of 3 dimensions"
    shards = "the shards stay as they are: orog=9, does not fit an array of 2 dimensions"
    assert notes == {"tas": (text,), "model/tas": (text,), "orog": (shards,)}


def test_a_shape_is_for_arrays_of_as_many_dimensions() -> None:
    arrays, report = converted(hierarchy(), chunks=(20, 9, 9), shards=(40, 18, 18))
    assert {path for path, a in arrays.items() if a.chunks == (20, 9, 9) and a.shards == (40, 18, 18)} == {
        "tas",
        "model/tas",
    }
    assert arrays["model/ua"].chunks == (30, 1, 9, 36)
    some = "crs, lat, model/run/lat, model/ua, orog, …"
    why = "6 arrays keep their own, with another number of dimensions"
    assert report.notes[""] == [f"chunks 20,9,9: {why} ({some})", f"shards 40,18,18: {why} ({some})"]


def test_one_array_has_to_fit() -> None:
    array = hierarchy()["tas"]
    refused(MetadataError, "more dimensions", array, chunks=(1, 2, 3, 4))
    refused(MetadataError, "more dimensions", array, chunks={"tas": (1, 2, 3, 4)})
    refused(MetadataError, "not multiples", array, shards=(30, 9))
    refused(MetadataError, "dimensions: time, lat, lon; arrays: tas", array, chunks={"lev": 1})
    assert converted(array, chunks={"lat": 3})[0][""].chunks == (30, 3, 36)
    assert converted(array, chunks={"lat": 3}, select=(0, slice(4)))[0][""].chunks == (3, 36)


# --- codecs


def test_codecs_by_array() -> None:
    wanted = {"*": "gzip", "model/*": [{"id": "delta", "dtype": "<i2"}, "zstd"], "tas": "none", "lat": None}
    arrays, _ = converted(hierarchy(), codecs=wanted)
    names = {path: [codec.name for codec in array.metadata.codecs] for path, array in arrays.items()}
    assert names["orog"] == names["crs"] == ["bytes", "gzip"]
    assert names["model/ua"] == ["numcodecs.delta", "bytes", "zstd"]
    assert names["tas"] == ["bytes"]
    assert names["lat"] == names["model/run/lat"] == ["bytes", "zstd"]
    assert names["model/tas"] == ["bytes"]  # a name counts before a pattern


def test_one_codec_is_not_a_rule() -> None:
    for codec in ({"id": "zstd", "level": 3}, {"name": "zstd", "configuration": {"level": 3}}):
        arrays, _ = converted(hierarchy(), codecs=codec)
        assert {array.metadata.codecs[-1].configuration["level"] for array in arrays.values()} == {3}


def test_a_dimension_has_no_codecs() -> None:
    refused(MetadataError, "the rule lev=zstd matches no array; arrays: crs, lat", hierarchy(), codecs={"lev": "zstd"})


# --- what is refused, before anything is written


def test_a_rule_without_a_match_lists_the_names() -> None:
    message = "the rule tme=3 matches no array; dimensions: lat, time, lon, lev; arrays: crs, lat, model/run/lat"
    refused(MetadataError, message, hierarchy(), chunks={"lat": 3, "tme": 3})
    refused(MetadataError, "the rule /ua=auto", hierarchy(), shards={"/ua": "auto"})
    many = tegula.create_group(tegula.MemoryStore())
    for number in range(30):
        many.create_array(f"a{number:02}", shape=1, dtype="u1")
    refused(MetadataError, "dimensions: none; arrays: a00, .* a19, … ", many, chunks={"b": 3})


def test_shards_that_are_not_multiples_of_chunks() -> None:
    refused(
        MetadataError,
        r"\(25, 18, 36\) are not multiples .*tas",
        hierarchy(),
        chunks={"time": 10},
        shards={"tas": (25, 18, 36)},
    )
    refused(MetadataError, "not multiples", hierarchy(), shards={"time": 100})
    refused(MetadataError, "not multiples", hierarchy(), chunks=(7, 9), shards=(18, 36))
    refused(UnsupportedError, "zarr2 has no shards", hierarchy(), shards={"time": 60}, format="zarr2")
    assert converted(hierarchy(), shards={"time": False}, format="zarr2")


@pytest.mark.parametrize(
    "chunks",
    [
        {"time": 0},
        {"time": -2},
        {"tas": (1, 0, 1)},
        {"tas": "24,45"},
        {"": 3},
        {"/": 3},
        {3: 3},
        {"tas": 1.5},
        (0, 1),
        "x",
    ],
)
def test_invalid_lengths(chunks: Any) -> None:
    refused(MetadataError, "chunks|dimension", hierarchy(), chunks=chunks)


# --- laws

SOURCE = hierarchy()
values = st.one_of(st.integers(1, 70), st.just(-1), st.none(), st.lists(st.integers(1, 9), max_size=4).map(tuple))
keys = st.sampled_from(
    ["time", "lat", "lon", "lev", "tas", "/tas", "/lat", "model/tas", "model/*", "*a*", "o*", "l??", "/*"]
)


def expected(path: str, rules: dict[str, Any]) -> tuple[int, ...]:
    """Implement the documentation in another way: apply rules from the weakest to the strongest, each overwriting."""
    dims = ARRAYS[path]
    old = tuple(CHUNKS[dim] for dim in dims)
    by_dimension = {key: n for key, n in rules.items() if key in SIZES and isinstance(n, int)}
    best = tuple(by_dimension.get(dim, length) for dim, length in zip(dims, old))
    for wild, anchored in ((True, False), (True, True), (False, False), (False, True)):
        for key, value in rules.items():
            if key in by_dimension or ("*" in key or "?" in key, "/" in key) != (wild, anchored):
                continue
            parts, names = ([p for p in text.split("/") if p] for text in (key, path))
            names = names if anchored else names[-1:]
            if len(parts) == len(names) and all(map(fnmatchcase, names, parts)):
                fits = isinstance(value, int) or (value is not None and len(value) == len(dims))
                best = ((value,) * len(dims) if isinstance(value, int) else value) if fits else old
    return tuple(SIZES[dim] if n == -1 else n for dim, n in zip(dims, best))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(keys, values, max_size=5))
def test_the_strongest_rule_counts(rules: dict[str, Any]) -> None:
    if any(key in ("lon", "lev") and not isinstance(value, int) for key, value in rules.items()):  # no array's names
        refused(MetadataError, "the rule (lon|lev)=.* matches no array", SOURCE, chunks=rules)
        return
    report = tegula.convert(SOURCE, tegula.MemoryStore(), chunks=rules, dry_run=True)
    assert {item.path: item.chunks for item in report.arrays} == {path: expected(path, rules) for path in ARRAYS}


# --- as xarray makes them, and many


@pytest.mark.slow
def test_a_data_set_of_xarray_is_the_same_in_other_chunks(tmp_path: Path) -> None:
    n = 50
    data = xr.Dataset(
        {
            "tas": (("time", "lat", "lon"), np.random.default_rng(0).random((n, 6, 8), "f4")),
            "ua": (("time", "lev", "lat", "lon"), np.ones((n, 2, 6, 8), "i2"), {"units": "m s-1"}),
            "orog": (("lat", "lon"), np.ones((6, 8))),
            "crs": ((), np.int32(0), {"grid_mapping_name": "latitude_longitude"}),
        },
        coords={"time": np.arange("2000-01-01", "2000-02-20", dtype="M8[D]").astype("M8[ns]"), "lat": np.arange(6.0)},
    )
    for version in (2, 3):
        source, target = tmp_path / f"v{version}", tmp_path / f"new{version}"
        data.to_zarr(source, zarr_format=version, consolidated=False)
        report = tegula.convert(source, target, chunks={"time": 10}, shards={"time": 100}, verify=True)
        assert report.ok
        assert tegula.open(target)["ua"].shards == (100, *tegula.open(source)["ua"].chunks[1:])
        with xr.open_zarr(source, consolidated=False) as old, xr.open_zarr(target, consolidated=False) as new:
            xr.testing.assert_identical(new.load(), old.load())


class _Counted:
    """Arrays for `match_rules`, made one by one and counted."""

    def __init__(self, array: tegula.Array) -> None:
        self.array = array
        self.looked = 0

    def many(self, count: int) -> Iterator[tuple[str, tegula.Array]]:
        for number in range(count):
            self.looked += 1
            yield f"group/a{number}", self.array


@pytest.mark.slow
def test_arrays_are_matched_one_by_one_and_not_kept() -> None:
    source = _Counted(hierarchy()["tas"])
    match_rules([rules_of("chunks", {"time": 3, "a7": (1, 1, 1)}, False)], source.many(10**5))
    assert source.looked == 8
    tracemalloc.start()
    with pytest.raises(MetadataError):
        match_rules([rules_of("chunks", {"nothing": 3}, False)], source.many(10**5))
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
