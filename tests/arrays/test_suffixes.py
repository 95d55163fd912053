"""The suffix of a name decides the format of a new node, unless a format is given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula import LocalStore, MemoryStore
from tegula.cli.program import app
from tegula.errors import MetadataError, TegulaError

COLUMNS = {"a": np.arange(3)}
CREATORS: dict[str, Callable[..., Any]] = {
    "array": lambda target, **options: tegula.create_array(target, shape=3, dtype="u1", **options),
    "table": lambda target, **options: tegula.create_table(target, COLUMNS, **options),
    "save": lambda target, **options: tegula.save(target, np.arange(3), **options),
    "open": lambda target, **options: tegula.open(target, "w", shape=3, **options),
    "convert": lambda target, **options: tegula.convert(
        tegula.create_array(MemoryStore(), shape=3, dtype="u1", codecs="blosc"), target, **options
    ),
}
NAMES = [
    ("x.bcolz", "", "bcolz"), ("x.zarr", "", "zarr3"), ("X.BCOLZ", "", "bcolz"), ("x.ome.zarr", "", "zarr3"),
    ("x.zarr.zip", "", "zarr3"), ("x.bcolz.zip", "", "bcolz"), ("x.zarr", "inner", "zarr3"),
    ("x.zarr/inner", "", "zarr3"), ("x", "y.bcolz", "bcolz"), ("x.bcolz/y.zarr", "", "zarr3"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "path", "format"), NAMES)
@pytest.mark.parametrize("creator", CREATORS)
def test_the_suffix_decides(
    name: str, path: str, format: str, creator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for target in (name, Path(name), f"file:{tmp_path}/{name}"):
        CREATORS[creator](target, path=path, **({} if creator in ("save", "open") else {"overwrite": True}))
        assert tegula.open(target, path=path).format == format
    stored = tegula.store_of(name, read_only=True)
    assert tegula.open(stored, path=path).format == format


@pytest.mark.parametrize("creator", CREATORS)
def test_without_a_suffix_nothing_changes(creator: str, tmp_path: Path) -> None:
    usual = "bcolz" if creator == "table" else "zarr3"
    for target in (tmp_path / "x", tmp_path / "x.data", MemoryStore(), {}):
        CREATORS[creator](target)
        assert tegula.open(target).format == usual
    CREATORS[creator](store := LocalStore(tmp_path / "y.zarr"), path="inner")
    assert tegula.open(store, path="inner").format == "zarr3"


@pytest.mark.parametrize("creator", CREATORS)
@pytest.mark.parametrize(("name", "path", "format"), [
    ("x.bcolz", "", "zarr2"), ("x.bcolz", "", "zarr3"), ("x.zarr", "", "bcolz"), ("x.zarr", "inner", "bcolz"),
    ("x.zarr.zip", "", "bcolz"), ("x", "y.bcolz", "zarr3"),
])  # fmt: skip
def test_a_contradiction_is_refused_before_anything_is_written(
    name: str, path: str, format: str, creator: str, tmp_path: Path
) -> None:
    suffixed = path if path.endswith(".bcolz") else name
    with pytest.raises(MetadataError, match=f"the format {format} contradicts the name '{suffixed}'"):
        CREATORS[creator](tmp_path / name, path=path, format=format)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
def test_zarr_stands_for_all_its_versions(format: str, tmp_path: Path) -> None:
    assert tegula.create_array(tmp_path / "x.zarr", shape=3, dtype="u1", format=format).format == format


def test_existing_nodes_are_opened_with_any_suffix(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x", shape=3, dtype="u1", format="zarr2")
    (tmp_path / "x").rename(tmp_path / "x.bcolz")
    for mode in ("r", "r+", "a"):
        assert tegula.open(tmp_path / "x.bcolz", mode).format == "zarr2"
        assert tegula.open(tmp_path / "x.bcolz", mode, format="zarr2").format == "zarr2"


def test_groups_are_refused_where_the_suffix_means_a_format_without_any(tmp_path: Path) -> None:
    with pytest.raises(TegulaError, match="bcolz has no groups"):
        tegula.create_group(tmp_path / "x.bcolz")


def test_a_format_that_does_not_exist_is_refused_as_such(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="no format is called"):
        tegula.create_array(tmp_path / "x.zarr", shape=3, dtype="u1", format="zarr4")


@pytest.mark.slow
def test_the_command_line_goes_by_the_suffix(tmp_path: Path) -> None:
    tegula.create_table(tmp_path / "bars", COLUMNS, format="zarr2")
    run = CliRunner().invoke
    assert run(app, ["convert", f"{tmp_path}/bars", f"{tmp_path}/out.bcolz", "--codecs", "auto"]).exit_code == 0
    assert tegula.open(tmp_path / "out.bcolz").format == "bcolz"
    result = run(app, ["convert", f"{tmp_path}/bars", f"{tmp_path}/o.zarr", "--format", "bcolz"])
    assert result.exit_code
    assert "contradicts the name 'o.zarr'" in result.output
    assert run(app, ["convert", f"{tmp_path}/bars", f"{tmp_path}/c.zarr", "--consolidated"]).exit_code == 0
    assert list(tegula.open_group(tmp_path / "c.zarr", consolidated=True)) == ["a"]
    result = run(app, ["convert", f"{tmp_path}/c.zarr", f"{tmp_path}/d.zarr", "--no-consolidated"])
    assert "the consolidated metadata are left out" in result.output
