"""Opening and creating: the modes with and without an existing node, and reading without changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, ReadOnlyError, TegulaError, UnsupportedError
from tegula.stores import LocalStore, MemoryStore, ZipStore

MODES = ["r", "r+", "a", "w", "w-", "x"]


def listing(path: Path) -> dict[str, Any]:
    """Everything below a directory, with contents and times of change."""
    return {
        str(item.relative_to(path)): (item.stat().st_mtime_ns, item.read_bytes() if item.is_file() else None)
        for item in sorted(path.rglob("*"))
    }


def make(kind: str, place: Any) -> None:
    if kind == "group":
        tegula.create_group(place, attributes={"old": 1}).create_array("x", shape=3, dtype="i4")[:] = 1
    elif kind != "nothing":
        array = tegula.create_array(place, shape=(3, 2), dtype="i4", format=kind, attributes={"old": 1})
        array[...] = 1


PLACES: dict[str, Callable[[Path], Any]] = {
    "path": lambda tmp: tmp / "x",
    "text": lambda tmp: str(tmp / "x"),
    "url": lambda tmp: (tmp / "x").as_uri(),
    "zip": lambda tmp: tmp / "x.zip",
    "zip url": lambda tmp: f"zip://{tmp}/x.zip",
    "store": lambda tmp: LocalStore(tmp / "x"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["nothing", "group", "zarr1", "zarr2", "zarr3"])
@pytest.mark.parametrize("opener", ["open", "open_array", "open_group"])
def test_modes(mode: str, kind: str, opener: str) -> None:
    contents: dict[str, bytes] = {}
    make(kind, contents)
    before = dict(contents)
    is_array = kind.startswith("zarr")
    options: dict[str, Any] = {"shape": 4, "dtype": "u1"} if opener != "open_group" else {}
    wanted_array = opener != "open_group"
    function = getattr(tegula, opener)
    exists = kind != "nothing"

    def run() -> Any:
        return function(contents, mode, **(options if mode not in ("r", "r+") else {}))

    expected: type[TegulaError] | None = None
    if mode in ("r", "r+"):
        wrong = (opener == "open_array" and not is_array) or (opener == "open_group" and is_array)
        expected = NotFoundError if not exists or wrong else None
    elif mode in ("w-", "x"):
        expected = AlreadyExistsError if exists else None
    elif mode == "a" and exists:
        expected = NotFoundError if opener != "open" and wanted_array != is_array else None
    if expected is not None:
        with pytest.raises(expected):
            run()
        assert contents == before
        return
    node = run()
    assert node.read_only is (mode == "r")
    if mode in ("r", "r+", "a") and exists:
        assert contents == before
        assert node.attrs["old"] == 1
        assert isinstance(node, tegula.Array) is is_array
        assert node.format == (kind if is_array else "zarr3")
    else:
        assert isinstance(node, tegula.Array) is wanted_array
        assert "old" not in node.attrs
        assert sorted(contents) == ["zarr.json"]
    if mode == "r":
        with pytest.raises(ReadOnlyError):
            node.attrs["new"] = 1
    else:
        node.attrs["new"] = 1
        assert tegula.open(contents).attrs["new"] == 1


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["group", "zarr1", "zarr2", "zarr3"])
def test_every_kind_of_target(place: str, kind: str, tmp_path: Path) -> None:
    target = PLACES[place](tmp_path)
    with pytest.raises(NotFoundError):
        tegula.open(target)
    assert listing(tmp_path) == {}
    with tegula.store_of(target) as store:
        make(kind, store)
    node = tegula.open(target)
    assert node.read_only
    assert node.attrs["old"] == 1
    array = node["x"] if kind == "group" else node
    assert (array[...] == 1).all()


@pytest.mark.parametrize("kind", ["group", "zarr1", "zarr2", "zarr3"])
@pytest.mark.parametrize("place", ["path", "zip"])
def test_reading_creates_and_changes_nothing(place: str, kind: str, tmp_path: Path) -> None:
    target = PLACES[place](tmp_path)
    with tegula.store_of(target) as store:
        make(kind, store)
    before = listing(tmp_path)
    for mode in ("r", "r+", "a") if place == "path" else ("r",):
        node = tegula.open(target, mode)
        repr(node), node._repr_html_(), str(node.info), node.attrs.asdict(), dict(node.attrs)
        if isinstance(node, tegula.Group):
            [*node.walk()], str(node.tree()), "x" in node, "nothing" in node, len(node)
            with pytest.raises(NotFoundError):
                node["nothing"]
            node = node["x"]
        node[...], node[0], node.nbytes_stored(), node.nchunks_initialized()
        node.refresh()
        tegula.load(target)
        assert listing(tmp_path) == before


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_opening_a_missing_node_creates_nothing(mode: str, tmp_path: Path) -> None:
    for target in ("x", "x.zip", "a/b/c"):
        with pytest.raises(TegulaError):
            tegula.open(tmp_path / target, mode)
        with pytest.raises(TegulaError):
            tegula.open_array(tmp_path / target, mode)
        with pytest.raises(TegulaError):
            tegula.load(tmp_path / target)
    with pytest.raises(NotFoundError):
        tegula.open((tmp_path / "x.zip").as_uri().replace("zip", "z%69p"), mode)
    (tmp_path / "empty").mkdir()
    before = listing(tmp_path)
    assert [*before] == ["empty"]
    with pytest.raises(NotFoundError):
        tegula.open(tmp_path / "empty", mode)
    with pytest.raises(TegulaError):
        tegula.open(tmp_path / "empty", mode, path="a/b")
    assert listing(tmp_path) == before


def test_mode_a_opens_zarr1_arrays_without_changing_them(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "x", shape=(4, 4), chunks=(2, 2), dtype="f4", format="zarr1")
    array[...] = 3
    before = listing(tmp_path)
    for opener in (tegula.open, tegula.open_array):
        again = opener(tmp_path / "x", "a", **({"shape": 9, "dtype": "i1"} if opener is tegula.open_array else {}))
        assert again.format == "zarr1"
        assert (again[...] == 3).all()
        assert listing(tmp_path) == before
    with pytest.raises(NotFoundError):
        tegula.open_group(tmp_path / "x", "a")
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    "target", [5, None, 1.5, object(), "s3://", "s3://bucket/x?a=1", "http://", "nonsense://x", [], ("a",)]
)
def test_invalid_targets(target: Any) -> None:
    for action in (tegula.open, tegula.create_group, tegula.load):
        with pytest.raises((MetadataError, UnsupportedError)):
            action(target)


@pytest.mark.parametrize("mode", ["", "rw", "R", None, 5, [], "a+"])
def test_invalid_modes(mode: Any, tmp_path: Path) -> None:
    for opener in (tegula.open, tegula.open_array, tegula.open_group):
        with pytest.raises(MetadataError):
            opener(tmp_path / "x", mode)
    assert listing(tmp_path) == {}


def test_a_file_is_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"not a zip")
    before = listing(tmp_path)
    for mode in MODES:
        with pytest.raises(TegulaError):
            tegula.open(tmp_path / "x", mode)
    assert listing(tmp_path) == before


BAD: dict[str, list[Any]] = {
    "shape": [-1, 2**63, "x", None, (2, -1), 1.5, [[1]], (1,) * 40],
    "dtype": ["nothing", 5, "O", [("a", "O")], {"name": "x"}, "r7", object()],
    "chunks": [0, -2, 2.5, "x", (2, 2, 2), (0, 1), [[0], [1]], [[1], [4]], object(), 2**70, {"a": 1}, int, str],
    "shards": [0, 3, (4,), "x", 2.5, (2, 3), -2],
    "fill_value": ["x", [1], 1.5, 2**40, object(), b"x"],
    "codecs": [5, "nothing", [5], {"id": "nothing"}, {"x": 1}, {"name": 5}, [["zstd"]], {"name": "zstd", "x": 1},
               {"name": "zstd", "configuration": {"level": "high"}}, {"name": "gzip", "configuration": {"level": 99}},
               ["zstd", "transpose"], {"name": "transpose", "configuration": {"order": [0, 0]}}, object()],
    "order": ["A", None, 5, np.array([2, 3]), np.void(b"C")],
    "dimension_names": [5, "xy", ["x"], ["x", 5], ["x", "y", "z"]],
    "attributes": [5, [1], {"a": {1}}, {"a": object()}, "x"],
    "format": ["zarr4", "", 5, [], "zarr0.4"],
    "path": ["../x", "a//b", "a/../b", "a/.", "zarr.json", "a\0b", 5, None, "..."],
    "chunk_key_encoding": ["x", 5, {"name": "v3"}, {"name": "v2", "configuration": 5}, {"separator": "-"}, "-", "/x",
                           np.void(b"/")],
    "write_empty_chunks": [1, "no", [], np.array([True, False])],
    "allow_pickle": [1, "no", [], np.array([True, False]), {}],
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_argument_is_refused_and_nothing_written(name: str) -> None:
    for format in ("zarr1", "zarr2", "zarr3"):
        for value in BAD[name]:
            store = MemoryStore()
            if format == "zarr1" and "transpose" in str(value):
                continue  # only chunks of Blosc have an order there
            options: dict[str, Any] = {"shape": (4, 4), "chunks": (2, 2), "dtype": "i4", "format": format, name: value}
            with pytest.raises(TegulaError):
                tegula.create_array(store, **options)
            assert [*store.list()] == [], f"{name}={value!r} left something behind"


def test_creating_makes_the_groups_above(tmp_path: Path) -> None:
    for format, group in (("zarr2", ".zgroup"), ("zarr3", "zarr.json")):
        store = MemoryStore()
        tegula.create_array(store, path="a/b/x", shape=2, dtype="i1", format=format)
        assert {key for key in store.list() if key.endswith(group) and "x" not in key} == {
            group, f"a/{group}", f"a/b/{group}",
        }  # fmt: skip
        with pytest.raises(AlreadyExistsError):
            tegula.create_group(store, path="a/b/x/inner", format=format)
        with pytest.raises(AlreadyExistsError):
            tegula.create_group(store, path="a/b", format=format)
    store = MemoryStore()
    tegula.create_array(store, path="a/b/x", shape=2, dtype="i1", format="zarr1")
    assert sorted(store.list()) == ["a/b/x/attrs", "a/b/x/meta"]


@pytest.mark.parametrize("kind", ["group", "zarr1", "zarr2", "zarr3"])
@pytest.mark.parametrize("new", ["array", "group"])
def test_overwriting_stays_within_the_node(kind: str, new: str, tmp_path: Path) -> None:
    root = tegula.create_group(tmp_path / "root", attributes={"kept": 1})
    for name in ("aa", "a-b", "b"):
        root.create_array(name, shape=2, dtype="i4")[...] = 1
    (tmp_path / "root" / "notes.txt").write_text("kept")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "file").write_text("kept")
    before = listing(tmp_path)
    if kind == "group":
        root.create_group("a").create_array("x", shape=2, dtype="i4")[...] = 1
    elif kind == "zarr3":
        root.create_array("a", shape=2, dtype="i4")[...] = 1
    else:
        array = tegula.create_array(tmp_path / "root" / "a", shape=2, dtype="i4", format=kind)
        array[...] = 1
    (tmp_path / "root" / "a" / "outside").symlink_to(tmp_path / "beside")
    if new == "array":
        tegula.create_array(tmp_path / "root", path="a", shape=1, dtype="u1", overwrite=True)
    else:
        tegula.create_group(tmp_path / "root", path="a", overwrite=True)
    after = {
        key: value for key, value in listing(tmp_path).items() if not key.startswith("root/a/") and key != "root/a"
    }
    changing = {"root"}
    assert {key: value for key, value in after.items() if key not in changing} == {
        key: value for key, value in before.items() if key not in changing
    }
    files = {path.name for path in (tmp_path / "root" / "a").rglob("*") if path.is_file() and not path.is_symlink()}
    assert files == {"zarr.json"}


def test_a_damaged_node_can_be_overwritten() -> None:
    for key, raw in ((".zarray", b"{"), ("zarr.json", b'{"zarr_format": 3}'), ("meta", b"\xff")):
        store = MemoryStore({f"a/{key}": raw, "a/c/0": b"old", "a/0": b"old", "b": b"kept"})
        with pytest.raises(MetadataError) as caught:
            tegula.open(store, path="a")
        assert caught.value.key == f"a/{key}"
        with pytest.raises(MetadataError):
            tegula.create_array(store, path="a", shape=4, dtype="i4")
        array = tegula.create_array(store, path="a", shape=4, dtype="i4", overwrite=True)
        assert (array[...] == 0).all()
        assert sorted(store.list()) == ["a/zarr.json", "b", "zarr.json"]


def test_old_chunks_of_a_lost_array_are_not_taken_over() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=4, dtype="i4")[...] = 7
    store.delete("zarr.json")
    array = tegula.create_array(store, shape=4, dtype="i4", overwrite=True)
    assert (array[...] == 0).all()


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
def test_save_and_load(format: str, tmp_path: Path) -> None:
    values = np.arange(6.0).reshape(2, 3)
    tegula.save(tmp_path / "x", values, format=format)
    np.testing.assert_array_equal(tegula.load(tmp_path / "x"), values)
    tegula.save(tmp_path / "x", values + 1, format=format)
    np.testing.assert_array_equal(tegula.load(tmp_path / "x"), values + 1)
    tegula.save(tmp_path / "x.zip", [1, 2], path="a/b", format=format)
    np.testing.assert_array_equal(tegula.load(tmp_path / "x.zip", path="a/b"), [1, 2])
    for nothing in ({}, {"values": values}):
        if not nothing:
            with pytest.raises(MetadataError):
                tegula.save(tmp_path / "y", format=format)
    with pytest.raises(MetadataError):
        tegula.save(tmp_path / "y", values, x=values, format=format)
    assert not (tmp_path / "y").exists()
    before = listing(tmp_path)
    with pytest.raises(MetadataError):
        tegula.save(tmp_path / "x", [[1], [2, 3]], format=format)
    with pytest.raises(UnsupportedError):
        tegula.save(tmp_path / "x", [object()], format=format)
    with pytest.raises(MetadataError):
        tegula.save(tmp_path / "x", a=1, b=[[1], [2, 3]], format=format)
    for wrong in ({"dtype": "nothing"}, {"shape": -1}, {"chunks": 0}, {"codecs": "nothing"}, {"fill_value": "x"}):
        with pytest.raises(TegulaError):
            tegula.open(tmp_path / "x", "w", **{"shape": 3, "dtype": "i4", "format": format, **wrong})
    assert listing(tmp_path) == before
    if format == "zarr1":
        return
    tegula.save(tmp_path / "g", x=values, y=["a", "b"], z=np.float32(3), format=format)
    loaded = tegula.load(tmp_path / "g")
    assert isinstance(loaded, dict)
    assert sorted(loaded) == ["x", "y", "z"]
    np.testing.assert_array_equal(loaded["x"], values)
    assert loaded["y"].tolist() == ["a", "b"]
    assert loaded["z"] == 3
    assert loaded["z"].dtype == "f4"


def test_only_the_given_format_is_opened(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x", shape=3, dtype="i4", format="zarr2", fill_value=2)
    tegula.create_array(LocalStore(tmp_path / "y"), shape=3, dtype="i4", format="zarr3", fill_value=3)
    for path in (tmp_path / "y").iterdir():
        path.rename(tmp_path / "x" / path.name)
    assert tegula.open(tmp_path / "x").format == "zarr3"
    assert tegula.open_array(tmp_path / "x", format="zarr2")[0] == 2
    with pytest.raises(NotFoundError):
        tegula.open(tmp_path / "x", format="zarr1")


def test_a_zip_is_one_file(tmp_path: Path) -> None:
    with ZipStore(tmp_path / "x.zip", mode="w") as store:
        root = tegula.create_group(store)
        root.create_array("x", shape=4, chunks=2, dtype="i4")[...] = [1, 2, 3, 4]
        root["x"].resize(3)
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]
    assert tegula.open(tmp_path / "x.zip")["x"][...].tolist() == [1, 2, 3]
    with tegula.store_of(tmp_path / "x.zip") as store:
        tegula.open_array(store, "r+", path="x").append([9])
    assert tegula.open(tmp_path / "x.zip")["x"][...].tolist() == [1, 2, 3, 9]


def test_an_axis_may_have_many_chunks_of_different_lengths() -> None:
    edges = [1 + number % 3 for number in range(300)]
    array = tegula.create_array({}, shape=sum(edges), chunks=[edges], dtype="i4")
    array[...] = np.arange(sum(edges))
    assert array.chunks == (tuple(edges),)
    assert tegula.open_array(array.store)[...].tolist() == [*range(sum(edges))]
    for wrong in ([[1.5]], [["a"]], [[None]], [[2**80]]):
        with pytest.raises(MetadataError):
            tegula.create_array({}, shape=1, chunks=wrong, dtype="i4")


def test_shapes_may_be_arrays() -> None:
    array = tegula.create_array({}, shape=np.array([3, 4]), dtype="i4", chunks=np.array([2, 4]))
    assert (array.shape, array.chunks) == ((3, 4), (2, 4))
    assert tegula.create_array({}, shape=np.int64(3), dtype="i4", chunks=np.int8(2)).chunks == (2,)
    assert tegula.create_array({}, shape=3, dtype="i4", chunks=np.array(2)).chunks == (2,)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_attributes_that_could_not_be_read_back_change_nothing(format: str) -> None:
    store = tegula.MemoryStore()
    tegula.save(store, [1, 2], format=format)
    a = tegula.open_array(store, mode="r+")
    before = {key: store.get(key) for key in store.list()}
    with pytest.raises(tegula.MetadataError, match="deep"):
        a.attrs["x"] = nested(100)
    with pytest.raises(tegula.MetadataError, match="deep"):
        tegula.create_array(store, shape=2, dtype="u1", format=format, attributes={"x": nested(100)}, overwrite=True)
    assert {key: store.get(key) for key in store.list()} == before


@pytest.mark.parametrize("bad", [{"shape": -1, "dtype": "i4"}, {"shape": 2, "dtype": "nonsense"}])
def test_a_creation_that_fails_leaves_no_archive(tmp_path: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(tegula.TegulaError):
        tegula.create_array(tmp_path / "a.zip", **bad)
    for target in (f"zip://{tmp_path}/a.zip", f"file://{tmp_path}/a.zip", tmp_path / "a.zip"):
        with pytest.raises(tegula.NotFoundError):
            tegula.open(target, "r+")
    assert [*tmp_path.iterdir()] == []


def test_an_array_is_not_created_over_other_nodes() -> None:
    store = tegula.MemoryStore()
    tegula.create_array(store, path="imp/x", shape=2, dtype="i4", format="zarr1")
    with pytest.raises(tegula.AlreadyExistsError):
        tegula.create_array(store, path="imp", shape=3, dtype="i4")
    tegula.create_array(store, path="imp", shape=3, dtype="i4", overwrite=True)
    assert sorted(store.list()) == ["imp/zarr.json", "zarr.json"]


def test_files_of_others_survive_an_overwrite_where_no_node_is(tmp_path: Path) -> None:
    (tmp_path / "meta").write_text("just notes")
    (tmp_path / "thesis.txt").write_text("years of work")
    tegula.create_array(tmp_path, shape=2, dtype="i4", overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    assert tegula.open(tmp_path).shape == (2,)


def test_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(tegula.MetadataError, match="foo"):
        tegula.open({}, "a", foo=1)
    with pytest.raises(tegula.MetadataError, match="shape"):
        tegula.open({}, "w", dtype="f4")


class Racing(tegula.MemoryStore):
    """A store that runs another action just before the first document of a new node is written."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: dict[str, Any] = {}

    def set(self, key: str, value: Any, **options: Any) -> Any:
        turn = self.turns.pop(key, None)
        if turn is not None:
            turn()
        return super().set(key, value, **options)


@pytest.mark.parametrize("mode", ["r", "r+", "a", "w", "w-"])
@pytest.mark.parametrize("wrong", [{"shape": 3}, {"dtype": "i4"}, {"chunks": 2, "shape": 3}, {"read_only": True}])
def test_a_group_is_not_replaced_by_an_array_that_was_meant_to_be_one(mode: str, wrong: dict[str, Any]) -> None:
    store: dict[str, bytes] = {}
    tegula.save(store, x=[1, 2])
    before = dict(store)
    with pytest.raises(MetadataError, match="open_group has no keyword"):
        tegula.open_group(store, mode, **wrong)
    assert store == before


@pytest.mark.parametrize("mode", ["w", "w-", "x"])
def test_a_group_is_not_replaced_to_read_its_consolidated_metadata(mode: str) -> None:
    store: dict[str, bytes] = {}
    tegula.save(store, x=[1, 2])
    tegula.open_group(store, "r+").consolidate()
    before = dict(store)
    with pytest.raises(MetadataError, match="mode r, r"):
        tegula.open_group(store, mode, consolidated=True)
    assert list(tegula.open_group(store, "a", consolidated=True)) == ["x"]
    assert store == before
    with pytest.raises(NotFoundError):
        tegula.open_group(missing := {}, "a", consolidated=True)
    assert not missing


def test_the_loser_of_a_race_to_create_changes_nothing() -> None:
    store = Racing()
    options: dict[str, Any] = {"shape": 2, "dtype": "u1", "format": "zarr2", "path": "a"}
    store.turns["a/.zarray"] = lambda: tegula.create_array(store, **options, attributes={"winner": 1})
    with pytest.raises(tegula.AlreadyExistsError):
        tegula.create_array(store, **options, attributes={"loser": 1})
    assert tegula.open(store, path="a").attrs.asdict() == {"winner": 1}


def test_attributes_set_while_an_array_is_created_are_kept() -> None:
    store = Racing()
    store.turns["a/.zattrs"] = lambda: tegula.open_array(store, mode="r+", path="a").attrs.update(theirs=2)
    a = tegula.create_array(store, shape=2, dtype="u1", format="zarr2", path="a", attributes={"mine": 1})
    assert a.attrs.asdict() == tegula.open(store, path="a").attrs.asdict() == {"mine": 1, "theirs": 2}


# --- saving over what is there


def _fill_group(store: Any, format: str) -> None:
    tegula.save(store, x=[1, 2], y=[3], format=format)


OCCUPANTS: dict[str, Callable[[Any], object]] = {
    "group": lambda store: _fill_group(store, "zarr3"),
    "older group": lambda store: _fill_group(store, "zarr2"),
    "empty group": tegula.create_group,
    "group without documents": lambda store: tegula.save(store, [1, 2], path="x", format="bcolz"),
    "table": lambda store: tegula.create_table(store, {"x": [1, 2]}),
    "damaged group": lambda store: (_fill_group(store, "zarr3"), store.set("zarr.json", b"{"), None)[2],
}


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "bcolz"])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("occupant", OCCUPANTS)
def test_save_replaces_a_group_only_with_overwrite(occupant: str, named: bool, format: str) -> None:
    store = MemoryStore()
    OCCUPANTS[occupant](store)
    before = {key: store.get(key) for key in store.list()}
    args, arrays = ((), {"x": [7], "new": [8, 9]}) if named else (([5, 6],), {})
    kind = "table" if occupant == "table" else "group"
    message = f"a {kind}.* already exists at this path; pass overwrite=True"
    with pytest.raises(AlreadyExistsError, match=message) as caught:
        tegula.save(store, *args, format=format, **arrays)
    assert caught.value.path == store.url
    if occupant != "empty group":
        assert "x" in str(caught.value)
    assert {key: store.get(key) for key in store.list()} == before
    tegula.save(store, *args, format=format, overwrite=True, **arrays)
    loaded = tegula.load(store)
    if isinstance(loaded, dict):
        assert occupant == "damaged group" or sorted(loaded) == ["new", "x"]
        assert (loaded["x"].tolist(), loaded["new"].tolist()) == ([7], [8, 9])
    else:
        assert not named
        assert loaded.tolist() == [5, 6]


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "bcolz"])
@pytest.mark.parametrize("damaged", [False, True])
def test_save_replaces_an_array(format: str, damaged: bool) -> None:
    store = MemoryStore()
    tegula.save(store, np.arange(100), path="a", format=format)
    tegula.save(store, [1], path="b", format=format)
    if damaged:
        key = {"zarr1": "meta", "zarr2": ".zarray", "zarr3": "zarr.json", "bcolz": "meta/storage"}[format]
        store.set(f"a/{key}", b"{")
    tegula.save(store, [5, 6], path="a", format=format)
    assert tegula.open_array(store, path="a")[:].tolist() == [5, 6]
    if format != "zarr1":
        tegula.save(store, path="a", x=[1], y=[2], format=format)
        assert {name: values.tolist() for name, values in tegula.load(store, path="a").items()} == {"x": [1], "y": [2]}
    assert tegula.load(store, path="b").tolist() == [1]


def test_save_over_a_group_says_what_it_would_delete(tmp_path: Path) -> None:
    tegula.save(tmp_path / "g", path="inner", **dict.fromkeys("abcde", np.arange(3)))
    with pytest.raises(AlreadyExistsError) as caught:
        tegula.save(tmp_path / "g", np.arange(2), path="inner")
    message = "a group with the members a, b, c, … already exists at this path; pass overwrite=True"
    assert str(caught.value).startswith(message)
    assert (tmp_path / "g" / "inner").as_uri() in str(caught.value)
    tegula.save(tmp_path / "g", [1], path="inner/a")  # over an array
    tegula.save(tmp_path / "g", [2], path="inner/f")  # beside them
    assert sorted(tegula.load(tmp_path / "g", path="inner")) == [*"abcdef"]
    with pytest.raises(AlreadyExistsError):
        tegula.save(tmp_path / "g", [1])


def test_an_array_with_nodes_below_it_is_not_deleted_with_them(tmp_path: Path) -> None:
    tegula.save(tmp_path, [1, 2], format="bcolz")
    tegula.create_group(LocalStore(tmp_path / "g"))
    with pytest.raises(AlreadyExistsError, match=r"group.*overwrite=True"):
        tegula.save(tmp_path, [3])
    assert tegula.open_array(tmp_path, format="bcolz")[:].tolist() == [1, 2]


@pytest.mark.parametrize(
    "act", [tegula.open, lambda path: tegula.open(path, "r+"), tegula.load, tegula.check, tegula.delete]
)
def test_a_path_where_nothing_exists_is_told_from_one_without_a_node(act: Any, tmp_path: Path) -> None:
    """A misspelt path is a different mistake from a directory of something else."""
    with pytest.raises(NotFoundError, match="nothing exists at this path"):
        act(str(tmp_path / "misspelt.zarr"))
    (tmp_path / "notes").mkdir()
    with pytest.raises(NotFoundError) as caught:
        act(str(tmp_path / "notes"))
    assert "nothing exists" not in str(caught.value)
