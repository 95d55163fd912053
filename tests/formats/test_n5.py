"""N5: documents, the order of axes, blocks of every form, and the ways to other formats and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tegula
from tegula import config
from tegula.errors import CodecError, MetadataError, UnsupportedError
from tegula.formats import find_format
from tegula.metadata.nodes import ArrayMetadata, GroupMetadata
from tegula.stores import LocalStore

KEY = "attributes.json"
FORMAT = find_format("n5")
PLAIN = {"dimensions": [7, 5], "blockSize": [3, 2], "dataType": "uint16", "compression": {"type": "raw"}}
TYPES = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8"]
CODECS: list[Any] = [
    None, "gzip", "zlib", "bz2", "zstd", "lz4", {"id": "lzma", "preset": 1}, {"id": "blosc", "cname": "zstd"},
]  # fmt: skip


def parse(**members: Any) -> ArrayMetadata:
    node = FORMAT.parse({KEY: json.dumps({**PLAIN, **members}).encode()})
    assert isinstance(node, ArrayMetadata)
    return node


@pytest.fixture(params=["kernel", "reference"])
def executor(request: pytest.FixtureRequest) -> Any:
    if request.param == "kernel":
        pytest.importorskip("tegula._kernel")
    with config.configure(executor=request.param):
        yield request.param


# --- documents


def test_an_error_of_an_option_names_the_document() -> None:
    for format, key in {"n5": "attributes.json", "zarr2": ".zarray", "zarr3": "zarr.json"}.items():
        store = tegula.MemoryStore()
        a = tegula.create_array(
            store, path="g/a", shape=4, dtype="u1", format=format, codecs={"id": "gzip", "level": 4}
        )
        raw = store.get(f"g/a/{key}")
        assert a.format == format
        store.set(f"g/a/{key}", raw.replace(b'"level": 4', b'"level": 44'))
        with pytest.raises(MetadataError, match="44 is not a value") as raised:
            tegula.open(store, path="g/a")
        assert raised.value.key == f"g/a/{key}"


@pytest.mark.parametrize("value", [1, "true", None])
def test_a_container_of_zlib_that_is_no_bool(value: Any) -> None:
    with pytest.raises(MetadataError, match="true or false") as raised:
        parse(compression={"type": "gzip", "useZlib": value})
    assert raised.value.field == "compression.useZlib"


def test_axes_are_shown_in_c_order() -> None:
    array = parse()
    assert (array.shape, array.grid.largest_chunk()) == ((5, 7), (2, 3))
    assert array.keys.encode((1, 2)) == "2/1"
    assert array.keys.decode("2/1", 2) == (1, 2)


@pytest.mark.parametrize("version", ["5.0.0", "12", "5.1-SNAPSHOT", "99999999999999.1", 5, 5.0])
def test_a_later_major_version_is_refused(version: Any) -> None:
    for document in ({**PLAIN, "n5": version}, {"n5": version}):
        with pytest.raises(UnsupportedError, match="newer") as caught:
            FORMAT.parse({KEY: json.dumps(document).encode()})
        assert (caught.value.key, caught.value.field) == (KEY, "n5")


@pytest.mark.parametrize("version", ["1.5.0", "2.0.0", "4.0.1-SNAPSHOT", "", "x", None, 2, 3.0, []])
def test_other_versions_are_read(version: Any) -> None:
    assert parse(n5=version).shape == (5, 7)


@pytest.mark.parametrize("kind", ["raw", "gzip", "bzip2", "xz", "lz4"])
def test_version_1_names_the_compression_only(kind: str) -> None:
    new = parse(compression={"type": kind})
    old = {**{name: value for name, value in PLAIN.items() if name != "compression"}, "compressionType": kind}
    assert FORMAT.parse({KEY: json.dumps(old).encode()}) == new


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"dimensions": [-1, 5]}, "dimensions"), ({"dimensions": []}, "dimensions"), ({"dimensions": 3}, "dimensions"),
        ({"dimensions": [7.0, 5]}, "dimensions"), ({"blockSize": [3]}, "blockSize"),
        ({"blockSize": [0, 2]}, "blockSize"),
        ({"blockSize": "x"}, "blockSize"), ({"dataType": "object"}, "dataType"), ({"dataType": "bool"}, "dataType"),
        ({"dataType": None}, "dataType"), ({"dataType": []}, "dataType"), ({"compression": "gzip"}, "compression"),
        ({"compression": None}, "compression"), ({"compression": {}}, "compression"),
        ({"compression": {"type": "jpeg"}}, "compression"),
    ],
)  # fmt: skip
def test_wrong_members_are_named(change: dict[str, Any], field: str) -> None:
    if change == {"compression": None}:
        change = {name: value for name, value in PLAIN.items() if name != "compression"}
        with pytest.raises(MetadataError) as caught:
            FORMAT.parse({KEY: json.dumps(change).encode()})
    else:
        with pytest.raises((MetadataError, UnsupportedError)) as caught:
            parse(**change)
    assert (caught.value.key, caught.value.field) == (KEY, field)


def test_a_group_is_what_lacks_dimensions_or_a_type() -> None:
    for document in ({}, {"a": 1}, {"dimensions": [1]}, {"dataType": "int8"}):
        node = FORMAT.parse({KEY: json.dumps(document).encode()})
        assert isinstance(node, GroupMetadata)
        assert node.attributes == document


def test_names_that_n5_reserves_are_refused() -> None:
    for options in ({"shape": 3, "dtype": "i1"}, {}):
        make = tegula.create_array if options else tegula.create_group
        store = tegula.MemoryStore()
        with pytest.raises(UnsupportedError, match="'blockSize', 'n5'"):
            make(store, format="n5", attributes={"n5": 1, "blockSize": 2, "x": 3}, **options)
        assert [*store.list()] == []
        node = make(store, format="n5", **options)
        with pytest.raises(UnsupportedError, match="'dataType'"):
            node.attrs["dataType"] = "int8"
        assert {**node.attrs} == {}


def test_attributes_are_changed_beside_the_description() -> None:
    raw = (
        b'{"zz":1,"shape":[9,9],"dimensions":[7,5],"blockSize":[3,2],"dataType":"uint16","compression":{"type":"raw"}}'
    )
    store = tegula.MemoryStore({KEY: raw})
    array = tegula.open_array(store, mode="r+")
    assert {**array.attrs} == {"zz": 1, "shape": [9, 9]}
    array.resize((6, 8))
    assert store.get(KEY) == raw.replace(b"[7,5]", b"[8,6]")
    array.attrs["a"] = None
    del array.attrs["zz"]
    document = json.loads(store.get(KEY) or b"")
    assert [*document] == ["shape", "dimensions", "blockSize", "dataType", "compression", "a"]
    assert tegula.open_array(store).shape == (6, 8)


@pytest.mark.parametrize(
    ("attributes", "names"),
    [
        ({"axes": ["x", "y"]}, ("y", "x")),
        ({"axes": ["x", ""]}, (None, "x")),
        ({"axes": ["x", "x"]}, None),
        ({"axes": ["x"]}, None),
        ({"axes": [1, 2]}, None),
        ({"transform": {"axes": ["y", "x"], "units": ["nm", "nm"]}}, ("y", "x")),
        ({"transform": {"axes": ["y", "x"]}, "axes": ["x", "y"]}, ("y", "x")),
        ({"transform": {"axes": ["x", "y"]}, "axes": ["x", "y"]}, None),
        ({"transform": {"order": "C", "axes": ["y", "x"]}}, ("y", "x")),
        ({"transform": {"order": None, "axes": ["y", "x"]}}, ("y", "x")),
        ({"transform": {"order": "F", "axes": ["x", "y"]}, "axes": ["x", "y"]}, ("y", "x")),
        ({"transform": {"order": "K", "axes": ["y", "x"]}}, None),
        ({"transform": {"order": ["F"], "axes": ["y", "x"]}}, None),
        ({"_ARRAY_DIMENSIONS": ["y", "x"]}, ("y", "x")),
        ({"_ARRAY_DIMENSIONS": ["a", "b"], "axes": ["x", "y"]}, None),
    ],
)
def test_names_of_dimensions_are_read_where_they_are_clear(attributes: dict[str, Any], names: Any) -> None:
    assert parse(**attributes).dimension_names == names


@pytest.mark.parametrize("names", [("y", "x"), (None, "x"), ("x", "x"), ("", "x")])
def test_names_of_dimensions_come_back(names: Any) -> None:
    for attributes in ({}, {"axes": [{"name": "other"}]}):
        store = tegula.MemoryStore()
        array = tegula.create_array(
            store, shape=(3, 4), dtype="u1", format="n5", dimension_names=names, attributes=attributes
        )
        assert array.dimension_names == names
        assert tegula.open(store).dimension_names == names


@pytest.mark.parametrize(
    ("stated", "units"),
    [
        ({"units": ["nm", "s"], "resolution": [4, 0.5]}, ["0.5 s", "4 nm"]),
        ({"units": ["1/cm", "2 nm"], "resolution": [4, 1]}, ["1 2 nm", "4 1/cm"]),
    ],
)
def test_units_go_to_other_formats_and_back(stated: dict[str, Any], units: Any) -> None:
    stated = {"axes": ["x", "y"], **stated}
    store = tegula.MemoryStore({KEY: json.dumps({**PLAIN, **stated}).encode()})
    for format in ("zarr3", "zarr2", "zarr1"):
        there, back = tegula.MemoryStore(), tegula.MemoryStore()
        tegula.convert(store, there, format=format)
        array = tegula.open_array(there)
        assert array.dimension_names == ("y", "x")
        assert array.attrs["dimension_units"] == units
        assert not {"axes", "units", "resolution"} & {*array.attrs}
        tegula.convert(there, back, format="n5")
        assert {**tegula.open_array(back).attrs} == stated


@pytest.mark.parametrize(
    ("units", "resolution"),
    [
        (["4 nm", None], {"units": ["", "nm"], "resolution": [1, 4]}),
        (["1 x\ny", "4 nm"], {"units": ["nm", "x\ny"], "resolution": [4, 1]}),
        (["4 nm", "0 nm"], None), (["4 nm", "-4 nm"], None), ([1, 2], None), ([None, None], None), (["4 nm"], None),
        ("4 nm", None), ([], None), ([["4 nm"], "4 nm"], None), ({"x": "4 nm"}, None), (None, None), (0, None),
    ],
)  # fmt: skip
def test_units_that_n5_has_no_form_for_stay(units: Any, resolution: dict[str, Any] | None) -> None:
    stated = {"dimension_units": units}
    source, there, back = tegula.MemoryStore(), tegula.MemoryStore(), tegula.MemoryStore()
    array = tegula.create_array(source, shape=(4, 6), dtype="u2", attributes=stated)
    tegula.convert(source, there, format="n5")
    created = tegula.create_array(tegula.MemoryStore(), shape=(4, 6), dtype="u2", format="n5", attributes=stated)
    for found in (tegula.open_array(there), created):
        stays = resolution is None or None in units
        assert {**found.attrs} == (stated if stays else {}) | (resolution or {})
        assert found.info.get("Spacing") == array.info.get("Spacing")
    tegula.convert(there, back, format="zarr3")
    assert {**tegula.open_array(back).attrs} == stated
    tegula.convert(back, again := tegula.MemoryStore(), format="n5")
    assert {**tegula.open_array(again).attrs} == {**tegula.open_array(there).attrs}


def test_a_view_of_n5_keeps_units_of_some_axes() -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    tz = pytest.importorskip("tegula.zarr")
    store = tegula.MemoryStore()
    tegula.create_array(store, shape=(4, 6), dtype="u2", format="n5")
    for units in (["4 nm", None], [None, None], ["4 nm", "0 nm"], ["4 nm", "8 nm"]):
        zarr.open_array(tz.store(store), mode="r+").attrs.update({"dimension_units": units})
        assert zarr.open_array(tz.store(store), mode="r").attrs["dimension_units"] == units
    assert {**tegula.open_array(store).attrs} == {"units": ["nm", "nm"], "resolution": [8, 4]}


COSEM = {
    "pixelResolution": {"dimensions": [4.0, 8.5, 5.24], "unit": "nm"},
    "transform": {"axes": ["z", "y", "x"], "scale": [5.24, 8.5, 4], "translate": [0, 2, 0], "units": ["nm"] * 3},
}


@pytest.mark.parametrize(
    ("attributes", "units"),
    [
        (COSEM, ["5.24 nm", "8.5 nm", "4 nm"]),
        ({"transform": COSEM["transform"]}, ["5.24 nm", "8.5 nm", "4 nm"]),
        ({"pixelResolution": COSEM["pixelResolution"]}, ["5.24 nm", "8.5 nm", "4 nm"]),
        ({**COSEM, "units": ["nm"] * 3, "resolution": [4, 8.5, 5.24]}, ["5.24 nm", "8.5 nm", "4 nm"]),
        ({**COSEM, "downsamplingFactors": [2, 2, 2]}, ["5.24 nm", "8.5 nm", "4 nm"]),
        ({"pixelResolution": COSEM["pixelResolution"], "downsamplingFactors": [2, 2, 1]}, None),
        ({"units": ["nm"] * 3, "resolution": [4, 4, 4], "downsamplingFactors": [2, 2, 1]}, None),
        ({**COSEM, "downsamplingFactors": [1, 1, 1]}, ["5.24 nm", "8.5 nm", "4 nm"]),
        ({"pixelResolution": COSEM["pixelResolution"], "units": ["nm"] * 3}, None),
        ({**COSEM, "pixelResolution": {"dimensions": [1, 1, 1], "unit": "nm"}}, None),
        ({"pixelResolution": [4, 4, 4]}, None), ({"resolution": [4, 4, 4]}, None), ({"units": "K"}, None),
        ({"pixelResolution": {"dimensions": [0, 1, 1], "unit": "nm"}}, None),
        ({"transform": {"scale": [1, 1], "units": ["nm", "nm"]}}, None),
        ({"transform": {"scale": [1, 1, float("nan")], "units": ["nm"] * 3}}, None),
        ({"transform": 3, "pixelResolution": 3, "downsamplingFactors": "x"}, None),
        ({"units": "K", "pixelResolution": COSEM["pixelResolution"]}, ["5.24 nm", "8.5 nm", "4 nm"]),
    ],
)  # fmt: skip
def test_units_are_read_where_they_are_clear(attributes: dict[str, Any], units: Any) -> None:
    description = {"dimensions": [4, 4, 2], "blockSize": [2, 2, 2]}
    store = tegula.MemoryStore({KEY: json.dumps({**PLAIN, **description, **attributes}).encode()})
    assert tegula.open_array(store).info.get("Spacing", "").partition(",")[0] == ("5.24 × 8.5 × 4 nm" if units else "")
    for format in ("zarr3", "zarr2"):
        there, back = tegula.MemoryStore(), tegula.MemoryStore()
        tegula.convert(store, there, format=format)
        converted = tegula.open_array(there)
        assert converted.attrs.get("dimension_units") == units
        assert not units or converted.info["Spacing"] == tegula.open_array(store).info["Spacing"]
        assert "units" not in converted.attrs or not units or converted.attrs["units"] == "K"
        tegula.convert(there, back, format="n5")
        written = {**tegula.open_array(back).attrs}
        written.pop("axes", None)
        if "resolution" in attributes and units:  # what another attribute says need not be repeated
            written |= {name: attributes[name] for name in ("units", "resolution")}
        np.testing.assert_equal(written, attributes)


def test_places_of_elements_are_coordinates_and_those_of_a_pyramid() -> None:
    xr = pytest.importorskip("xarray")
    store = tegula.MemoryStore()
    tegula.create_array(store, shape=(2, 4, 4), dtype="u1", format="n5", attributes=COSEM)
    found = xr.open_dataset(store, engine="tegula")
    assert {name: found[name].values.tolist() for name in found.coords} == {
        "z": [0, 5.24], "y": [2, 10.5, 19, 27.5], "x": [0, 4, 8, 12]
    }  # fmt: skip
    assert {found[name].attrs["units"] for name in found.coords} == {"nm"}
    assert found["data"].attrs["dimension_units"] == ["5.24 nm", "8.5 nm", "4 nm"]
    tegula.downsample(store, target := tegula.MemoryStore(), levels=1)
    (pyramid,) = tegula.open_group(target).attrs["ome"]["multiscales"]
    assert pyramid["axes"] == [{"name": name, "type": "space", "unit": "nanometer"} for name in "zyx"]
    assert [level["coordinateTransformations"] for level in pyramid["datasets"]] == [
        [{"type": "scale", "scale": [5.24, 8.5, 4]}, {"type": "translation", "translation": [0, 2, 0]}],
        [{"type": "scale", "scale": [10.48, 17, 8]}, {"type": "translation", "translation": [2.62, 6.25, 2]}],
    ]
    level = tegula.open_array(target, path="s1")
    assert level.info["Spacing"] == "10.48 × 17 × 8 nm, from (2.62, 6.25, 2)"
    assert level.attrs["dimension_units"] == ["10.48 nm", "17 nm", "8 nm"]
    assert level.attrs["pixelResolution"] == {"dimensions": [8, 17, 10.48], "unit": "nm"}
    tegula.downsample(store, other := tegula.MemoryStore(), levels=1, scale=1)
    assert "unit" not in tegula.open_group(other).attrs["ome"]["multiscales"][0]["axes"][0]


def test_distances_and_places_in_the_order_of_n5() -> None:
    xr = pytest.importorskip("xarray")
    stated = {"order": "F", "axes": ["x", "y"], "scale": [4, 8], "units": ["nm", "um"], "translate": [0, 1]}
    store, there, back = tegula.MemoryStore(), tegula.MemoryStore(), tegula.MemoryStore()
    tegula.create_array(store, shape=(2, 3), dtype="u1", format="n5", attributes={"transform": stated})
    found = xr.open_dataset(store, engine="tegula")
    assert {name: (found[name].values.tolist(), found[name].attrs["units"]) for name in found.coords} == {
        "y": ([1, 9], "um"), "x": ([0, 4, 8], "nm")
    }  # fmt: skip
    tegula.convert(store, there, format="zarr3")
    array = tegula.open_array(there)
    assert array.dimension_names == ("y", "x")
    assert {**array.attrs} == {"transform": stated, "dimension_units": ["8 um", "4 nm"]}
    tegula.convert(there, back, format="n5")
    assert {**tegula.open_array(back).attrs} == {"transform": stated, "axes": ["x", "y"]}
    for source in (store, there):
        tegula.downsample(source, target := tegula.MemoryStore(), levels=1, factors={"x": 4})
        level = tegula.open_array(target, path="s1")
        assert level.attrs["transform"] == stated | {"scale": [16, 8], "translate": [6, 1]}
        assert level.info["Spacing"] == "8 um × 16 nm, from (1, 6)"
    unclear = {"transform": stated | {"order": "K"}}
    array = tegula.create_array(tegula.MemoryStore(), shape=(2, 3), dtype="u1", attributes=unclear)
    assert "Spacing" not in array.info


def test_coordinates_that_are_stored_or_not_the_same_are_not_made() -> None:
    xr = pytest.importorskip("xarray")
    group = tegula.create_group(tegula.MemoryStore(), format="n5")
    group.create_array("a", shape=(2, 4, 4), dtype="u1", attributes=COSEM)
    other = {**COSEM["transform"], "scale": [5.24, 8.5, 1]}
    group.create_array("b", shape=(2, 4, 4), dtype="u1", attributes={"transform": other})
    group.create_array("z", data=[7, 8], dimension_names=["z"])
    found = xr.open_dataset(group, engine="tegula")
    assert found["z"].values.tolist() == [7, 8]
    assert sorted(found.coords) == ["y", "z"]


# --- what N5 can't hold


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"dtype": "?"}, "dtype"), ({"dtype": "c8"}, "dtype"), ({"dtype": "f2"}, "dtype"), ({"dtype": str}, "dtype"),
        ({"dtype": "M8[s]"}, "dtype"), ({"shape": ()}, "shape"), ({"chunks": [[1, 2]]}, "chunks"),
        ({"fill_value": 3}, "fill_value"), ({"chunks": 2**32, "shape": 2**33}, "chunks"),
        ({"codecs": ["crc32c"]}, ""), ({"codecs": ["shuffle", "zstd"]}, ""), ({"shards": 2, "chunks": 1}, "shards"),
        ({"codecs": {"id": "zstd", "checksum": True}}, ""), ({"codecs": {"id": "lzma", "format": 2}}, ""),
    ],
)  # fmt: skip
def test_what_n5_can_not_hold_is_refused(options: dict[str, Any], field: str) -> None:
    store = tegula.MemoryStore()
    with pytest.raises(UnsupportedError) as caught:
        tegula.create_array(store, format="n5", **{"shape": 3, "dtype": "i4", **options})
    assert (caught.value.field or "") == field
    assert [*store.list()] == []


def test_a_conversion_says_what_it_loses() -> None:
    source = tegula.create_group(tegula.MemoryStore(), attributes={"dataType": 1, "x": 2})
    array = source.create_array(
        "a", shape=(9, 8), chunks=(2, 3), dtype="i4", fill_value=7, attributes={"dimensions": 1}, codecs=["crc32c"]
    )
    array[3:5, 2:] = 1
    target = tegula.MemoryStore()
    report = tegula.convert(source, target, format="n5")
    assert report.ok
    assert any("dataType" in note for note in report.notes[""])
    notes = " ".join(report.arrays[0].notes)
    assert all(word in notes for word in ("fill value", "7", "'dimensions'", "codecs"))
    group = tegula.open_group(target)
    assert {**group.attrs} == {"x": 2}
    np.testing.assert_array_equal(group["a"][...], array[...])


# --- blocks


def block(*numbers: int, mode: int = 0, count: int | None = None, data: bytes = b"") -> bytes:
    words = [*numbers, *([] if count is None else [count])]
    return b"".join(
        [mode.to_bytes(2, "big"), len(numbers).to_bytes(2, "big"), *(n.to_bytes(4, "big") for n in words), data]
    )


def test_smaller_blocks_are_filled_up_with_zeros(executor: str) -> None:
    store = tegula.MemoryStore({KEY: json.dumps(PLAIN).encode()})
    numbers = np.arange(1, 7, dtype=">u2").tobytes()
    store.set("0/0", block(2, 1, data=numbers[:4]))
    store.set("1/1", block(3, 2, mode=1, count=6, data=numbers))
    store.set("2/2", block(1, 1, mode=1, count=1, data=numbers[:2]))
    expected = np.zeros((5, 7), "u2")
    expected[0, :2], expected[2:4, 3:6], expected[4, 6] = [1, 2], [[1, 2, 3], [4, 5, 6]], 1
    np.testing.assert_array_equal(tegula.open(store)[...], expected)


@pytest.mark.parametrize(
    "damaged",
    [
        b"", b"\0", block(3), block(3, 2)[:-1], block(3, 2), block(3, 2, data=bytes(11)), block(3, 2, data=bytes(13)),
        block(4, 2, data=bytes(16)), block(3, 2**31), block(0, 2), block(3, 2, mode=2, data=bytes(12)),
        block(3, 2, mode=1, count=5, data=bytes(10)), block(3, 2, mode=1), block(3, 2, 1, data=bytes(12)),
        block(2, 2, data=bytes(12)),
    ],
)  # fmt: skip
def test_damaged_blocks_are_errors(executor: str, damaged: bytes) -> None:
    store = tegula.MemoryStore({KEY: json.dumps(PLAIN).encode(), "1/0": damaged})
    with pytest.raises(CodecError) as caught:
        tegula.open(store)[...]
    assert caught.value.key == "1/0"
    np.testing.assert_array_equal(tegula.open(store)[3:], 0)


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("codec", [None, "gzip", {"id": "blosc", "cname": "lz4", "blocksize": 4096}, "zstd"], ids=str)
@pytest.mark.parametrize("dtype", ["u1", "f8"])
def test_parts_of_large_blocks(executor: str, tmp_path: Path, codec: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 99, (700, 600)).astype(dtype)
    for store in (tegula.MemoryStore(), LocalStore(tmp_path)):
        array = tegula.create_array(store, data=values, chunks=(512, 384), codecs=codec, format="n5")
        expected = values.copy()
        for _ in range(12):
            row, column = rng.integers(0, 600, 2)
            key = (slice(row, row + rng.integers(1, 90)), slice(column, column + rng.integers(1, 90)))
            np.testing.assert_array_equal(array[key], expected[key])
            assert array[row, column] == expected[row, column]
            array[key] = expected[key] = rng.integers(0, 99)
        np.testing.assert_array_equal(array[:, 7], expected[:, 7])
        np.testing.assert_array_equal(tegula.open(store)[...], expected)
        key = array.stored.key((0, 0))
        whole = store.get(key) or b""
        for damaged in (whole[:-1], whole[:9], b"\7" + whole[1:], whole + b"x" if codec is None else whole[:20]):
            store.set(key, damaged)
            with pytest.raises(CodecError):
                tegula.open(store)[...]
        # a block that is smaller than its chunk, or states its number of elements
        small = values[:2, :3].astype(np.dtype(dtype).newbyteorder(">")).tobytes()
        if codec is None:
            store.set(key, block(3, 2, mode=1, count=6, data=small))
            expected[:512, :384] = 0
            expected[:2, :3] = values[:2, :3]
            for row, column in ((1, 2), (1, 3), (400, 300)):
                assert tegula.open(store)[row, column] == expected[row, column]
            np.testing.assert_array_equal(tegula.open(store)[...], expected)


def test_missing_blocks_are_zero_and_groups_need_no_document() -> None:
    store = tegula.MemoryStore({f"a/b/{KEY}": json.dumps(PLAIN).encode()})
    group = tegula.open(store)
    assert isinstance(group, tegula.Group)
    assert not group["a/b"][...].any()
    assert [*group["a"]] == ["b"]
    assert tegula.check(store).ok


def test_lz4_of_z5_is_read_and_written(executor: str, tmp_path: Path) -> None:
    # written by z5py 3.0.2, which names its level `blockSize` and stores LZ4 without Java's stream
    lz4 = {"type": "lz4", "blockSize": 3}
    raw = bytes.fromhex("0000000200000008000000051e0001001d0102001d0202001d0302007004000400040004")
    store = tegula.MemoryStore(
        {KEY: json.dumps({**PLAIN, "dimensions": [8, 5], "blockSize": [8, 5], "compression": lz4}).encode(), "0/0": raw}
    )
    array, expected = tegula.open_array(store, mode="r+"), np.arange(40, dtype="u2").reshape(5, 8) // 9
    np.testing.assert_array_equal(array[...], expected)
    for damaged in (raw[:-1], raw[:12], raw + b"x", raw[:20] + b"\xff" * 16):
        store.set("0/0", damaged)
        with pytest.raises(CodecError):
            tegula.open(store)[...]
    array[...] = expected + 1
    assert json.loads(store.get(KEY) or b"")["compression"] == lz4
    np.testing.assert_array_equal(tegula.open(store)[...], expected + 1)
    for format in ("n5", "zarr2", "zarr3"):
        tegula.convert(store, tmp_path / format, format=format, verify=True)
    new = json.loads((tmp_path / "n5" / KEY).read_bytes())
    assert new["compression"] == {"type": "lz4", "blockSize": 2**16}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_with_every_compression(executor: str, dtype: str, codec: Any) -> None:
    values = (np.arange(7 * 5 * 4) * 0x01020304 % 251).astype(dtype).reshape(7, 5, 4)
    store = tegula.MemoryStore()
    array = tegula.create_array(store, data=values, chunks=(2, 3, 4), codecs=codec, format="n5")
    array.append(values[:3])
    array.append(np.ones((10, 2, 4), dtype), axis=1)
    array[1:9:3, ::2] = 3
    expected = np.concatenate([np.concatenate([values, values[:3]]), np.ones((10, 2, 4), dtype)], 1)
    expected[1:9:3, ::2] = 3
    for name in ("kernel", "reference"):
        with config.configure(executor=name if executor == "kernel" else "reference"):
            np.testing.assert_array_equal(tegula.open(store)[...], expected)
    array.resize((3, 2, 1))
    array.resize((8, 6, 3))
    grown = np.zeros((8, 6, 3), dtype)
    grown[:3, :2, :1] = expected[:3, :2, :1]
    np.testing.assert_array_equal(tegula.open(store)[...], grown)
    assert tegula.check(store).ok


def test_both_executors_write_the_same_blocks() -> None:
    pytest.importorskip("tegula._kernel")
    values = np.arange(70, dtype="i4").reshape(10, 7) % 9
    for codec in (None, "bz2", "lz4", {"id": "lzma", "preset": 1}):
        written = []
        for name in ("kernel", "reference"):
            with config.configure(executor=name):
                tegula.create_array(
                    store := tegula.MemoryStore(), data=values, chunks=(4, 3), codecs=codec, format="n5"
                )
            written.append({key: store.get(key) for key in store.list()})
        assert written[0] == written[1]


# --- other formats and other libraries


arrays = hnp.arrays(
    st.sampled_from(TYPES).map(np.dtype), hnp.array_shapes(max_dims=4, max_side=6), elements={"allow_nan": False}
)


@settings(max_examples=60)
@given(
    data=st.data(), values=arrays, codec=st.sampled_from(CODECS), format=st.sampled_from(["zarr3", "zarr2", "bcolz"])
)
def test_conversions_there_and_back(data: st.DataObject, values: Any, codec: Any, format: str) -> None:
    chunks = tuple(data.draw(st.integers(1, size + 1)) for size in values.shape)
    store, there, back = tegula.MemoryStore(), tegula.MemoryStore(), tegula.MemoryStore()
    tegula.create_array(store, data=values, chunks=chunks, codecs=codec, format="n5", attributes={"q": [1]})
    assert tegula.convert(store, there, format=format).ok
    assert tegula.convert(there, back, format="n5").ok
    for node in (tegula.open_array(there), tegula.open_array(back)):
        assert node[...].astype(values.dtype).tobytes() == values.tobytes()
        assert node.attrs["q"] == [1]


@settings(max_examples=40, deadline=None)
@given(values=arrays, data=st.data())
def test_tensorstore_reads_and_writes_the_same(values: Any, data: st.DataObject, tmp_path_factory: Any) -> None:
    ts = pytest.importorskip("tensorstore")
    folder: Path = tmp_path_factory.mktemp("n5")
    chunks = tuple(data.draw(st.integers(1, size + 1)) for size in values.shape)
    codec = data.draw(st.sampled_from([codec for codec in CODECS if codec != "lz4"]))
    names = [f"d{axis}" for axis in range(values.ndim)]
    array = tegula.create_array(folder, data=values, chunks=chunks, codecs=codec, format="n5", dimension_names=names)
    other = ts.open({"driver": "n5", "kvstore": {"driver": "file", "path": str(folder)}}).result()
    assert other.read().result().T.tobytes() == values.tobytes()
    assert [*other.domain.labels] == names[::-1]
    other[...] = np.flip(values).T
    assert array[...].tobytes() == np.flip(values).tobytes()


def test_the_codec_stands_in_zarr3_too(executor: str) -> None:
    order = {"name": "transpose", "configuration": {"order": [1, 0]}}
    inner = [
        order,
        {"name": "bytes", "configuration": {"endian": "big"}},
        {"name": "zstd", "configuration": {"level": 0}},
    ]
    values = np.arange(35, dtype="i2").reshape(7, 5)
    store = tegula.MemoryStore()
    codec = {"name": "n5_default", "configuration": {"codecs": inner}}
    tegula.create_array(
        store, data=values, chunks=(3, 2), codecs=[codec], chunk_key_encoding={"name": "v2", "separator": "/"}
    )
    # the same chunks as N5, whose array is transposed
    n5 = {"dimensions": [7, 5], "blockSize": [3, 2], "dataType": "int16", "compression": {"type": "zstd"}}
    twin = {key: store.get(key) or b"" for key in store.list() if key != "zarr.json"}
    np.testing.assert_array_equal(tegula.open(store)[...], values)
    np.testing.assert_array_equal(tegula.open({**twin, KEY: json.dumps(n5).encode()})[...], values.T)
    tegula.convert(store, plain := tegula.MemoryStore(), format="zarr2")
    np.testing.assert_array_equal(tegula.open(plain)[...], values)


@pytest.mark.parametrize(
    "inner",
    [[], ["bytes"], ["transpose", "bytes"], [{"name": "transpose", "configuration": {"order": [0, 1]}}, "bytes"]],
)
def test_the_codec_needs_its_three_codecs(inner: list[Any]) -> None:
    codec = {"name": "n5_default", "configuration": {"codecs": inner}}
    with pytest.raises(MetadataError):
        tegula.create_array({}, shape=(7, 5), dtype="i2", codecs=[codec])
