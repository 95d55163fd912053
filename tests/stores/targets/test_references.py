"""References of kerchunk as targets: paths, URLs and options, and files in buckets and on servers that they name."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import MetadataError, NotFoundError, StoreError, UnsupportedError
from tegula.stores import MemoryStore
from tegula.stores.references.store import ReferenceStore

pytestmark = pytest.mark.once(executors="both")

WRITTEN = Path(__file__).parent / "kerchunk"
T = np.arange(24).reshape(4, 6)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What kerchunk wrote, in the current directory: it names files relative to that."""
    shutil.copytree(WRITTEN, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("target", ["combined.json", "combined.parq", "reference::combined.json", "reference://"])
def test_what_kerchunk_wrote(target: str, folder: Path) -> None:
    """HDF5 with filters, packed values and big-endian numbers, and two files along a dimension."""
    options = {"fo": "combined.json"} if target == "reference://" else None
    group = tegula.open(target, storage_options=options)
    assert isinstance(group.store, ReferenceStore)
    assert group["t"][...].tolist() == np.concatenate([T, T + 400]).tolist()
    assert group["time"][...].tolist() == [*range(8)]
    assert group["big"][4:].tolist() == ((T + 4) / 4).tolist()
    assert group["t"].dimension_names == ("time", "x")
    assert pickle.loads(pickle.dumps(group))["t"][7, 5] == 423
    assert tegula.open("single.json", path="t")[1, 1] == 7


def test_what_kerchunk_writes_now(tmp_path: Path) -> None:
    h5py, hdf = pytest.importorskip("h5py"), pytest.importorskip("kerchunk.hdf")
    values = np.random.default_rng(0).normal(size=(50, 40))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, options in {
            "plain": {},
            "chunked": {"chunks": (7, 11)},
            "gzip": {"chunks": (7, 11), "compression": "gzip"},
            "shuffled": {"chunks": (7, 11), "compression": "gzip", "shuffle": True},
            "big": {"chunks": (50, 1), "dtype": ">f8"},
        }.items():
            file.create_dataset(f"g/{name}", data=values, **options)
    refs = hdf.SingleHdf5ToZarr(str(tmp_path / "x.h5"), inline_threshold=0).translate()
    (tmp_path / "x.json").write_text(json.dumps(refs))
    group = tegula.open(tmp_path / "x.json")["g"]
    assert len(group) == 5
    for _, array in group.arrays():
        assert (array[...] == values).all()
        assert (array[13:29, 3:33:2] == values[13:29, 3:33:2]).all()


def test_what_fsspec_and_kerchunk_read_the_same(folder: Path) -> None:
    zarr, fsspec = pytest.importorskip("zarr", minversion="3"), pytest.importorskip("fsspec")
    fs = fsspec.filesystem("reference", fo="combined.json", remote_protocol="file", asynchronous=True)
    other = zarr.open_group(zarr.storage.FsspecStore(fs, read_only=True), mode="r", zarr_format=2)
    for name, array in tegula.open("combined.json").arrays():
        assert (other[name][...] == array[...]).all()


# --- places of references and of the files that they name


def put(bucket: Any, folder: Path) -> dict[str, Any]:
    """Upload what kerchunk wrote, with URLs of the bucket, and return the options of the bucket."""
    store = bucket.store()
    for name in ("combined.json", "climate0.h5", "climate1.h5"):
        raw = (folder / name).read_bytes()
        if name.endswith("json"):
            raw = raw.replace(b'"climate', f'"s3://{bucket.name}/d/climate'.encode())
        store.put(f"d/{name}", raw)
    for path in (folder / "combined.parq").rglob("*"):
        if path.is_file():
            store.put(f"d/{path.relative_to(folder)}", path.read_bytes())
    options: dict[str, Any] = bucket.storage_options
    return options


def test_in_a_bucket(folder: Path, s3_server: Any) -> None:
    bucket = s3_server.bucket()
    options = put(bucket, folder)
    url = f"s3://{bucket.name}/d/combined.json"
    words = {
        "key": options["access_key_id"],
        "secret": options["secret_access_key"],
        "client_kwargs": {"endpoint_url": bucket.endpoint, "region_name": "us-east-1"},
        "default_block_size": 4096,
    }
    for target, given in (
        (url, options),  # the same settings for the references and for the files
        (f"reference::{url}", options),
        ("reference://", {"fo": url, "target_options": words, "remote_options": words}),
        ("reference://", {"fo": url, "target_options": words, "remote_options": words, "remote_protocol": "s3"}),
    ):
        group = tegula.open(target, storage_options=given)
        assert group["t"][...].tolist() == np.concatenate([T, T + 400]).tolist()
        assert group.store.concurrency > 0
        assert options["secret_access_key"] not in repr(group) + repr(group.store)
    with pytest.raises(UnsupportedError, match="only be read"):
        tegula.open(url, "r+", storage_options=options)
    with pytest.raises(NotFoundError, match="no such file of references"):
        tegula.open(f"s3://{bucket.name}/d/none.json", storage_options=options)
    with pytest.raises(MetadataError, match="no option 'remote_option'"):
        tegula.open(url, storage_options={"remote_option": {}, "remote_protocol": "s3"})

    # references in a bucket to files of this machine
    lead = tegula.open(f"s3://{bucket.name}/d/combined.parq", storage_options=options)
    assert lead["time"].shape == (8,)
    with pytest.raises(UnsupportedError, match="come from elsewhere and name a file on this machine"):
        lead["big"][...]
    given = {"fo": f"s3://{bucket.name}/d/combined.parq", "target_options": options, "remote_protocol": "file"}
    assert tegula.open("reference://", storage_options=given)["big"][4:].tolist() == ((T + 4) / 4).tolist()


def test_files_on_a_web_server(folder: Path, http_server: Any) -> None:
    bucket = http_server.bucket()
    place = http_server.directory(bucket)
    shutil.copyfile(folder / "climate1.h5", place / "a b.h5")
    refs = json.loads((folder / "single.json").read_text())
    url = f"{bucket.endpoint}/{bucket.name}".rstrip("/")
    refs["refs"]["big/0.0"] = [f"{url}/a%20b.h5", *refs["refs"]["big/0.0"][1:]]
    (place / "refs.json").write_text(json.dumps(refs))
    assert tegula.open(f"{url}/refs.json")["big"][...].tolist() == ((T + 4) / 4).tolist()


def test_names_without_a_scheme(folder: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    fs = fsspec.filesystem("memory")
    fs.pipe("/tests-references/climate0.h5", (folder / "climate0.h5").read_bytes())
    refs = json.loads((folder / "single.json").read_text())
    refs["refs"]["big/0.0"][0] = "tests-references/climate0.h5"
    try:
        found = tegula.open("reference://", storage_options={"fo": refs, "remote_protocol": "memory"})
        assert found["big"][...].tolist() == (T / 4).tolist()
    finally:
        fs.rm("/tests-references", recursive=True)


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("zip://x.h5::s3://b/x.zip", "archives"),
        ("reference://x", "can't name references"),
        ("nonsense://x/y", "no store is known"),
        ("s3://b", "names no file"),
        ("https://user:secret@host:99999/x", "server|port|host"),
        ("/no/such/file.h5", "does not exist"),
        ("/", "."),
    ],
)
def test_files_that_cannot_be_opened(url: str, match: str) -> None:
    refs = {".zarray": json.dumps(ARRAY), "0": [url, 0, 4]}
    array = tegula.open("reference://", storage_options={"fo": refs})
    with pytest.raises((StoreError, UnsupportedError, MetadataError), match=match) as caught:
        array[...]
    assert "secret" not in str(caught.value)


ARRAY = {
    "zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "<i4", "compressor": None, "filters": None,
    "fill_value": 0, "order": "C",
}  # fmt: skip


def test_a_codec_that_is_not_known_is_the_usual_error() -> None:
    refs = {".zarray": json.dumps({**ARRAY, "filters": [{"id": "no-such-codec"}]}), "0": "abcd"}
    with pytest.raises(UnsupportedError, match="no-such-codec"):
        tegula.open("reference://", storage_options={"fo": refs})[...]


def test_options_of_what_is_no_file_of_references(tmp_path: Path) -> None:
    tegula.save(tmp_path / "x.zarr", np.arange(3))
    with pytest.raises(NotFoundError, match="zmetadata"):
        tegula.open(tmp_path / "x.zarr", storage_options={"remote_protocol": "s3"})
    with pytest.raises(MetadataError, match="takes no storage options"):
        tegula.open(tmp_path / "x.zarr", storage_options={"region": "x"})
    with pytest.raises(MetadataError, match="needs the option fo"):
        tegula.open("reference://")
    (tmp_path / "x.json").write_text('{"a": 1}')
    with pytest.raises(NotFoundError):
        tegula.open(tmp_path / "x.json")


@pytest.mark.parametrize("attributes", [{}, {"x": 1}, {"record_size": 5}])
def test_consolidated_metadata_without_the_document_of_the_group(attributes: dict[str, Any], tmp_path: Path) -> None:
    """Both have a ``.zmetadata``; only that of references states how many each file of Parquet holds."""
    group = tegula.create_group(tmp_path / "g", format="zarr2", attributes=attributes)
    group.create_array("b/a", shape=3, dtype="i4")[...] = [1, 2, 3]
    group.consolidate()
    (tmp_path / "g" / ".zgroup").unlink()
    opened = tegula.open(tmp_path / "g")
    assert (opened.format, dict(opened.attrs), list(opened)) == ("zarr2", attributes, ["b"])
    assert opened["b/a"][...].tolist() == [1, 2, 3]
    assert tegula.open_group(tmp_path / "g", consolidated=True)["b/a"][...].tolist() == [1, 2, 3]
    report = tegula.check(tmp_path / "g")
    assert [(found.kind, found.key) for found in report.findings] == [("missing-document", ".zgroup")]
    assert report.chunks == 1
    # the document that a change creates has the attributes
    changed = tegula.open_group(tmp_path / "g", "r+")
    changed.attrs["new"] = 2
    assert dict(tegula.open(tmp_path / "g").attrs) == {**attributes, "new": 2}
    assert not tegula.check(tmp_path / "g").errors


@pytest.mark.parametrize("damage", [b"", b"null", b"{}", b'{"metadata": ', b'{"metadata": []}', b"\xff"])
@pytest.mark.parametrize("document", [True, False])
def test_damaged_consolidated_metadata(damage: bytes, document: bool, tmp_path: Path) -> None:
    tegula.create_group(tmp_path, format="zarr2").create_array("a", shape=3, dtype="i4")[...] = 1
    (tmp_path / ".zmetadata").write_bytes(damage)
    if not document:
        (tmp_path / ".zgroup").unlink()
    assert tegula.open(tmp_path)["a"][...].tolist() == [1, 1, 1]
    kinds = [(found.kind, found.key) for found in tegula.check(tmp_path).findings]
    assert kinds == [("metadata", ".zmetadata")] + [("missing-document", ".zgroup")] * (not document)


def test_a_damaged_index_of_references_says_so(folder: Path) -> None:
    index = folder / "combined.parq" / ".zmetadata"
    index.write_bytes(index.read_bytes()[:-1])
    with pytest.raises(StoreError, match="not valid JSON") as caught:
        tegula.open("combined.parq")
    assert caught.value.key == ".zmetadata"


class Unlisted(MemoryStore):
    """A web server."""

    listable = False


def test_a_group_without_a_document_where_nothing_can_be_listed() -> None:
    store = Unlisted()
    group = tegula.create_group(store, format="zarr2", attributes={"x": 1})
    group.create_array("a", shape=3, dtype="i4")[...] = 1
    with pytest.raises(NotFoundError):
        tegula.open(store, path="b")
    group.consolidate()
    store.delete(".zgroup")
    opened = tegula.open(store)
    assert (dict(opened.attrs), list(opened), opened["a"][...].tolist()) == ({"x": 1}, ["a"], [1, 1, 1])
    kinds = [found.kind for found in tegula.check(store).findings]
    assert kinds == ["not-listed", "missing-document"]
