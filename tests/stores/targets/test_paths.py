"""Targets that name a node inside a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.stores.targets.paths import address_of

VALUES = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize(
    ("target", "expected"),
    {
        "x.zarr": ("x.zarr", "", None),
        "x.zarr::a/b": ("x.zarr", "a/b", None),
        "x.zarr|zarr2:a/b": ("x.zarr", "a/b", "zarr2"),
        "x.zarr|zarr:a%20b/": ("x.zarr", "a b", None),
        "x.zip|zip:": ("x.zip", "", None),
        "x.zip|zip:a/|zarr3:b": ("x.zip", "a/b", "zarr3"),
        "file:///t/x.zip|zip:a|auto:": ("zip::file:///t/x.zip", "a", None),
        "s3://b/x.zip|zip:a|bcolz:c": ("zip::s3://b/x.zip", "a/c", "bcolz"),
        "https://host/x.zip?sig=1|ZIP:a": ("zip::https://host/x.zip?sig=1", "a", None),
        "zip::s3://b/x.zip::a|zarr3:b": ("zip::s3://b/x.zip", "a/b", "zarr3"),
    }.items(),
)
def test_address(target: str, expected: tuple[str, str, str | None]) -> None:
    assert address_of(target, "") == expected
    store, path, format = expected
    assert address_of(target, "/last") == (store, f"{path}/last".lstrip("/"), format)


@pytest.mark.parametrize(
    ("target", "error"),
    {
        "x.zarr|a": MetadataError,
        "x.zarr|": MetadataError,
        "x.zarr|:a": MetadataError,
        "x.zarr|zarr2:a|zarr3:b": MetadataError,
        "x.zip|zip:a?b": MetadataError,
        "x.zip|zip:a#b": MetadataError,
        "x.zarr|zarr2:": MetadataError,  # beside format="zarr3"
        "x.zip|zip:a.zip|zip:b": UnsupportedError,
        "x.zip|zip:|zip:": UnsupportedError,
        "x.zip|zip:|zip:b|zarr:": UnsupportedError,
    }.items(),
)
def test_what_is_no_address_is_refused(target: str, error: type[TegulaError]) -> None:
    with pytest.raises(error):
        address_of(target, "", "zarr3")


def test_errors_hide_signatures() -> None:
    with pytest.raises(MetadataError) as error:
        address_of("https://me:word@host/x.zip?sig=secret|a", "")
    assert "secret" not in str(error.value)
    assert "word" not in str(error.value)


def test_names_that_exist_are_literal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a::b", "a|b"):
        tegula.save(Path(name), VALUES)
        assert (tegula.open(name)[:] == VALUES).all()
        absolute = tmp_path / f"{name}c"
        tegula.save(absolute, VALUES)
        assert absolute.is_dir()
        assert (tegula.open(absolute)[:] == VALUES).all()


@pytest.mark.parametrize("store", ["x.zarr", "x.zip", "x.zip|zip:"])
@pytest.mark.parametrize("inner", ["::g/x", "|zarr2:g/x", "|auto:g/x"])
def test_all_functions_take_addresses(tmp_path: Path, store: str, inner: str) -> None:
    if "|" in store and "::" in inner:
        inner = inner.replace("::", "|auto:")
    address = f"{tmp_path}/{store}{inner}"
    array = tegula.create_array(address, data=VALUES, **({} if "zarr2" in inner else {"format": "zarr2"}))
    assert (array.path, array.format) == ("g/x", "zarr2")
    array.store.close()
    functions: list[Any] = [tegula.load, tegula.open_array, tegula.open, lambda target: tegula.open(target, "r+")]
    for function in functions:
        assert np.array_equal(function(address), VALUES)
    assert tegula.check(address).ok
    tegula.convert(address, f"{tmp_path}/new.zarr|zarr3:deep/y", verify=True)
    assert tegula.open(tmp_path / "new.zarr", path="deep/y").format == "zarr3"
    tegula.copy(address, f"{tmp_path}/copy.zip::y")
    assert tegula.compare(address, f"{tmp_path}/copy.zip::y").equal
    tegula.save(f"{tmp_path}/{store.partition('|')[0]}::saved", VALUES, format="zarr2")
