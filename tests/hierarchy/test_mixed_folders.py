"""Folders without documents, with nodes of several formats below."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula import LocalStore, MemoryStore, Store
from tegula.cli.program import app

MEMBERS = {"deep": "bcolz", "new.zarr": "zarr3", "old": "zarr2", "oldest": "zarr1", "prices": "bcolz", "sub": "zarr2",
           "walk": "bcolz"}  # fmt: skip


def fill(target: Any) -> None:
    tegula.create_array(target, path="walk", shape=3, dtype="u1", format="bcolz")
    tegula.create_table(target, {"a": np.arange(3)}, path="prices")
    tegula.create_array(target, path="oldest", shape=3, dtype="u1", format="zarr1")
    tegula.create_array(target, path="deep/er/est", shape=3, dtype="u1", format="bcolz")
    for path, format in (("old", "zarr2"), ("new.zarr", "zarr3"), ("sub/x", "zarr2")):
        with tegula.store_of(MemoryStore()) as other:
            tegula.create_group(other, format=format).create_array("t", shape=(2, 2), dtype="f4")
            for key in other.list():
                target.set(f"{path}/{key}", other.get(key))
    target.set("notes/readme.txt", b"no node")


@pytest.fixture(params=["directory", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    store: Store = LocalStore(tmp_path) if request.param == "directory" else MemoryStore()
    fill(store)
    return store


def test_a_folder_lists_the_members_of_all_formats(folder: Store) -> None:
    group = tegula.open_group(folder)
    assert {name: group[name].format for name in group} == MEMBERS
    assert {name: node.format for name, node in group.members()} == MEMBERS
    assert len(group) == len(MEMBERS)
    assert [path for path, _ in group.walk()] == [
        "deep", "deep/er", "deep/er/est", "new.zarr", "new.zarr/t", "old", "old/t", "oldest", "prices", "sub", "sub/x",
        "sub/x/t", "walk",
    ]  # fmt: skip


def test_a_group_with_a_document_lists_its_own_format(folder: Store) -> None:
    folder.set("zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    assert list(tegula.open_group(folder)) == ["new.zarr"]


def test_the_tree_shows_formats_where_they_differ(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "a.bcolz", shape=3, dtype="u1")
    tegula.create_group(tmp_path / "b.zarr").create_array("t", shape=(2, 2), dtype="f4")
    expected = "/ (a plain directory)\n├── a.bcolz (3,) uint8 [bcolz]\n└── b.zarr [zarr3]\n    └── t (2, 2) float32"
    assert str(tegula.open_group(tmp_path).tree()) == expected
    (tmp_path / "b.zarr/zarr.json").write_text("{")
    assert "unreadable" in str(tegula.open_group(tmp_path).tree())
    same = MemoryStore()
    tegula.create_array(same, path="x", shape=3, dtype="u1", format="zarr1")
    assert str(tegula.open_group(same).tree()) == "/\n└── x (3,) uint8"


def test_the_command_line_lists_all_with_their_formats(tmp_path: Path) -> None:
    fill(LocalStore(tmp_path))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, str(tmp_path)])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert run("ls").split() == [*MEMBERS]
    formats = {**MEMBERS, "deep": None, "sub": None}  # directories that are no nodes
    assert [line.split()[1] for line in run("ls", "-l").splitlines()[1:]] == [form or "-" for form in formats.values()]
    assert {item["name"]: item["format"] for item in json.loads(run("ls", "--json"))} == formats
    assert {item["name"]: item["format"] for item in json.loads(run("tree", "--json"))["members"]} == formats
    found = json.loads(run("info", "--json"))
    assert (found["arrays"], found["tables"]) == (["oldest", "walk"], ["prices"])
    assert found["groups"] == ["deep", "new.zarr", "old", "sub"]
    assert "prices 3 rows [bcolz]" in run("tree")


def test_a_mixed_folder_is_converted_whole(folder: Store) -> None:
    report = tegula.convert(folder, target := MemoryStore(), format="zarr3", codecs="auto")
    assert report.ok
    assert {item.path for item in report.arrays} == {
        "deep/er/est", "new.zarr/t", "old/t", "oldest", "prices/a", "sub/x/t", "walk",
    }  # fmt: skip
    assert {*tegula.open_group(target)} == {*MEMBERS}


@pytest.mark.parametrize("way", ["delete", "overwrite", "move", "del"])
def test_files_in_a_folder_that_belong_to_no_node_are_not_deleted(tmp_path: Path, way: str) -> None:
    store = LocalStore(tmp_path)
    for path in ("data/x.zarr", "data/more/y.zarr"):
        tegula.create_array(tmp_path / path, shape=3, dtype="u1", format="zarr2")[:] = 1
    store.set("data/broken.zarr/.zarray", b"no JSON")
    others = ["data/notes.txt", "data/thesis/chapter.txt", "data/more/plan.txt", "data/2020/01"]
    for key in others:
        store.set(key, b"mine")
    if way == "delete":
        tegula.delete(store, path="data")
    elif way == "overwrite":
        tegula.create_group(tmp_path / "data", overwrite=True)
    elif way == "move":
        tegula.move(tegula.open_group(store, mode="r+", path="data"), MemoryStore())
    else:
        tegula.create_group(store, format="zarr2")
        del tegula.open_group(store, mode="r+")["data"]
        store.delete(".zgroup")
    expected = {*others, "data/zarr.json"} if way == "overwrite" else {*others}
    assert {*store.list_prefix("")} == expected
