"""Creation of arrays: the stored documents and chunks, and the arguments."""

import inspect
import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tegula
from tegula import zarr1 as zarr
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, ReadOnlyError, TegulaError, UnsupportedError

RECORDED = Path(__file__).parent.parent / "fixtures" / "zarr-1.1.0.zip"

CREATE = "shape chunks dtype compression compression_opts fill_value order store synchronizer".split()
FILTERS = [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]
LIKE = "shape chunks dtype compression compression_opts order store synchronizer".split()
SIGNATURES = {
    "create": [*CREATE, "overwrite"],
    "empty": [name for name in CREATE if name != "fill_value"],
    "zeros": [name for name in CREATE if name != "fill_value"],
    "ones": [name for name in CREATE if name != "fill_value"],
    "full": ["shape", "chunks", "fill_value", *[n for n in CREATE[2:] if n != "fill_value"]],
    "array": ["data", *CREATE[1:]],
    "open": ["path", "mode", *[name for name in CREATE if name != "store"]],
    "empty_like": ["a", *LIKE],
    "zeros_like": ["a", *LIKE],
    "ones_like": ["a", *LIKE],
    "full_like": ["a", "shape", "chunks", "fill_value", *LIKE[2:]],
    "open_like": ["a", "path", "mode", *[name for name in CREATE if name != "store"]],
    "init_store": ["store", *CREATE[:7], "overwrite"],
    "Array": ["store", "readonly", "synchronizer"],
    "SynchronizedArray": ["store", "synchronizer", "readonly"],
    "DirectoryStore": ["path"],
    "ProcessSynchronizer": ["path"],
    "ThreadSynchronizer": [],
}


def test_every_public_name_has_the_parameters_of_zarr_1() -> None:
    assert sorted(SIGNATURES) == zarr.__all__
    for name, parameters in SIGNATURES.items():
        assert [*inspect.signature(getattr(zarr, name)).parameters] == parameters, name


def meta(store: dict[str, bytes]) -> dict[str, Any]:
    return dict(json.loads(store["meta"]))


def test_the_documents_of_a_new_array_byte_for_byte() -> None:
    store: dict[str, bytes] = {}
    zarr.init_store(store, (20, 7), 10, dtype=[("a", "<i4"), ("b", [("c", "S3")])])
    assert store == {
        "attrs": b"{}",
        "meta": b"""{
    "chunks": [
        10,
        7
    ],
    "compression": "blosc",
    "compression_opts": {
        "clevel": 5,
        "cname": "lz4",
        "shuffle": 1
    },
    "dtype": [
        [
            "a",
            "<i4"
        ],
        [
            "b",
            [
                [
                    "c",
                    "|S3"
                ]
            ]
        ]
    ],
    "fill_value": null,
    "order": "C",
    "shape": [
        20,
        7
    ],
    "zarr_format": 1
}""",
    }


def recorded() -> list[Any]:
    """Return the keys and values of each array in the archive."""
    found = []
    with zipfile.ZipFile(RECORDED) as archive:
        for case in json.loads(archive.read("index.json"))["cases"]:
            inside = f"{case['case']}/store/"
            names = [name for name in archive.namelist() if name.startswith(inside)]
            if case["kind"] == "array" and f"{inside}meta" in names and case["case"] != "blosc_snappy":  # only read
                store = {name.removeprefix(inside): archive.read(name) for name in names}
                found.append(pytest.param(store, id=case["case"]))
    return found


@pytest.mark.parametrize("reference", recorded())
def test_arrays_that_zarr_1_wrote_are_written_again_with_the_same_bytes(reference: dict[str, bytes]) -> None:
    values = zarr.Array(dict(reference))
    document = meta(reference)
    store: dict[str, bytes] = {}
    names = ("shape", "compression", "compression_opts", "fill_value", "order")
    copy = zarr.create(
        chunks=tuple(document["chunks"]), dtype=values.dtype, store=store, **{n: document[n] for n in names}
    )
    copy.attrs.update(values.attrs.asdict())
    if document == meta(store):  # a document that has been changed by hand is not one that zarr 1.1 would write
        assert store["meta"] == reference["meta"]
    if values.attrs:
        assert json.loads(store["attrs"]) == json.loads(reference["attrs"])
    copy[...] = values[...]
    assert copy[...].tobytes() == values[...].tobytes()
    plain = {"zlib": zlib.decompress, "none": bytes}.get(copy.compression)
    for key in {*store} & {*reference} - {"meta", "attrs"}:
        if plain is not None and values.fill_value is not None:  # else zarr 1.1 left garbage beyond the edge
            assert plain(store[key]) == plain(reference[key])


def test_the_recorded_arrays_include_documents_to_compare_with() -> None:
    assert len(recorded()) > 10


@pytest.mark.parametrize(
    ("compression", "options", "stored"),
    [
        ("default", None, ("blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1})),
        ("blosc", None, ("blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1})),
        ("blosc", {}, ("blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1})),
        ("blosc", {"cname": "zlib", "clevel": "9"}, ("blosc", {"cname": "zlib", "clevel": 9, "shuffle": 1})),
        ("blosc", {"cname": None, "shuffle": 2, "x": 1}, ("blosc", {"cname": "lz4", "clevel": 5, "shuffle": 2})),
        ("blosc", {"clevel": 0, "shuffle": 0}, ("blosc", {"cname": "lz4", "clevel": 0, "shuffle": 0})),
        ("zlib", None, ("zlib", 1)),
        ("zlib", 0, ("zlib", 0)),
        ("zlib", np.int64(9), ("zlib", 9)),
        ("gzip", 3, ("zlib", 3)),
        ("bz2", None, ("bz2", 1)),
        ("bz2", 9, ("bz2", 9)),
        ("lzma", None, ("lzma", {"format": 1, "check": 0, "preset": 1, "filters": None})),
        ("lzma", {"preset": 0, "check": 4}, ("lzma", {"format": 1, "check": 4, "preset": 0, "filters": None})),
        ("lzma", {"format": 2}, ("lzma", {"format": 2, "check": 0, "preset": 1, "filters": None})),
        (
            "lzma",
            {"format": 3, "preset": 7, "filters": [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]},
            (
                "lzma",
                {"format": 3, "check": 0, "preset": None, "filters": [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]},
            ),
        ),
        ("none", None, ("none", None)),
        (None, None, ("none", None)),
    ],
)
def test_compression_is_normalised(compression: Any, options: Any, stored: tuple[str, Any]) -> None:
    store: dict[str, bytes] = {}
    z = zarr.zeros(100, 30, "i4", compression, options, store=store)
    assert (meta(store)["compression"], meta(store)["compression_opts"]) == stored
    assert (z.compression, z.compression_opts) == stored
    z[:] = range(100)
    np.testing.assert_array_equal(zarr.Array(dict(store))[:], range(100))


@pytest.mark.parametrize(
    ("compression", "options"),
    [
        ("zstd", None),
        ("", None),
        (7, None),
        (b"zlib", None),
        ("blosc", {"cname": "lzo"}),
        ("blosc", {"clevel": 10}),
        ("blosc", {"clevel": "high"}),
        ("blosc", {"shuffle": -1}),
        ("blosc", {"shuffle": 3}),
        ("blosc", 5),
        ("zlib", 10),
        ("zlib", -1),
        ("zlib", {}),
        ("bz2", 0),
        ("lzma", {"preset": 10}),
        ("lzma", {"format": 0}),
        ("lzma", {"check": 2}),
        ("lzma", {"filters": 3}),
        ("lzma", {"filters": [1]}),
        ("lzma", {"filters": [{"id": 33, "preset": 1, "x": object()}]}),
        ("lzma", {"format": 3}),
        ("lzma", 1),
        ("none", 1),
        (None, {}),
    ],
)
def test_unknown_compression(compression: Any, options: Any) -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(MetadataError):
        zarr.create(10, 5, compression=compression, compression_opts=options, store=store)
    assert store == {}


@pytest.mark.parametrize(
    ("shape", "chunks", "stored"),
    [
        (100, 10, [10]),
        ((100,), (10,), [10]),
        ((100, 30), 10, [10, 30]),
        ((100, 30, 5), (10,), [10, 30, 5]),
        ((100, 30), [None, 7], [100, 7]),
        ((100, 30), (None, None), [100, 30]),
        ((10, 3), (20, 5), [20, 5]),
        ((100, 30), np.int64(9), [9, 30]),
        ((0, 30), (None, 7), [1, 7]),
        ((4000, 3000), False, [4000, 3000]),
    ],
)
def test_chunks_are_normalised(shape: Any, chunks: Any, stored: list[int]) -> None:
    store: dict[str, bytes] = {}
    z = zarr.zeros(shape, chunks, dtype="f4", store=store)
    assert meta(store)["chunks"] == stored == [*z.chunks]


@pytest.mark.parametrize("chunks", [None, (10, 10, 10), 0, (-3, 2), "x", 2.5, (2.5, 2), ((5, 5), 3), {}])
def test_chunks_that_do_not_fit(chunks: Any) -> None:
    store: dict[str, bytes] = {}
    with pytest.raises(TegulaError):
        zarr.zeros((10, 30), chunks, store=store)
    assert store == {}


@pytest.mark.parametrize(
    ("dtype", "fill", "stored", "value"),
    [
        ("u1", 300, 300, 44),
        ("i4", 1.7, 1.7, 1),
        ("i4", -1, -1, -1),
        ("f8", 0, 0, 0.0),
        ("f4", 0.1, 0.1, np.float32(0.1)),
        ("f8", np.float64(0.5), 0.5, 0.5),
        ("i8", np.int32(7), 7, 7),
        ("f8", float("inf"), float("inf"), np.inf),
        ("f8", "nan", "nan", np.nan),
        ("?", True, True, True),
        ("S3", b"ab", "ab", b"ab"),
        ("S3", "abcd", "abcd", b"abc"),
        ("U3", "aé", "aé", "aé"),
        ("c16", 2 + 0j, 2.0, 2 + 0j),
        ("M8[D]", "2016-03-01", "2016-03-01", np.datetime64("2016-03-01")),
        ("M8[D]", np.datetime64("1970-01-03T12"), 2, np.datetime64("1970-01-03")),
        (">m8[s]", np.timedelta64(1, "m"), 60, np.timedelta64(60, "s")),
        ("f8", None, None, 0.0),
    ],
)
def test_fill_values_are_stored_as_they_are_given(dtype: str, fill: Any, stored: Any, value: Any) -> None:
    store: dict[str, bytes] = {}
    z = zarr.full(3, 2, fill, dtype=dtype, store=store)
    assert meta(store)["fill_value"] == stored == z.fill_value
    assert type(z.fill_value) is type(stored)
    np.testing.assert_array_equal(z[:], np.full(3, value, dtype))


def test_a_scalar_fills_every_field() -> None:
    z = zarr.full(2, 2, 7, dtype=[("a", "i4"), ("b", "f8")])
    assert z[:].tolist() == [(7, 7.0)] * 2


@pytest.mark.parametrize(
    "options",
    [
        {"shape": ()},
        {"shape": -1},
        {"shape": "x"},
        {"dtype": object},
        {"dtype": "no such type"},
        {"dtype": str},
        {"dtype": "bfloat16"},
        {"dtype": [("a", "i4", (2,))]},
        {"order": "K"},
        {"order": None},
        {"fill_value": "x"},
        {"fill_value": [1]},
        {"fill_value": 1j},
        {"fill_value": object()},
        {"fill_value": np.datetime64("2020-01-01")},
    ],
)
def test_invalid_arguments(options: dict[str, Any]) -> None:
    store: dict[str, bytes] = {}
    with pytest.raises((MetadataError, UnsupportedError)):
        zarr.create(**{"shape": 10, "chunks": 5, "store": store, **options})
    assert store == {}


def test_defaults() -> None:
    assert zarr.create(10, 5).fill_value is None
    assert zarr.empty(10, 5).fill_value is None
    assert zarr.create(10, 5).dtype == np.dtype("f8")
    assert zarr.create(10, 5, order="f").order == "F"
    assert isinstance(zarr.create(10, 5).store, dict)


def test_a_store_that_is_not_empty_is_not_overwritten() -> None:
    store = {"0": b"precious"}
    with pytest.raises(AlreadyExistsError):
        zarr.create(10, 5, store=store)
    assert store == {"0": b"precious"}
    z = zarr.create(10, 5, store=store, overwrite=True, fill_value=3)
    assert sorted(store) == ["attrs", "meta"]
    z[:] = 1
    with pytest.raises(AlreadyExistsError):
        zarr.create(10, 5, store=store)
    assert zarr.create(10, 5, "i4", store=store, overwrite=True, fill_value=4)[0] == 4


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_reading_a_missing_array_creates_nothing(mode: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        zarr.open(tmp_path / "x", mode, shape=10)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(ValueError, match="no array") as caught:
        zarr.Array(zarr.DirectoryStore(tmp_path))
    assert isinstance(caught.value, NotFoundError)
    assert [*tmp_path.iterdir()] == []


def test_modes(tmp_path: Path) -> None:
    path = str(tmp_path / "deep" / "x.zarr")
    z = zarr.open(path, shape=10, chunks=5, dtype="i4")
    assert z.fill_value == 0
    z[:] = 1
    assert zarr.open(path, shape=99, fill_value=9)[:].tolist() == [1] * 10
    assert zarr.open(path, "r+").shape == (10,)
    for mode in ("w-", "x"):
        with pytest.raises(AlreadyExistsError) as caught:
            zarr.open(path, mode, shape=10, chunks=5)
        assert isinstance(caught.value, ValueError)
    with pytest.raises(MetadataError, match="shape"):
        zarr.open(path, "w")
    with pytest.raises(MetadataError, match="mode"):
        zarr.open(path, "rw")
    reader = zarr.open(path, "r")
    assert reader.readonly
    for change in (
        lambda: reader.__setitem__(0, 1),
        lambda: reader.resize(3),
        lambda: reader.append([1]),
        lambda: reader.attrs.update(a=1),
    ):
        with pytest.raises(ReadOnlyError):
            change()
    assert zarr.open(path, "w", shape=4, chunks=2)[:].tolist() == [0] * 4
    assert zarr.open(str(tmp_path / "y"), "x", shape=4, chunks=4).shape == (4,)
    assert sorted(item.name for item in tmp_path.joinpath("deep", "x.zarr").iterdir()) == ["attrs", "meta"]


def test_chunks_without_their_documents_are_neither_deleted_nor_adopted(tmp_path: Path) -> None:
    z = zarr.open(tmp_path, shape=10, chunks=5, dtype="i4")
    z[:] = 1
    (tmp_path / "meta").unlink()
    with pytest.raises(AlreadyExistsError, match="meta"):
        zarr.open(tmp_path, "a", shape=10, chunks=5)
    assert (tmp_path / "1").exists()
    assert zarr.open(tmp_path, "w", shape=10, chunks=5)[:].tolist() == [0] * 10


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_arrays_of_other_formats_are_opened(format: str, tmp_path: Path) -> None:
    tegula.create_array(tmp_path, shape=(4, 6), chunks=(2, 3), dtype="i4", format=format, fill_value=5, order="F")
    z = zarr.open(tmp_path, "r+")
    z[1] = 7
    assert tegula.open(tmp_path)[1].tolist() == [7] * 6
    assert (z.fill_value, z.order, z.cdata_shape, z.initialized) == (5, "F", (2, 2), 2)
    z.append(np.zeros((1, 6)))
    assert tegula.open(tmp_path).shape == (5, 6)
    assert "initialized: 4/6" in repr(z)


def test_groups_are_not_arrays(tmp_path: Path) -> None:
    tegula.create_group(tmp_path)
    for mode in ("r", "a"):
        with pytest.raises(MetadataError, match="group"):
            zarr.open(tmp_path, mode, shape=10)


def test_array_keeps_dtype_and_chunks_of_data() -> None:
    source = zarr.array(np.arange(12).reshape(6, 2), chunks=(4, 1), dtype="i2")
    copy = zarr.array(source)
    assert (copy.chunks, copy.dtype) == ((4, 1), np.dtype("i2"))
    np.testing.assert_array_equal(copy[:], source[:])
    assert zarr.array([[1, 2], [3, 4]], chunks=1)[:].tolist() == [[1, 2], [3, 4]]
    assert zarr.array(np.array([], "f4"), chunks=1).shape == (0,)
    with pytest.raises(ValueError, match="chunks must be specified"):
        zarr.array([1, 2])
    big = zarr.array(np.arange(1000), chunks=3)
    np.testing.assert_array_equal(zarr.array(big, order="F")[:], np.arange(1000))


class Column:
    """An array with a ``chunklen``, as a carray of bcolz has."""

    chunklen = 4
    shape = (10, 3)
    dtype = np.dtype("f4")

    def __getitem__(self, selection: Any) -> Any:
        return np.ones(self.shape, self.dtype)[selection]


def test_array_keeps_the_chunk_length_of_bcolz() -> None:
    z = zarr.array(Column())
    assert z.chunks == (4, 3)
    assert z[:].sum() == 30


def test_like() -> None:
    options: dict[str, Any] = {"compression": "bz2", "compression_opts": 3, "order": "F", "fill_value": 5}
    source = zarr.create((6, 4), (2, 3), "i2", **options)
    kept = ("shape", "chunks", "dtype", "compression", "compression_opts", "order")
    for like, fill in (
        (zarr.empty_like, None),
        (zarr.zeros_like, 0),
        (zarr.ones_like, 1),
        (zarr.full_like, 5),
    ):
        z = like(source)
        assert [getattr(z, name) for name in kept] == [getattr(source, name) for name in kept]
        assert z.fill_value == fill
    assert zarr.full_like(source, fill_value=6).fill_value == 6
    assert zarr.zeros_like(source, compression="zlib").compression_opts == 1
    assert zarr.zeros_like(source, shape=8, chunks=3).chunks == (3,)
    assert zarr.zeros_like(zarr.zeros(3, 3, compression=None)).compression == "none"
    assert zarr.ones_like(np.zeros((3, 2), "i4"), chunks=2).chunks == (2, 2)
    assert zarr.ones_like(np.zeros(3), chunks=3, synchronizer=zarr.ThreadSynchronizer()).synchronizer is not None
    for like in (zarr.empty_like, zarr.zeros_like, zarr.ones_like, zarr.full_like):
        with pytest.raises(ValueError, match="chunks"):
            like(np.zeros(3), **({"fill_value": 1} if like is zarr.full_like else {}))
    with pytest.raises(MetadataError, match="fill"):
        zarr.full_like(np.zeros(3), chunks=3)


def test_open_like(tmp_path: Path) -> None:
    source = zarr.create((6, 4), (2, 3), "i2", fill_value=5)
    z = zarr.open_like(source, tmp_path / "a")
    assert (z.chunks, z.dtype, z.fill_value) == ((2, 3), np.dtype("i2"), 5)
    assert zarr.open_like(np.zeros(3), tmp_path / "b", "w", chunks=2).fill_value is None
    with pytest.raises(ValueError, match="chunks"):
        zarr.open_like(np.zeros(3), tmp_path / "a")


SCALARS = st.none() | st.booleans() | st.integers(-300, 300) | st.floats(width=32) | st.text(max_size=3)


@given(
    fill=SCALARS,
    dtype=st.sampled_from(["i1", ">u2", "<i8", "f4", ">f8", "c8", "?", "S2", "U2", "M8[s]", "m8[D]"]),
    compression=st.sampled_from(["blosc", "zlib", "none", "lzma", "bz2"]),
    order=st.sampled_from("CF"),
)
def test_created_arrays_can_be_opened(fill: Any, dtype: str, compression: str, order: str) -> None:
    store: dict[str, bytes] = {}
    try:
        z = zarr.full((5, 4), (2, 3), fill, dtype, compression, order=order, store=store)
    except TegulaError:
        assert store == {}
        return
    again = zarr.Array(dict(store))
    assert again[:].tobytes() == z[:].tobytes()
    assert repr(again) == repr(z)
    text = io.StringIO(store["meta"].decode("ascii")).read()
    assert text == json.dumps(json.loads(text), indent=4, sort_keys=True)
