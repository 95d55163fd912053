"""Storage options: every public function that takes a target takes them for its URL, and for nothing else."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula import MemoryStore, Store, Table
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, TegulaError, UnsupportedError
from tegula.stores.targets import opening

SECRET = "wJalrXUtnFEMI"
OPTIONS = {"region": "eu-central-1", "secret_access_key": SECRET}
OTHERS = {"region": "us-east-1"}
SOURCE, TARGET = "s3://old/data", "gs://new/data"
COLUMNS = {"a": np.arange(3)}
TARGETS = ("target", "source", "first", "store")
"""What public functions call the argument that names where a node is stored."""
VALUES = np.arange(6).reshape(2, 3)


class Buckets:
    """Stores by URL, and the options they were opened with."""

    def __init__(self) -> None:
        self.stores: dict[str, MemoryStore] = {}
        self.opened: dict[str, Mapping[str, Any]] = {}

    def open(self, url: str, scheme: str, read_only: bool, options: Mapping[str, Any]) -> MemoryStore:
        self.opened[url] = options
        return self.stores.setdefault(url, MemoryStore())


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> Buckets:
    found = Buckets()
    monkeypatch.setattr(opening, "_store_of_url", found.open)
    return found


def stored(buckets: Buckets, kind: str) -> None:
    """Put a node at the URL of the source."""
    put(buckets.open(SOURCE, "s3", False, {}), kind)


def put(store: Store, kind: str) -> None:
    if kind == "array":
        tegula.save(store, VALUES)
    elif kind == "group":
        tegula.save(store, x=np.arange(3))
    elif kind == "table":
        tegula.create_table(store, COLUMNS)


ONE: dict[str, tuple[str, Callable[..., Any]]] = {
    "open": ("array", tegula.open),
    "open_array": ("array", tegula.open_array),
    "open_group": ("group", tegula.open_group),
    "open_table": ("table", tegula.open_table),
    "create_array": ("", lambda target, **more: tegula.create_array(target, shape=3, dtype="u1", **more)),
    "create_group": ("", tegula.create_group),
    "create_table": ("", lambda target, **more: tegula.create_table(target, COLUMNS, **more)),
    "array": ("", lambda target, **more: tegula.array([1], store=target, **more)),
    "zeros": ("", lambda target, **more: tegula.zeros(3, store=target, **more)),
    "ones": ("", lambda target, **more: tegula.ones(3, store=target, **more)),
    "empty": ("", lambda target, **more: tegula.empty(3, store=target, **more)),
    "full": ("", lambda target, **more: tegula.full(3, 7, store=target, **more)),
    "zeros_like": ("", lambda target, **more: tegula.zeros_like([1], store=target, **more)),
    "ones_like": ("", lambda target, **more: tegula.ones_like([1], store=target, **more)),
    "empty_like": ("", lambda target, **more: tegula.empty_like([1], store=target, **more)),
    "full_like": ("", lambda target, **more: tegula.full_like([1], 7, store=target, **more)),
    "save": ("", lambda target, **more: tegula.save(target, [1], **more)),
    "load": ("array", tegula.load),
    "delete": ("array", tegula.delete),
    "check": ("array", tegula.check),
    "checksum": ("array", tegula.checksum),
    "serve": ("array", lambda target, **more: tegula.serve(target, port=0, **more).close()),
    "statistics": ("array", tegula.statistics),
    "store_of": ("", tegula.store_of),
    "Table.from_pandas": ("", lambda target, **more: Table.from_pandas(COLUMNS, target, **more)),
}
"""Functions of one target: the node that must be stored there, and a call."""

TWO: dict[str, tuple[Callable[..., Any], str]] = {
    "copy": (tegula.copy, "target_storage_options"),
    "move": (tegula.move, "target_storage_options"),
    "convert": (tegula.convert, "target_storage_options"),
    "downsample": (tegula.downsample, "target_storage_options"),
    "compare": (tegula.compare, "second_storage_options"),
    "sync": (tegula.sync, "target_storage_options"),
    "diff": (tegula.diff, "target_storage_options"),
}
"""Functions of two targets, and the argument with the options of the second."""


def takes_a_target(function: Any) -> bool:
    return inspect.isfunction(function) and any(name in TARGETS for name in inspect.signature(function).parameters)


def test_all_functions_of_targets_are_known() -> None:
    found = {name for name in tegula.__all__ if takes_a_target(getattr(tegula, name))}
    for class_name in tegula.__all__:
        kind = getattr(tegula, class_name)
        for name, item in vars(kind).items() if inspect.isclass(kind) else ():
            if isinstance(item, (staticmethod, classmethod)) and takes_a_target(item.__func__):
                found.add(f"{class_name}.{name}")
    assert found == {*ONE, *TWO}


@pytest.mark.parametrize("name", ONE)
def test_options_reach_the_storage(name: str, buckets: Buckets) -> None:
    kind, call = ONE[name]
    stored(buckets, kind)
    call(SOURCE, storage_options=OPTIONS)
    assert buckets.opened == {SOURCE: OPTIONS}


@pytest.mark.parametrize("name", ONE)
def test_stores_open_without_options_by_default(name: str, buckets: Buckets) -> None:
    kind, call = ONE[name]
    stored(buckets, kind)
    call(SOURCE)
    assert buckets.opened == {SOURCE: {}}


@pytest.mark.parametrize("mode", ["r+", "a", "w", "w-"])
def test_options_in_every_mode(mode: str, buckets: Buckets) -> None:
    stored(buckets, "array")
    if mode == "w-":
        with pytest.raises(AlreadyExistsError):
            tegula.open(SOURCE, mode, shape=3, storage_options=OPTIONS)
    else:
        more = {"shape": VALUES.shape} if mode != "r+" else {}
        assert tegula.open(SOURCE, mode, **more, storage_options=OPTIONS).shape == VALUES.shape
    assert buckets.opened == {SOURCE: OPTIONS}


@pytest.mark.parametrize("name", TWO)
def test_each_end_has_its_options(name: str, buckets: Buckets) -> None:
    call, field = TWO[name]
    stored(buckets, "array")
    if name == "compare":
        tegula.save(TARGET, VALUES, storage_options=OTHERS)
    call(SOURCE, TARGET, storage_options=OPTIONS, **{field: OTHERS})
    assert buckets.opened == {SOURCE: OPTIONS, TARGET: OTHERS}


@pytest.mark.parametrize("name", TWO)
def test_options_are_shared_within_a_bucket_only(name: str, buckets: Buckets) -> None:
    call, _ = TWO[name]
    for target, options in (("s3://old/copy", OPTIONS), ("s3://other/copy", {}), ("gs://old/copy", {})):
        stored(buckets, "array")
        if name == "compare":
            tegula.save(target, VALUES)
        call(SOURCE, target, storage_options=OPTIONS)
        assert buckets.opened[target] == options


@pytest.mark.parametrize("name", TWO)
def test_options_of_the_wrong_end(name: str, buckets: Buckets, tmp_path: Path) -> None:
    call, field = TWO[name]
    tegula.save(local := tmp_path / "x.zarr", np.arange(3))
    with pytest.raises(MetadataError, match=f"only the second of the two is a remote URL.* {field}") as found:
        call(local, TARGET, storage_options=OPTIONS)
    assert found.value.field == "storage_options"
    with pytest.raises(MetadataError) as found:
        call(SOURCE, tmp_path / "y.zarr", **{field: OTHERS})
    assert found.value.field == field
    assert not buckets.opened
    assert not (tmp_path / "y.zarr").exists()


def places(tmp_path: Path) -> list[Any]:
    made = tegula.create_array(MemoryStore(), shape=3, dtype="u1")
    return [
        "x.zarr",
        tmp_path / "x.zarr",
        f"file:{tmp_path}/x.zarr",
        f"zip://{tmp_path}/x.zip",
        {},
        MemoryStore(),
        made,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("name", ONE)
def test_targets_without_options(name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target = places(tmp_path)[number]
    with pytest.raises(MetadataError) as found:
        ONE[name][1](target, storage_options=OPTIONS)
    assert found.value.field == "storage_options"
    assert SECRET not in "".join(traceback.format_exception(found.value))
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("options", [SECRET, [("key", SECRET)], {1: SECRET}, 5])
@pytest.mark.parametrize("name", ONE)
def test_storage_options_that_are_no_mapping_are_refused(name: str, options: Any, buckets: Buckets) -> None:
    with pytest.raises(MetadataError, match="storage options are a mapping of names to values") as found:
        ONE[name][1](SOURCE, storage_options=options)
    assert SECRET not in str(found.value)
    assert not buckets.opened


def test_no_options_are_as_good_as_none(tmp_path: Path) -> None:
    tegula.save(tmp_path / "x.zarr", [1], storage_options={})
    tegula.copy(tmp_path / "x.zarr", MemoryStore(), storage_options={}, target_storage_options={})
    assert tegula.zeros(3, storage_options={}).shape == (3,)
    with pytest.raises(MetadataError, match="a MemoryStore takes no storage options"):
        tegula.zeros(3, storage_options=OPTIONS)


def test_the_suffix_of_a_url_decides(buckets: Buckets) -> None:
    for url, format in [
        ("s3://b/x.bcolz", "bcolz"), ("s3://b/x.zarr?versionId=1.bcolz", "zarr3"), ("zip::s3://b/x.bcolz.zip", "bcolz"),
        ("gs://b/x.zarr/y.bcolz/", "bcolz"), ("https://host/x.zarr.zip", "zarr3"), ("s3://b/x%2Ebcolz", "bcolz"),
    ]:  # fmt: skip
        assert tegula.create_array(url, shape=3, dtype="u1").format == format


# --- a bucket


@pytest.fixture
def bucket(s3_server: Any) -> Any:
    return s3_server.bucket()


@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("name", ONE)
def test_each_function_in_a_bucket(name: str, bucket: Any) -> None:
    url, options = f"{bucket.url}/some/x.zarr", bucket.storage_options
    kind, call = ONE[name]
    if kind == "table":
        tegula.create_table(url, COLUMNS, storage_options=options, format="zarr3")
    else:
        put(tegula.store_of(url, storage_options=options), kind)
    found = call(url, storage_options=options)
    if name == "delete":
        with pytest.raises(NotFoundError):
            tegula.open(url, storage_options=options)
    elif name not in ("store_of", "check", "checksum", "load", "serve", "statistics"):
        node = (
            tegula.open_table(url, storage_options=options)
            if "able" in name
            else tegula.open(url, storage_options=options)
        )
        assert type(node) is type(found) or name == "save"
        assert tegula.check(url, storage_options=options).ok
    elif name == "load":
        assert np.array_equal(found, VALUES)
    elif name in ("check", "statistics"):
        assert found.ok if name == "check" else found.count == VALUES.size


@pytest.mark.sampled(one_in=8)
@pytest.mark.parametrize("name", TWO)
def test_both_ends_in_buckets(name: str, bucket: Any, s3_server: Any) -> None:
    call, field = TWO[name]
    source, options = f"{bucket.url}/x.zarr", bucket.storage_options
    other = s3_server.bucket()
    for target, more in ((f"{bucket.url}/y.zarr", {}), (f"{other.url}/y.zarr", {field: other.storage_options})):
        tegula.save(source, VALUES, storage_options=options)
        if name in ("compare", "diff"):  # which write nothing
            tegula.save(target, VALUES, storage_options=options)
        assert call(source, target, storage_options=options, **more) is not None
        copied = tegula.load(target, storage_options=options)
        assert np.array_equal(copied["s0"] if name == "downsample" else copied, VALUES)
        if name == "move":
            with pytest.raises(NotFoundError):
                tegula.open(source, storage_options=options)


def test_archives_and_files_to_a_bucket_and_back(bucket: Any, tmp_path: Path) -> None:
    url, options = f"{bucket.url}/x.zarr", bucket.storage_options
    tegula.save(tmp_path / "x.zip", x=np.arange(5), y=np.ones(3))
    tegula.copy(tmp_path / "x.zip", url, target_storage_options=options)
    tegula.convert(url, tmp_path / "y.zarr", format="zarr2", storage_options=options)
    assert tegula.compare(tmp_path / "y.zarr", url, second_storage_options=options).equal


def test_nodes_inside_of_each_other_are_refused(bucket: Any) -> None:
    options = bucket.storage_options
    tegula.save(f"{bucket.url}/g.zarr", x=[1], storage_options=options)
    for call in (tegula.copy, tegula.move, tegula.convert):
        for source, target in (("g.zarr", "g.zarr/copy"), ("g.zarr/x", "g.zarr"), ("g.zarr", "g.zarr")):
            with pytest.raises(MetadataError, match="lies within it or contains it"):
                call(f"{bucket.url}/{source}", f"{bucket.url}/{target}", overwrite=True, storage_options=options)
    assert tegula.check(f"{bucket.url}/g.zarr", storage_options=options).ok


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_no_error_shows_a_secret(name: str, bucket: Any) -> None:
    options = {**bucket.storage_options, "secret_access_key": SECRET, "allow_http": "false", "retries": 0}
    call: Any = ONE[name][1] if name in ONE else lambda url, **given: TWO[name][0](url, {}, **given)
    for url, given in (
        (f"{bucket.url}/x", options),
        (f"{bucket.url}/x", options | {"nosuch": SECRET}),
        (f"s3://me:{SECRET}@{bucket.name}/x", options),
        (f"nosuch://me:{SECRET}@host", options),
    ):
        if (name, given) == ("store_of", options) and url.startswith(bucket.url):
            continue  # nothing is requested yet
        if (name, given) == ("check", options) and url.startswith(bucket.url):
            report = tegula.check(url, storage_options=given)
            assert not report.ok
            assert SECRET not in f"{report} {report.as_dict()}"
            continue
        with pytest.raises(TegulaError) as found:
            call(url, storage_options=given)
        assert SECRET not in "".join(traceback.format_exception(found.value))


def test_an_unknown_scheme() -> None:
    with pytest.raises(UnsupportedError, match="nosuch:"):
        tegula.open("nosuch://bucket/x", storage_options=OPTIONS)
