"""icechunk and VirtualiZarr, which need a newer Python, read every array of the fixtures by references."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from tests.references.test_written import EXTENSIONS

import tegula
from tegula import references
from tegula.errors import AlreadyExistsError, MetadataError, StoreError, UnsupportedError

zarr = pytest.importorskip("zarr", minversion="3.4", reason="needs zarr-python of Python 3.12")
icechunk = pytest.importorskip("icechunk", reason="needs Python 3.12")
virtualizarr = pytest.importorskip("virtualizarr", reason="needs Python 3.12")
registries = pytest.importorskip("obspec_utils.registry")
obstore_stores = pytest.importorskip("obstore.store")

# whose chunks can't be described in Zarr v3; `test_written.py` says why
REFUSED = {
    "bcolz-zipline-1.13.0": "ct_objects hand_record_aligned hand_record_nested hand_snappy",
    "zarr-1.1.0": "blosc_snappy dtype_struct lzma_raw",
    "zarr-2.18.7": "dtype_struct obj_categorize obj_json2 obj_msgpack2 obj_vlen_array filters_astype filters_bitround "
    "filters_packbits",
    "zarr3draft-2.18.7": "codecs/shards codecs/shards_f types/struct",
}
# what zarr-python, or icechunk, has no data type, codec or grid for
FEW = ("zarr-3.4.2", "zarrista-0.1.0", "zarr3draft-2.18.7", "java-n5-3.1.3")
FOREIGN = {
    "bcolz-zipline-1.13.0": "dt_M8",
    "tensorstore-0.1.86": "dtype_bfloat16 dtype_float8_e4m3b11fnuz dtype_float8_e4m3fn dtype_float8_e5m2 dtype_int2 "
    "dtype_int4 v2_bfloat16",
    "zarr-2.18.7": "filters_categorize filters_quantize",
    "zarrista-0.1.0": f"{EXTENSIONS} default_suffix",
    "zarr-3.4.2": "rectilinear rectilinear_mixed cast_wrap scale_cast",
}
pytestmark = [pytest.mark.once(executors="both"), pytest.mark.filterwarnings("ignore")]


def granted(prefix: str) -> Any:
    return icechunk.containers_credentials({prefix: icechunk.credentials.Credentials.LocalFileSystemAccess()})


def repository(path: Path, source: Path) -> Any:
    storage = icechunk.local_filesystem_storage(str(path))
    return icechunk.Repository.open(storage, authorize_virtual_chunk_access=granted(f"file://{source}/"))


def compare(archive: str, node: Any, unread: dict[str, Exception], same: Any, root: Any) -> int:
    number = 0
    for path, values in node.arrays.items():
        try:
            found = root()[path][...]
        except Exception as error:  # whatever the libraries raise for what they do not have
            unread[node.name] = error
            continue
        assert same(found, values), f"{node.name} {path}"
        number += 1
    return number


def test_icechunk(archive: str, corpus: Any, same: Any, tmp_path: Path) -> None:
    refused, number = set(), 0
    unread: dict[str, Exception] = {}
    nodes = corpus.nodes(archive)
    for place, node in enumerate(nodes):
        target = tmp_path / str(place)
        try:
            references.write(node.node, target, "icechunk", path="x")
        except UnsupportedError:
            refused.add(node.name)
            continue
        except StoreError as error:  # icechunk reads the documents
            unread[node.name] = error
            continue
        session = repository(target, Path(node.node.store.url.removeprefix("file://"))).readonly_session("main")
        number += compare(archive, node, unread, same, partial(zarr.open_group, session.store, mode="r"))
    assert unread.keys() <= {*FOREIGN.get(archive, "").split()}, unread
    known = {node.name for node in nodes}
    assert refused == {*REFUSED.get(archive, "").split()} & known
    assert number > 5 or archive in FEW


def test_virtualizarr(archive: str, corpus: Any, same: Any) -> None:
    registry = registries.ObjectStoreRegistry({"file://": obstore_stores.LocalStore()})
    refused, number = set(), 0
    unread: dict[str, Exception] = {}
    nodes = corpus.nodes(archive)
    for node in nodes:
        parser = references.Parser(group=node.node.path)
        url = node.node.store.url
        try:
            store = parser(url, registry)
        except UnsupportedError:
            refused.add(node.name)
            continue
        except Exception as error:  # zarr-python reads the documents
            unread[node.name] = error
            continue
        single = isinstance(node.node, tegula.Array)
        arrays = {next(iter(store._group)) if single else path[2:]: values for path, values in node.arrays.items()}
        number += compare(
            archive,
            node._replace(arrays=arrays),
            unread,
            same,
            partial(zarr.open_group, store, mode="r", zarr_format=3),
        )
    assert unread.keys() <= {*FOREIGN.get(archive, "").split()}, unread
    grids = {"rectilinear", "rectilinear_mixed", "bounded"}
    assert refused - grids == {*REFUSED.get(archive, "").split()} & {node.name for node in nodes}
    assert number > 5 or archive in FEW


def source(folder: Path) -> Path:
    place = folder / "source.zarr"
    group = tegula.create_group(place, format="zarr2", attributes={"title": "test"})
    v = group.create_array("v", shape=(7, 5), chunks=(3, 2), dtype=">f4", dimension_names=["y", "x"])
    v[...] = np.arange(35).reshape(7, 5)
    group.create_array("s/w", shape=4, chunks=3, dtype="i2")[...] = 5
    return place


def test_a_chunk_that_has_changed_is_not_read(tmp_path: Path) -> None:
    place = source(tmp_path)
    references.write(place, tmp_path / "ice", "icechunk")
    store = repository(tmp_path / "ice", place).readonly_session("main").store
    assert zarr.open_array(store, path="v", mode="r")[0, 1] == 1
    os.utime(place / "v" / "0.0", (time.time() + 60,) * 2)
    with pytest.raises(Exception, match=r"(?i)modified|checksum|changed"):
        zarr.open_array(store, path="v", mode="r")[0, 1]
    with pytest.raises(AlreadyExistsError, match="repository already exists"):
        references.write(place, tmp_path / "ice", "icechunk")


@pytest.mark.parametrize("name", ["a b", "ü", "50%", "a%20b", "a+b", "a#b?"])
@pytest.mark.parametrize("kind", ["file", "s3", "http"])
def test_names_that_urls_escape(kind: str, name: str, request: Any, tmp_path: Path, monkeypatch: Any) -> None:
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}
    access: Any = icechunk.credentials.Credentials.LocalFileSystemAccess()
    place: Any = tmp_path / name / "x"
    prefix = f"file://{place}/"
    if kind == "s3":
        if "#" in name:
            pytest.skip("URLs of buckets have no query and no fragment")
        bucket = request.getfixturevalue("s3_server").bucket()
        place, options = f"{bucket.url}/{name}/x", bucket.storage_options
        prefix = f"{place}/"
        settings = {
            "region": "us-east-1",
            "endpoint_url": bucket.endpoint,
            "allow_http": True,
            "force_path_style": True,
        }
        access = icechunk.s3_static_credentials(access_key_id="test-key", secret_access_key="test-secret")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test-key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
    array = tegula.create_array(place if kind != "http" else tmp_path / "x", shape=9, chunks=5, dtype="i4",
                                storage_options=options)  # fmt: skip
    array[...] = np.arange(9)
    if kind == "http":
        server = request.getfixturevalue("http_server")
        bucket = server.bucket()
        shutil.copytree(tmp_path / "x", server.directory(bucket) / name / "x")
        place, prefix = f"{bucket.url}/{quote(name)}/x", f"{bucket.url}/{name}/x/"
        settings, access = {"allow_http": "true"}, icechunk.credentials.Credentials.HttpAccess()
    references.write(place, tmp_path / "ice", "icechunk", storage_options=options, container_options=settings)
    storage = icechunk.local_filesystem_storage(str(tmp_path / "ice"))
    allowed = icechunk.containers_credentials({prefix: access})
    repository = icechunk.Repository.open(storage, authorize_virtual_chunk_access=allowed)
    found = zarr.open_array(repository.readonly_session("main").store, mode="r")
    assert found[...].tolist() == [*range(9)]


def test_a_session_of_ones_own(tmp_path: Path) -> None:
    place = source(tmp_path)
    storage = icechunk.local_filesystem_storage(str(tmp_path / "ice"))
    without = icechunk.Repository.create(storage)
    with pytest.raises(StoreError, match="no virtual chunk container for file://"):
        references.write(place, without.writable_session("main"), "icechunk")

    container, _ = references.container(f"file://{place}/", {})
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(container)
    other = icechunk.Repository.create(
        icechunk.local_filesystem_storage(str(tmp_path / "other")), config,
        authorize_virtual_chunk_access=granted(container.url_prefix),
    )  # fmt: skip
    session = other.writable_session("main")
    report = references.write(place, session.store, "icechunk", path="a", inline_threshold=40)
    assert report.arrays == 2
    assert report.inlined > 0
    session.commit("references")
    group = zarr.open_group(other.readonly_session("main").store, path="a", mode="r")
    assert group.attrs["title"] == "test"
    assert group["v"][...].tolist() == np.arange(35).reshape(7, 5).tolist()


@pytest.mark.parametrize("name", ["a b", "ü", "50%", "a%20b"])
def test_a_group_on_a_web_server(name: str, http_server: Any) -> None:
    bucket = http_server.bucket()
    place = http_server.directory(bucket) / name
    array = tegula.create_array(place, path="v w", shape=9, chunks=5, dtype="i4", dimension_names=["x"])
    array[...] = np.arange(9)
    web = obstore_stores.HTTPStore.from_url(http_server.endpoint, client_options={"allow_http": True})
    registry = registries.ObjectStoreRegistry({http_server.endpoint: web})
    parse = partial(virtualizarr.open_virtual_dataset, f"{bucket.url}/{quote(name)}", registry=registry)
    with pytest.raises(UnsupportedError, match="no consolidated metadata"):
        parse(parser=references.Parser())
    tegula.open_group(place, mode="r+").consolidate()
    dataset = parse(parser=references.Parser(), loadable_variables=["v w"])
    assert dataset["v w"].values.tolist() == [*range(9)]
    assert references.write(f"{bucket.url}/{quote(name)}", {}).referenced == 2


def test_virtual_datasets(tmp_path: Path) -> None:
    """The dataset goes through VirtualiZarr to kerchunk and back into tegula."""
    place = source(tmp_path)
    registry = registries.ObjectStoreRegistry({"file://": obstore_stores.LocalStore()})
    parser = references.Parser(inline_threshold=30)
    assert repr(parser) == "Parser(group='', unsupported='error', inline_threshold=30)"
    dataset = virtualizarr.open_virtual_dataset(f"file://{place}", registry=registry, parser=parser)
    assert dataset["v"].dims == ("y", "x")
    assert dataset.attrs == {"title": "test"}
    dataset.vz.to_kerchunk(str(tmp_path / "v.json"), format="json")
    dataset.vz.to_kerchunk(str(tmp_path / "v.parq"), format="parquet", record_size=4)
    for name in ("v.json", "v.parq"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = tegula.open(tmp_path / name)["v"]
            assert found[...].tolist() == np.arange(35).reshape(7, 5).tolist()

    columns = {"z": np.arange(25), "a": np.arange(25) / 4}
    tegula.create_table(tmp_path / "t.bcolz", columns, format="bcolz", chunks=10)
    table = virtualizarr.open_virtual_dataset(
        f"file://{tmp_path}/t.bcolz", registry=registry, parser=references.Parser(), loadable_variables=["a"]
    )
    assert table.sizes == {"dim_0": 25}
    assert table["a"].values.tolist() == columns["a"].tolist()


@pytest.mark.parametrize("arguments", [{"unsupported": "x"}, {"inline_threshold": -1}, {"inline_threshold": "a"}])
def test_arguments_of_the_parser(arguments: dict[str, Any]) -> None:
    with pytest.raises(MetadataError) as caught:
        references.Parser(**arguments)
    assert caught.value.field in arguments
