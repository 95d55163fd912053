"""Paths of files: with drives and backslashes on Windows, as TensorStore 0.1.86 has them there."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tegula import tensorstore as ts
from tegula.tensorstore.kvstore import specs
from tegula.tensorstore.kvstore.specs import KvStoreSpec

# what TensorStore for Windows made of each: the path, and the URL
RECORDED = [
    ("file:///C:/users/x", "C:/users/x", "file:///C:/users/x"),
    ("file:///C:/users/x/", "C:/users/x/", "file:///C:/users/x/"),
    ("file:///tmp/x", "/tmp/x", "file:///tmp/x"),
    ("file:///C%3A/x", "C:/x", "file:///C:/x"),
    ("file:///c:/x", "c:/x", "file:///c:/x"),
    ("file:///x%5Cy", "/x/y", "file:///x/y"),
    ("C:\\x\\y", "C:/x/y", "file:///C:/x/y"),
    ("C:/x/y", "C:/x/y", "file:///C:/x/y"),
    ("C:\\x\\", "C:/x/", "file:///C:/x/"),
    ("/x/y", "/x/y", "file:///x/y"),
    ("\\x", "/x", "file:///x"),
]


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specs, "file_path", partial(specs.file_path, system="nt"))


@pytest.mark.parametrize(("given", "path", "url"), RECORDED)
@pytest.mark.usefixtures("windows")
def test_paths_and_urls_on_windows(given: str, path: str, url: str) -> None:
    spec = KvStoreSpec(given if given.startswith("file:") else {"driver": "file", "path": given})
    assert (spec.path, spec.url) == (path, url)
    assert KvStoreSpec(spec.url) == spec


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("path", ["C:x", "x/y", "CD:/x"])
def test_what_has_no_root_on_windows_has_no_url(path: str) -> None:
    with pytest.raises(ValueError, match="relative paths"):
        KvStoreSpec({"driver": "file", "path": path}).url  # noqa: B018


def test_elsewhere_drives_and_backslashes_are_names() -> None:
    if os.name == "nt":
        pytest.skip("this is Windows")
    assert KvStoreSpec("file:///C:/x").path == "/C:/x"
    assert KvStoreSpec({"driver": "file", "path": "/a\\b"}).url == "file:///a%5Cb"


@pytest.mark.parametrize(
    ("path", "split"),
    [("C:/a", ("C:/", "a")), ("C:/a/", ("C:/a", "")), ("C:/", ("C:/", "")), ("C:a", (".", "C:a")), ("/a", ("/", "a"))],
)
def test_directories_of_drives(path: str, split: tuple[str, str]) -> None:
    assert specs.split_directory(path, "nt") == split


def test_directories_and_the_names_in_them() -> None:
    wanted = [("/data", "a"), ("/data/a", ""), (".", "a"), ("/", "a")]
    assert [specs.split_directory(path, "posix") for path in ("/data/a", "/data/a/", "a", "/a")] == wanted


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_an_array_at_a_path_of_this_system(tmp_path: Path, driver: str) -> None:
    for number, where in enumerate((str(tmp_path), tmp_path.as_posix(), tmp_path.as_uri())):
        base = f"{where}{os.sep if where == str(tmp_path) else '/'}"
        kvstore = f"{base}{number}/" if where.startswith("file:") else {"driver": "file", "path": f"{base}{number}"}
        array = ts.open({"driver": driver, "kvstore": kvstore}, shape=[3], dtype=ts.int16, create=True).result()
        array[:] = np.arange(3, dtype="i2")
        assert array.kvstore.url == f"{tmp_path.as_uri()}/{number}/"
        again = ts.open({"driver": driver, "kvstore": array.kvstore.url}).result()
        assert again.read().result().tolist() == [0, 1, 2]
        with ts.Transaction() as transaction:
            again.with_transaction(transaction)[1] = 7
        assert again.read().result().tolist() == [0, 7, 2]
        assert (tmp_path / str(number)).is_dir()
