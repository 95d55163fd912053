"""References to every array of the fixtures: fsspec and zarr-python read the same values by them."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula import references
from tegula.errors import AlreadyExistsError, CodecError, MetadataError, StoreError, UnsupportedError
from tegula.references.chunks import Chunk
from tegula.references.locations import base_url
from tegula.stores.references.parquet import ParquetReferences
from tegula.stores.references.sets import Reference
from tegula.stores.wrapping import WrappingStore
from tegula.stores.zip.remote import RemoteZipStore

fsspec = pytest.importorskip("fsspec")
zarr = pytest.importorskip("zarr", minversion="3")
pytest.importorskip("fastparquet", reason="fsspec reads references in Parquet with fastparquet")

pytestmark = [
    pytest.mark.once(executors="both"),
    pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated"),
]
FORMS = {"JSON, Zarr v2": 2, "JSON, Zarr v3": 3, "Parquet": None}
# extensions of Zarr v3, which neither Zarr v2 nor zarr-python has
EXTENSIONS = (
    "bitround_complex64 bitround_float16 bitround_float32 bitround_float64 bitround_int32 bitround_int8 "
    "bitround_uint64 bitround_uint8 bounded complex_bfloat16 complex_float16 complex_float4_e2m1fn "
    "complex_float6_e2m3fn complex_float6_e3m2fn complex_float8_e3m4 complex_float8_e4m3 "
    "complex_float8_e4m3b11fnuz complex_float8_e4m3fnuz complex_float8_e5m2 complex_float8_e5m2fnuz "
    "complex_float8_e8m0fnu optional_bool optional_complex64 optional_float32 optional_float64 optional_int16 "
    "optional_uint8 reshape_axes reshape_lengths reshape_rest reshape_transpose squeeze_1x1x1 squeeze_1x6x1 "
    "squeeze_4x1x5 vlen-array_bytes vlen-array_text zarrs.vlen_v2_bytes zarrs.vlen_v2_text"
)
# what zarr-python has no data type, codec or grid for, wherever the chunks are
FOREIGN = {
    "bcolz-zipline-1.13.0": "dt_M8 hand_record record",
    "tensorstore-0.1.86": "dtype_bfloat16 dtype_float8_e4m3b11fnuz dtype_float8_e4m3fn dtype_float8_e5m2 dtype_int2 "
    "dtype_int4 v2_bfloat16",
    **dict.fromkeys(("java-n5-3.1.3", "tensorstore-n5-0.1.86", "zarr-n5-2.18.7", "zarr-1.1.0"), ""),
    "zarr-2.18.7": "dtype_struct obj_categorize obj_json2 obj_msgpack2 obj_vlen_array filters_categorize "
    "filters_quantize struct_fill",
    "zarr-3.1.6": "fill_payload",
    "zarr3draft-2.18.7": "",
    "zarrista-0.1.0": f"{EXTENSIONS} default_suffix",
    "zarr-3.4.2": "struct struct_big_endian cast_wrap scale_cast scale_offset rectilinear rectilinear_mixed",
}
# whose chunks can't be described in another format
MISSING = {
    "bcolz-zipline-1.13.0": "ct_objects hand_record_aligned hand_record_nested hand_snappy",
    "zarr-1.1.0": "blosc_snappy dtype_struct lzma_raw",
    "zarr3draft-2.18.7": "codecs/shards codecs/shards_f types/struct",
}
TO_V2 = {
    "tensorstore-0.1.86": "shards shards_nested shards_partly shards_start",
    "tensorstore-n5-0.1.86": "codec_xz",
    "zarr-n5-2.18.7": "codec_xz codec_lzma",
    "zarr-3.1.6": "shards shards_nested shards_partly shards_start shards_string transpose",
    "zarr-3.4.2": "cast_wrap rectilinear rectilinear_mixed scale_cast scale_offset struct_big_endian",
    "zarrista-0.1.0": EXTENSIONS,
}
TO_V3 = {
    "zarr-2.18.7": "dtype_struct obj_categorize obj_json2 obj_msgpack2 obj_vlen_array filters_astype filters_bitround "
    "filters_packbits"
}


def by_zarr(refs: Any, path: str, zarr_format: int) -> Any:
    fs = fsspec.filesystem("reference", fo=refs, remote_protocol="file", asynchronous=True)
    store = zarr.storage.FsspecStore(fs, read_only=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zarr-python, about data types without a specification
        return zarr.open_array(store, path=path, mode="r", zarr_format=zarr_format)[...]


@pytest.mark.slow
@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("form", FORMS)
def test_every_array_reads_the_same(form: str, archive: str, corpus: Any, same: Any, tmp_path: Path) -> None:
    refused: set[str] = set()
    unread: dict[str, Exception] = {}
    number = 0
    nodes = corpus.nodes(archive)
    for place, (name, node, arrays) in enumerate(nodes):
        refs: Any = {}
        try:
            if form == "Parquet":
                refs = str(tmp_path / f"{place}.parq")
                references.write(node, refs, "parquet", path="x", record_size=3)
            else:
                references.write(node, refs, path="x", zarr_format=FORMS[form])
        except UnsupportedError:
            refused.add(name)
            continue
        opened = tegula.open("reference://", storage_options={"fo": refs}, allow_pickle=True)
        for path, values in arrays.items():
            assert same(opened[path][...], values), f"{name} {path} by tegula"
            try:
                found = by_zarr(refs, path, FORMS[form] or 2)
            except Exception as error:  # whatever zarr-python raises for what it does not have
                unread[name] = error
                continue
            assert same(found, values), f"{name} {path} by zarr-python"
            number += 1
    assert unread.keys() <= {*FOREIGN[archive].split()}, unread
    other = (TO_V3 if form == "JSON, Zarr v3" else TO_V2).get(archive, "")
    known = {node.name for node in nodes}  # without msgpack some can't be read
    assert refused == {*MISSING.get(archive, "").split(), *other.split()} & known
    assert number > 5 or archive in ("java-n5-3.1.3", "zarr-3.4.2", "zarrista-0.1.0")


def array(path: Path, format: str = "zarr2", **options: Any) -> Any:
    made = tegula.create_array(path, **{"shape": 25, "chunks": 10, "dtype": "i8", "format": format, **options})
    made[...] = np.arange(made.size).reshape(made.shape)
    return made


def test_chunks_are_named_by_their_place(tmp_path: Path) -> None:
    array(tmp_path / "x.bcolz", "bcolz")
    refs: dict[str, Any] = {}
    report = references.write(tmp_path / "x.bcolz", refs, path="a/x")
    assert (report.arrays, report.referenced, report.inlined) == (1, 2, 1)
    url, offset, length = refs["refs"]["a/x/1"]
    file = tmp_path / "x.bcolz" / "data" / "__1.blp"
    assert url == f"file://{file}"
    assert (offset, length) == (16, file.stat().st_size - 16)
    assert refs["refs"]["a/x/2"].startswith("base64:")  # the last chunk, padded
    assert json.loads(refs["refs"]["a/.zgroup"]) == {"zarr_format": 2}
    assert refs["version"] == 1


def test_blocks_of_n5_are_named_behind_their_headers(tmp_path: Path) -> None:
    array(tmp_path / "x.n5", "n5")
    file = tmp_path / "x.n5" / "2"
    file.write_bytes(b"\0\0\0\1\0\0\0\5" + gzip.compress(np.arange(20, 25, dtype=">i8").tobytes()))  # ends early
    refs: dict[str, Any] = {}
    report = references.write(tmp_path / "x.n5", refs, path="x")
    assert (report.referenced, report.inlined) == (2, 1)
    assert refs["refs"]["x/1"][1:] == [8, (tmp_path / "x.n5" / "1").stat().st_size - 8]
    assert by_zarr(refs, "x", 2).tolist() == [*range(25)]
    file.write_bytes(b"\0\0\0\1\0\0\0\x0b")
    with pytest.raises(CodecError, match="does not fit"):
        references.write(tmp_path / "x.n5", {}, path="x")


def test_small_chunks_stand_among_the_references(tmp_path: Path) -> None:
    array(tmp_path / "x", codecs=None)
    sizes: dict[str, Any] = {}
    assert references.write(tmp_path / "x", sizes, path="x", inline_threshold=80).referenced == 3
    report = references.write(tmp_path / "x", sizes, path="x", inline_threshold=81)
    assert (report.referenced, report.inlined) == (0, 3)
    for child in (tmp_path / "x").iterdir():
        child.unlink()
    assert by_zarr(sizes, "x", 2).tolist() == [*range(25)]


def test_what_cannot_be_referenced(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "g", format="zarr3")
    group.create_array("plain", shape=4, chunks=2, dtype="i4")[...] = 1
    group.create_array("sharded", shape=8, chunks=2, shards=4, dtype="i4")[:4] = 2
    refs: dict[str, Any] = {}
    with pytest.raises(UnsupportedError, match=r"chunks can't be referenced.*g/sharded"):
        references.write(tmp_path / "g", refs, zarr_format=2)
    report = references.write(tmp_path / "g", refs, zarr_format=2, unsupported="skip")
    assert [*report.skipped] == ["sharded"]
    assert "sharded/.zarray" not in refs["refs"]
    report = references.write(tmp_path / "g", refs, zarr_format=2, unsupported="inline")
    assert (report.arrays, report.referenced, report.inlined) == (2, 2, 2)  # empty chunks are not stored
    assert by_zarr(refs, "sharded", 2).tolist() == [2, 2, 2, 2, 0, 0, 0, 0]
    refs.clear()
    references.write(tmp_path / "g", refs)  # as it is
    assert by_zarr(refs, "sharded", 3).tolist() == [2, 2, 2, 2, 0, 0, 0, 0]
    with pytest.raises(UnsupportedError, match="has none by which others could reach"):
        references.write(tegula.save({}, x=np.arange(3)) or tegula.open(tegula.MemoryStore(), "w"), refs)


class Bucket(tegula.MemoryStore):
    """A store that says by which URL others reach its values."""

    url = "s3://bucket"
    values_url = "s3://bucket/"


def test_values_in_an_archive_in_a_bucket_have_no_url_of_their_own(tmp_path: Path) -> None:
    with tegula.ZipStore(tmp_path / "a.zip", "w") as archive:
        array(archive, "zarr3")
    bucket = Bucket({"a.zip": (tmp_path / "a.zip").read_bytes()})
    assert base_url(WrappingStore(bucket)) == "s3://bucket/"
    with pytest.raises(UnsupportedError, match=r"s3://bucket/a\.zip"):
        references.write(RemoteZipStore(bucket, "a.zip"), {})


def test_a_damaged_frame_is_refused(tmp_path: Path) -> None:
    array(tmp_path / "x.bcolz", "bcolz")
    file = tmp_path / "x.bcolz" / "data" / "__1.blp"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(StoreError, match=r"__1\.blp"):
        references.write(tmp_path / "x.bcolz", {}, path="x")
    file.unlink()
    with pytest.raises(StoreError, match=r"missing.*__1\.blp"):
        references.write(tmp_path / "x.bcolz", {}, path="x")


def test_a_grid_of_any_size_is_listed(tmp_path: Path) -> None:
    huge = tegula.create_array(tmp_path / "x", shape=(2**40, 2**20), chunks=(10, 10), dtype="u1", format="zarr2")
    huge[2**39, 5] = 7
    refs: dict[str, Any] = {}
    assert references.write(tmp_path / "x", refs, path="x").referenced == 1
    references.write(tmp_path / "x", tmp_path / "x.parq", "parquet", path="x", record_size=1000)
    assert len([*(tmp_path / "x.parq" / "x").iterdir()]) == 1
    for source in (refs, str(tmp_path / "x.parq")):
        opened = tegula.open("reference://", path="x", storage_options={"fo": source})
        assert opened[2**39 - 1 : 2**39 + 2, 5].tolist() == [0, 7, 0]


def test_a_mask_that_becomes_the_fill_value(tmp_path: Path) -> None:
    """Chunks that are absent hold the old fill value, which is another one in the references."""
    attributes = {"_FillValue": -9}
    x = tegula.create_array(
        tmp_path / "x", shape=6, chunks=2, dtype="i2", fill_value=1, dimension_names=["t"], attributes=attributes
    )
    x[:2] = 5
    refs: dict[str, Any] = {}
    report = references.write(tmp_path / "x", refs, path="x", zarr_format=2)
    assert (report.referenced, report.inlined) == (1, 2)
    assert json.loads(refs["refs"]["x/.zarray"])["fill_value"] == -9
    assert by_zarr(refs, "x", 2).tolist() == [5, 5, 1, 1, 1, 1]


def test_xarray_opens_them(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    dataset = xr.Dataset({"t": (("y", "x"), np.arange(35.0).reshape(7, 5))}, coords={"x": np.arange(5)})
    for zarr_format in (2, 3):
        place = tmp_path / f"{zarr_format}.zarr"
        dataset.to_zarr(place, zarr_format=zarr_format, consolidated=False)
        for form, target in (
            ("kerchunk", tmp_path / f"{zarr_format}.json"),
            ("parquet", tmp_path / f"{zarr_format}.parq"),
        ):
            references.write(place, target, form)
            found = xr.open_dataset(
                "reference://",
                engine="zarr",
                consolidated=False,
                zarr_format=zarr_format if form == "kerchunk" else 2,
                storage_options={"fo": str(target), "remote_protocol": "file"},
            )
            xr.testing.assert_identical(found.load(), dataset)


def test_existing_references_are_kept(tmp_path: Path) -> None:
    array(tmp_path / "x")
    for form, target in (("kerchunk", tmp_path / "x.json"), ("parquet", tmp_path / "x.parq")):
        references.write(tmp_path / "x", target, form, path="x")
        with pytest.raises(AlreadyExistsError, match="overwrite"):
            references.write(tmp_path / "x", target, form, path="x")
        references.write(tmp_path / "x", target, form, path="y", overwrite=True)
        assert [*tegula.open(target)] == ["y"]
    with pytest.raises(AlreadyExistsError, match="something else"):
        references.write(tmp_path / "x", tmp_path / "x", "parquet", path="x", overwrite=True)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"form": "hdf5"}, "form must be one of"),
        ({"form": "parquet", "zarr_format": 3}, "zarr_format must be one of 2"),
        ({"unsupported": "ignore"}, "unsupported must be"),
        ({"inline_threshold": -1}, "inline_threshold must be"),
        ({"record_size": 0}, "record_size must be"),
        ({"target": 3}, "not the path of a file"),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], match: str, tmp_path: Path) -> None:
    array(tmp_path / "x")
    with pytest.raises(MetadataError, match=match):
        references.write(tmp_path / "x", **{"target": tmp_path / "r", **wrong})
    assert not (tmp_path / "r").exists()


def test_an_array_in_parquet_has_a_name(tmp_path: Path) -> None:
    array(tmp_path / "x")
    with pytest.raises(UnsupportedError, match="path='name'"):
        references.write(tmp_path / "x", tmp_path / "x.parq", "parquet")


def test_in_a_bucket(s3_server: Any, tmp_path: Path) -> None:
    """Source and references in a bucket: sizes come from the listing, and fsspec reads the chunks there."""
    pytest.importorskip("s3fs")
    bucket = s3_server.bucket()
    options, url = bucket.storage_options, bucket.url
    columns = {"z": np.arange(25), "a": np.arange(25) / 4}
    tegula.create_table(f"{url}/t.bcolz", columns, format="bcolz", chunks=10, storage_options=options)
    group = tegula.create_group(f"{url}/g", format="zarr3", storage_options=options)
    group.create_array("a b", shape=25, chunks=10, dtype="i8")[...] = columns["z"]
    words = {
        "key": options["access_key_id"],
        "secret": options["secret_access_key"],
        "client_kwargs": {"endpoint_url": bucket.endpoint},
    }
    for source, name in (("t.bcolz", "z"), ("g", "a b")):
        for form, target in (("kerchunk", f"{url}/{source}.json"), ("parquet", f"{url}/{source}.parq")):
            report = references.write(f"{url}/{source}", target, form, storage_options=options)
            assert report.referenced + report.inlined == 3 * report.arrays
            assert tegula.open(target, path=name, storage_options=options)[...].tolist() == columns["z"].tolist()
            storage = {
                "remote_protocol": "s3",
                "remote_options": {**words, "asynchronous": True},
                "target_options": words,
            }
            found = zarr.open_array(
                "reference://",
                path=name,
                mode="r",
                storage_options={"fo": target, **storage},
                zarr_format=3 if form == "kerchunk" and source == "g" else 2,
            )
            assert found[...].tolist() == columns["z"].tolist()


def test_on_a_web_server(http_server: Any, tmp_path: Path) -> None:
    """A server that can't be listed is asked for each chunk of the grid, and names are escaped."""
    pytest.importorskip("aiohttp")
    bucket = http_server.bucket()
    made = array(http_server.directory(bucket) / "a b" / "x", shape=(25, 2), chunks=(10, 2))
    made.store.delete("1.0")
    refs: dict[str, Any] = {}
    with pytest.raises(UnsupportedError, match="max_chunks"), tegula.config.configure(max_chunks=2):
        references.write(f"{bucket.url}/a%20b/x", refs, path="x")
    assert references.write(f"{bucket.url}/a%20b/x", refs, path="x").referenced == 2
    assert "/a%20b/x/2.0" in refs["refs"]["x/2.0"][0]
    expected = made[...].tolist()
    assert tegula.open("reference://", path="x", storage_options={"fo": refs})[...].tolist() == expected
    options = {"fo": refs, "remote_protocol": "http", "remote_options": {"asynchronous": True}}
    found = zarr.open_array("reference://", path="x", mode="r", zarr_format=2, storage_options=options)
    assert found[...].tolist() == expected


@pytest.mark.nightly
@pytest.mark.slow
def test_the_memory_for_parquet_does_not_grow_with_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = 100_000
    node = tegula.create_array(tmp_path / "x", shape=number, chunks=1, dtype="u1", format="zarr2")
    order = np.random.default_rng(0).permutation(number).tolist()

    def chunks(array: Any, threshold: int) -> Any:
        for place in order:
            data = bytes(100) if place % 50 == 0 else None
            yield Chunk((place,), str(place), 0, 100 if data else 7, data)

    monkeypatch.setattr("tegula.references.kerchunk.chunks_of", chunks)
    references.write(node, {})  # imports everything
    tracemalloc.start()
    try:
        report = references.write(node, tmp_path / "x.parq", "parquet", path="x", record_size=1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.referenced == number - number // 50
    assert peak < 15e6  # in JSON it would be more than 30 MB
    found = ParquetReferences(tegula.LocalStore(tmp_path / "x.parq"))
    assert found.find("x/0") == bytes(100)
    assert found.find(f"x/{number - 1}") == Reference(f"file://{tmp_path}/x/{number - 1}", 0, 7)
