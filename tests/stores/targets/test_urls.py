"""URLs as targets: which library opens which scheme, chains of URLs, archives elsewhere, and what is no URL."""

from __future__ import annotations

import io
import os
import sys
import uuid
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import tegula
from tegula.arrays.creation import new_format
from tegula.cli.targets import split_target
from tegula.errors import MetadataError, NotFoundError, ReadOnlyError, TegulaError, UnsupportedError
from tegula.runtime import optional
from tegula.stores import FsspecStore, LocalStore, ObjectStore, ZipStore
from tegula.stores.secrets import plain_url, redacted
from tegula.stores.targets.opening import options_of_both
from tegula.stores.targets.paths import is_remote, links, local_path, scheme_of, split_inner
from tegula.stores.targets.urls import split_url
from tegula.stores.zip.remote import RemoteZipStore

VALUES = np.arange(60, dtype="i4").reshape(6, 10)


@pytest.fixture
def address() -> Iterator[str]:
    """The URL of a directory in memory."""
    name = f"memory://tests-{uuid.uuid4()}"
    yield name
    tegula.store_of(name).delete_prefix("")


def packed(folder: Path, **options: Any) -> bytes:
    """Return an archive with a group that has arrays."""
    with tegula.create_group(folder / "source.zip") as group:
        group.create_array("a", shape=VALUES.shape, chunks=(2, 3), dtype="i4")[:] = VALUES
        group.create_array("s", shape=60, chunks=5, shards=20, dtype="i4")[:] = VALUES.ravel()
    return (folder / "source.zip").read_bytes()


# --- schemes


@pytest.mark.parametrize("url", [
    "s3://bucket/x.zarr", "s3a://bucket/x", "gs://bucket/x", "gcs://bucket/x", "az://container/x",
    "abfs://container@account.dfs.core.windows.net/x", "http://host/x", "https://host/x.zarr", "S3://bucket/x",
])  # fmt: skip
def test_object_storage_is_opened_by_obstore(url: str) -> None:
    options = {"account_name": "account"} if url.startswith(("az", "abfs")) else {}
    store = tegula.store_of(url, read_only=True, storage_options=options)
    assert isinstance(store, ObjectStore)
    assert store.read_only


def test_anything_else_is_opened_by_fsspec(address: str, tmp_path: Path) -> None:
    store = tegula.store_of(address)
    assert isinstance(store, FsspecStore)
    assert store.url == address
    array = tegula.create_array(f"{address}/x.zarr", shape=VALUES.shape, dtype="i4")
    array[:] = VALUES
    assert tegula.open(f"{address}/x.zarr")[:].tolist() == VALUES.tolist()
    assert tegula.open(address, path="x.zarr").store.url == address
    assert tegula.open(store.url, path="x.zarr")[0, 1] == 1
    assert isinstance(tegula.store_of(f"local://{tmp_path}"), LocalStore)


def test_what_is_no_url_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for url in (
        "nosuch://host/x",
        "foo:bar",
        "s3:bucket",
        "http://[x",
        "file://[/x",
        "s3://[x/y",
        "nosuch::s3://b/x",
        "zip::nosuch://x/y.zip",
    ):
        with pytest.raises(TegulaError):
            tegula.open(url)
        with pytest.raises(TegulaError):
            tegula.create_array(url, shape=1, dtype="u1")
    with pytest.raises(UnsupportedError, match="no store is known for nosuch: URLs"):
        tegula.open("nosuch://host/x")
    for target in (
        "s3:/bucket/x",
        "gs:bucket",
        Path("s3://bucket/x"),
        Path("https://host/x"),
        Path("memory://x"),
        "sftp:x",
    ):
        with pytest.raises(UnsupportedError, match=r"such URLs begin with \w+:// and are passed as text"):
            tegula.open(target)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("server", ["http://[::1]:9", "https://[2001:db8::2]"])
def test_an_ipv6_address_is_no_chain(server: str) -> None:
    assert links(f"{server}/a::b") == [f"{server}/a", "b"]
    assert is_remote(f"{server}/x")
    store = tegula.store_of(f"{server}/a/x.zarr")
    assert isinstance(store, ObjectStore)
    assert store.url == f"{server}/a/x.zarr"
    assert split_url(f"{server}/a/x%20y.zip") == (f"{server}/a", "x y.zip")
    assert split_target(f"{server}/a/x.zarr") == (f"{server}/a/x.zarr", "")
    assert split_target(f"zip::{server}/x.zip::t/a[0]") == (f"zip::{server}/x.zip", "t/a[0]")
    assert options_of_both(f"{server}/a/x", f"{server}/b/y", {"retries": 1}, None) == {"retries": 1}


@pytest.mark.parametrize(
    "url",
    ["https://host/x#y", "http://me:word@host/x.zip#y", "https://host/x?a=1#y", "simplecache::https://host/x.json#y"],
)
def test_a_fragment_that_no_server_is_sent_is_refused(url: str) -> None:
    with pytest.raises(MetadataError, match=r"fragment .* write '%23'") as caught:
        tegula.open(url)
    assert "word" not in str(caught.value)
    assert tegula.store_of("https://host/x%23y", read_only=True).url == "https://host/x%23y"


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        import paramiko  # noqa: F401, PLC0415 - whether it is installed
    except ImportError:
        with pytest.raises(UnsupportedError, match="paramiko") as caught:
            tegula.open("sftp://me:hidden@host/x")
        assert "hidden" not in str(caught.value)
    optional.library.cache_clear()
    monkeypatch.setitem(sys.modules, "fsspec", None)
    try:
        with pytest.raises(UnsupportedError, match=r"memory: need fsspec: .*\[cloud\]"):
            tegula.open("memory://x")
    finally:
        optional.library.cache_clear()


def test_secrets_of_a_url_are_in_no_message() -> None:
    for url in ("ftp://me:hidden@127.0.0.1:1/x", "simplecache::http://me:hidden@127.0.0.1:1/x?token=hidden"):
        with pytest.raises(TegulaError) as caught:
            tegula.open(url)
        assert "hidden" not in f"{caught.value}{caught.value!r}"
    store = tegula.store_of("simplecache::http://me:hidden@host/x?token=hidden", read_only=True)
    assert "hidden" not in f"{store!r}{store.url}"
    for url in ("https://me:a@hidden@host/x", "https://me:a::hidden@host/x?to=me@host"):
        assert plain_url(url) == "https://host/x"
        assert redacted(f"no {url}") == "no https://host/x"


# --- chains


def test_a_chain_of_urls(address: str) -> None:
    tegula.save(f"{address}/x.zarr", VALUES)
    url = f"simplecache::{address}/x.zarr"
    store = tegula.store_of(url)
    assert store.read_only
    assert store.url == url
    assert tegula.load(url).tolist() == VALUES.tolist()
    with pytest.raises(ReadOnlyError):
        tegula.open(url, "r+")[0] = 1


LAYERS = [
    "",
    "zip::",
    "zip://::",
    "zip://in ner::",
    "tar://a/b::",
    "reference::",
    "simplecache::",
    "filecache::zip://a::",
]


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("place", ["s3://bucket/x", "http://[::1]:8/x", "memory://x.zip", "/a/x.zarr", "x.zip", "x"])
@pytest.mark.parametrize("inner", ["x", "era/t", "a::b", ""])
def test_a_node_inside_a_store_follows_the_last_url(layers: str, place: str, inner: str) -> None:
    store = layers + place
    assert split_inner(store) == (store, "")
    assert split_inner(f"{store}::{inner}") == (store, inner)
    if scheme_of(store):
        with pytest.raises(MetadataError, match=r"a store is needed.*pathlib\.Path"):
            tegula.store_of(f"{store}::{inner}")


ACTIONS: list[Callable[[str], Any]] = [
    tegula.open,
    lambda target: tegula.save(target, VALUES, overwrite=True),
    lambda target: tegula.create_array(target, shape=1, dtype="u1", overwrite=True),
    tegula.delete,
    lambda target: tegula.convert("x.zarr::b", target, overwrite=True),
    lambda target: tegula.copy(target, "y.zarr", overwrite=True),
]


def test_a_node_behind_colons_and_nothing_else_is_opened(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for store in ("x.zarr", f"file://{tmp_path}/x.zarr", address):
        tegula.save(store, a=VALUES, b=VALUES + 1, overwrite=True)
        for action in ACTIONS:
            action(f"{store}::a")
            assert tegula.load(store, path="b").tolist() == (VALUES + 1).tolist()
            tegula.save(f"{store}::a", VALUES, overwrite=True)
        assert [*tegula.open(store)] == ["a", "b"]
        tegula.delete("y.zarr")
    assert os.listdir() == ["x.zarr"]
    for action in ACTIONS:
        with pytest.raises(TegulaError) as caught:
            action("https://u:hidden::b@host/x")
        assert "hidden" not in f"{caught.value}{caught.value!r}"
    # a name with colons
    tegula.save(Path("x.zarr::a"), VALUES)
    assert tegula.load("x.zarr::a").tolist() == VALUES.tolist()
    assert tegula.load("x.zarr", path="b").tolist() == (VALUES + 1).tolist()


def test_files_of_this_machine_in_a_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    packed(tmp_path)
    for target in ("zip://a::source.zip", f"zip://a::{tmp_path}/source.zip", "simplecache::zip://a::source.zip"):
        assert tegula.load(target).tolist() == VALUES.tolist()


def test_references(address: str, tmp_path: Path) -> None:
    tegula.save(f"{address}/x.zarr", VALUES, format="zarr2")
    source = tegula.store_of(f"{address}/x.zarr")
    references = {key: [f"{address}/x.zarr/{key}"] for key in source.list()}
    fs = fsspec.filesystem("reference", fo={"version": 1, "refs": references}, remote_protocol="memory")
    assert tegula.open(fs)[:].tolist() == VALUES.tolist()
    assert tegula.store_of(fs).read_only


# --- archives


@pytest.fixture(params=["memory", "s3", "http"])
def elsewhere(request: pytest.FixtureRequest, address: str, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """The URL of an archive and the options to open it with."""
    data = packed(tmp_path)
    if request.param == "memory":
        tegula.store_of(address).set("a b/x.zip", data)
        return f"{address}/a b/x.zip", {}
    bucket = request.getfixturevalue("http_server" if request.param == "http" else "s3_server").bucket()
    if request.param == "http":
        (request.getfixturevalue("http_server").directory(bucket) / "x.zip").write_bytes(data)
    else:
        bucket.store().put("x.zip", data)
    return f"{bucket.url}/x.zip", bucket.storage_options


@pytest.mark.slow
@pytest.mark.parametrize("chain", ["", "zip::", "zip://::"])
def test_an_archive_elsewhere(elsewhere: tuple[str, dict[str, Any]], chain: str) -> None:
    url, options = elsewhere
    group = tegula.open(chain + url, storage_options=options)
    assert [*group] == ["a", "s"]
    assert group["a"][:].tolist() == VALUES.tolist()
    assert group["s"][3:17].tolist() == [*range(3, 17)]
    assert isinstance(group.store, RemoteZipStore)
    assert group.store.url == url
    assert tegula.check(chain + url, storage_options=options).ok
    for write in (
        lambda: tegula.open(chain + url, "r+", storage_options=options),
        lambda: tegula.create_array(chain + url, shape=1, dtype="u1", storage_options=options),
    ):
        with pytest.raises(UnsupportedError, match="can only be read"):
            write()
    with pytest.raises(NotFoundError):
        tegula.open(chain + url.replace("x.zip", "y.zip"), storage_options=options)


def test_options_of_a_chain_may_be_named_by_scheme(s3_server: Any, tmp_path: Path) -> None:
    bucket = s3_server.bucket()
    bucket.store().put("data/x", packed(tmp_path))
    url = f"zip::{bucket.url}/data/x"
    group = tegula.open(url, storage_options={"s3": bucket.storage_options})
    assert group["a"][0, 1] == 1
    assert group.store.url == url


def test_archives_on_this_machine_are_as_before(tmp_path: Path) -> None:
    packed(tmp_path)
    path = tmp_path / "source.zip"
    for target in (
        path,
        str(path),
        f"zip:{path}",
        f"zip://{path}",
        f"file:{path}",
        f"zip::{path}",
        f"zip::file://{path}",
    ):
        assert local_path(target) == str(path)
        found = tegula.open(target, "r+")
        assert isinstance(found.store, ZipStore)
        assert found["a"][0, 1] == 1
        found.close()
    assert local_path("zip::s3://bucket/x.zip") is None


def test_a_part_of_an_archive_by_fsspec(address: str) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        members.writestr("inner/a", b"1")
    tegula.store_of(address).set("x.zip", archive.getvalue())
    store = tegula.store_of(f"zip://inner::{address}/x.zip", read_only=True)
    assert [*store.list()] == ["a"]
    assert store.get("a") == b"1"


# --- names


@pytest.mark.parametrize(("target", "format"), [
    ("s3://bucket/x.bcolz", "bcolz"), ("s3://bucket/x.zarr", "zarr3"), ("s3://bucket.zarr/x.bcolz/", "bcolz"),
    ("https://host/x.zarr?token=a.bcolz", "zarr3"), ("zip::s3://bucket/x.bcolz.zip", "bcolz"),
    ("simplecache::https://host/x%2Ebcolz", "bcolz"), ("memory://x.zarr/y", "zarr3"),
])  # fmt: skip
def test_the_suffix_of_a_url_decides(target: str, format: str) -> None:
    other = "zarr3" if format == "bcolz" else "bcolz"
    assert new_format(target, "", None, other) == format
    with pytest.raises(MetadataError, match="contradicts the name"):
        new_format(target, "", other, other)


def test_a_target_that_lies_within_its_source_is_refused(address: str) -> None:
    tegula.save(f"{address}/x.zarr", VALUES)
    for source, target in [("x.zarr", "x.zarr"), ("x.zarr", "x.zarr/y"), ("x.zarr/", "x.zarr/c")]:
        with pytest.raises(MetadataError, match="lies within it or contains it"):
            tegula.copy(f"{address}/{source}", f"{address}/{target}")
        with pytest.raises(MetadataError, match="lies within it or contains it"):
            tegula.convert(f"{address}/{source}", f"{address}/{target}", overwrite=True)
    tegula.copy(f"{address}/x.zarr", f"{address}/x.zarr2")
    assert tegula.load(f"{address}/x.zarr2").tolist() == VALUES.tolist()
