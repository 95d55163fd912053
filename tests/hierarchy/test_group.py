"""Groups: a mapping of names to nodes, whatever the store."""

from __future__ import annotations

import copy
import errno
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import tegula
from tegula.errors import (
    AlreadyExistsError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
    TegulaError,
    UnsupportedError,
)
from tegula.stores import LocalStore, MemoryStore, ZipStore
from tegula.testing import Fault, FaultyStore

FORMATS = ["zarr2", "zarr3"]
NAMES = ["a", "b", "é", "a.b", "ab", "0", "c", "日本", "data", " x "]


class GroupMachine(RuleBasedStateMachine):
    """A hierarchy behaves as nested dicts do."""

    paths = Bundle("paths")

    @initialize(format=st.sampled_from(FORMATS))
    def create(self, format: str) -> None:
        self.root = tegula.create_group(MemoryStore(), format=format)
        self.model: dict[str, str] = {}

    @rule(target=paths, parts=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
    def path(self, parts: list[str]) -> str:
        return "/".join(parts)

    def above(self, path: str) -> list[str]:
        parts = path.split("/")
        return ["/".join(parts[:count]) for count in range(1, len(parts))]

    def add(self, path: str, kind: str) -> None:
        blocked = path in self.model or any(self.model.get(above) == "array" for above in self.above(path))
        create = self.root.create_group if kind == "group" else self.create_array
        if blocked:
            with pytest.raises(AlreadyExistsError):
                create(path)
            return
        assert create(path).path == path
        self.model |= dict.fromkeys(self.above(path), "group")
        self.model[path] = kind

    def create_array(self, path: str) -> tegula.Array:
        return self.root.create_array(path, shape=3, dtype="i4")

    @rule(path=paths)
    def add_array(self, path: str) -> None:
        self.add(path, "array")

    @rule(path=paths)
    def add_group(self, path: str) -> None:
        self.add(path, "group")

    @rule(path=paths)
    def require(self, path: str) -> None:
        if self.model.get(path) == "group":
            assert self.root.require_group(path) == self.root[path]
            with pytest.raises(AlreadyExistsError):
                self.root.require_array(path, shape=3, dtype="i4")
        elif self.model.get(path) == "array":
            assert self.root.require_array(path, shape=3, dtype="i4") == self.root[path]
            for options in ({"shape": 4, "dtype": "i4"}, {"shape": (3, 1), "dtype": "i4"}, {"shape": 3, "dtype": "f4"}):
                with pytest.raises(AlreadyExistsError):
                    self.root.require_array(path, **options)
            with pytest.raises(AlreadyExistsError):
                self.root.require_group(path)

    @rule(path=paths)
    def delete(self, path: str) -> None:
        if path not in self.model:
            with pytest.raises(NotFoundError):
                del self.root[path]
            return
        del self.root[path]
        self.model = {p: kind for p, kind in self.model.items() if p != path and not p.startswith(f"{path}/")}

    @rule(path=paths)
    def look(self, path: str) -> None:
        assert (path in self.root) is (path in self.model)
        if path in self.model:
            node = self.root[path]
            assert type(node).__name__.lower() == self.model[path]
            assert (node.path, node.name) == (path, path.rpartition("/")[2])
        else:
            with pytest.raises(NotFoundError):
                self.root[path]
            assert self.root.get(path) is None

    @invariant()
    def members_are_those_of_the_model(self) -> None:
        if not hasattr(self, "root"):
            return
        direct = sorted(path for path in self.model if "/" not in path)
        assert sorted(self.root) == direct
        assert len(self.root) == len(direct)
        assert sorted(path for path, _ in self.root.walk()) == sorted(self.model)
        assert {name for name, _ in self.root.arrays()} == {name for name in direct if self.model[name] == "array"}
        assert {name for name, _ in self.root.groups()} == {name for name in direct if self.model[name] == "group"}
        assert len(str(self.root.tree()).splitlines()) == 1 + len(self.model)


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(deadline=None, max_examples=40, stateful_step_count=20)


@pytest.fixture(params=["memory", "local", "zip", "mapping"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return {
        "memory": MemoryStore,
        "local": lambda: LocalStore(tmp_path / "x"),
        "zip": lambda: ZipStore(tmp_path / "x.zip", mode="w"),
        "mapping": dict,
    }[request.param]()


@pytest.mark.parametrize("format", FORMATS)
def test_a_group_on_any_store(store: Any, format: str) -> None:
    root = tegula.create_group(store, format=format, attributes={"title": "ein Würfel"})
    assert [*root] == []
    assert not len(root)
    assert root
    root["values"] = np.arange(6).reshape(2, 3)
    inner = root.create_group("内/x", attributes={"n": 1})
    inner["y"] = [1.5, 2.5]
    root["naïve name"] = np.array(["a", "bc"])
    assert sorted(root) == sorted(["values", "内", "naïve name"])
    assert root["内"]["x"]["y"] == root["内/x/y"] == root["内"]["x/y"]
    assert root["内/x/y"][...].tolist() == [1.5, 2.5]
    assert root["内/x"].attrs["n"] == 1
    assert {name: type(node).__name__ for name, node in root.items()} == {
        "values": "Array", "内": "Group", "naïve name": "Array",
    }  # fmt: skip
    with pytest.raises(AlreadyExistsError):
        root["values"] = 1
    reader = tegula.open_group(root.store)
    assert reader.read_only
    assert sorted(reader) == sorted(root)
    assert reader["values"].read_only
    for change in (
        lambda: reader.__delitem__("values"),
        lambda: reader.create_group("z"),
        lambda: reader.__setitem__("z", [1]),
        lambda: reader["values"].__setitem__(0, 1),
        lambda: reader["内"].create_group("z"),
        lambda: reader.require_group("z"),
        reader.consolidate,
        lambda: reader.attrs.update(x=1),
    ):
        with pytest.raises(ReadOnlyError):
            change()
    del root["内"]
    assert sorted(root) == sorted(["values", "naïve name"])
    assert root["values"][1, 2] == 5
    assert not any(key.startswith("内") for key in root.store.list())


@pytest.mark.parametrize("name", ["", "//", ".", "..", "a/../b", "./a", "a//b", "a\0b", "\ud800", "a/", "/a/"])
def test_names_that_no_member_has(name: str) -> None:
    for make in (MemoryStore, dict):
        root = tegula.create_group(make())
        assert name not in root
        with pytest.raises(NotFoundError):
            root[name]
        assert root.get(name) is None
        if name.strip("/") != "a":  # a slash at either end is not part of the name
            with pytest.raises(TegulaError):
                root.create_group(name)
            with pytest.raises(TegulaError):
                root.create_array(name, shape=1, dtype="i1")
            assert [*root] == []


@pytest.mark.parametrize("name", [None, 5, b"a", ("a",), 1.5, ...])
def test_names_are_text(name: Any) -> None:
    root = tegula.create_group(MemoryStore())
    assert name not in root
    for action in (lambda: root[name], lambda: root.create_group(name), lambda: root.__delitem__(name)):
        with pytest.raises(TegulaError):
            action()


@pytest.mark.parametrize("name", ["__x", "...", "a/__b", "zarr.json", "x/zarr.json"])
def test_names_that_the_specification_reserves_are_not_created(name: str) -> None:
    root = tegula.create_group(MemoryStore())
    for action in (lambda: root.create_group(name), lambda: root.create_array(name, shape=1, dtype="i1")):
        with pytest.raises(MetadataError):
            action()
    assert [*root.store.list()] == ["zarr.json"]


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
def test_a_prefix_with_nodes_below_is_an_implicit_group(format: str) -> None:
    store = MemoryStore()
    outside = MemoryStore()
    tegula.create_array(outside, shape=3, dtype="i4", format=format)[...] = 5
    for key in outside.list():
        store.set(f"a/x/{key}", outside.get(key) or b"")
    if format == "zarr1":
        assert [*tegula.open(store)] == ["a"]
    else:
        with pytest.raises(NotFoundError):
            tegula.open(store)  # nodes two levels down make no group if groups have documents
    before = sorted(store.list())
    group = tegula.open(store, "r+", path="a")
    assert isinstance(group, tegula.Group)
    assert group.format == format
    assert group.attrs.asdict() == {}
    assert [*group] == ["x"]
    assert (group["x"][...] == 5).all()
    assert sorted(store.list()) == before
    if format == "zarr1":
        with pytest.raises(UnsupportedError):
            group.attrs["n"] = 1
    else:
        group.attrs["n"] = 1
        assert tegula.open_group(store, path="a").attrs["n"] == 1
        assert "a" not in store.list()
    if format != "zarr1":
        group.create_array("y", shape=2, dtype="i1")
        assert sorted(group) == ["x", "y"]


def test_bcolz_nodes_further_down_make_groups_of_all_prefixes_above_them() -> None:
    store = MemoryStore()
    for path in ("00/00/000001.bcolz", "00/01/000100.bcolz", "03/a"):
        tegula.create_table(store, {"open": [1, 2]}, path=path)
    store.set("metadata.json", b"{}")
    store.set("junk/below/it", b"")
    root = tegula.open(store)
    assert (root.format, [*root], [*root["00"]]) == ("bcolz", ["00", "03"], ["00", "01"])
    assert [path for path, node in root.walk() if isinstance(node, tegula.Table)] == [
        "00/00/000001.bcolz", "00/01/000100.bcolz", "03/a",
    ]  # fmt: skip
    assert "junk" not in root
    target = MemoryStore()
    assert tegula.convert(store, target, format="zarr2", verify=True).ok
    assert tegula.open_table(target, path="00/01/000100.bcolz")["open"][:].tolist() == [1, 2]
    deep = MemoryStore()
    tegula.create_table(deep, {"open": [1]}, path="a/b/c/d/e")
    with pytest.raises(NotFoundError):
        tegula.open(deep)  # a directory is not searched completely


@pytest.mark.parametrize("format", FORMATS)
def test_a_consolidated_copy_is_used_on_request_only(format: str) -> None:
    store = MemoryStore()
    root = tegula.create_group(store, format=format, attributes={"n": 1})
    root.create_array("x", shape=3, dtype="i4", attributes={"old": 1})[...] = 7
    root.create_group("g").create_array("y", shape=(), dtype="f4")
    with pytest.raises(NotFoundError):
        tegula.open_group(store, consolidated=True)
    root.consolidate()
    fast = tegula.open_group(store, consolidated=True)
    assert sorted(fast) == ["g", "x"]
    assert sorted(path for path, _ in fast.walk()) == ["g", "g/y", "x"]
    assert "g/y" in fast
    assert "nothing" not in fast
    assert fast["g"]["y"].shape == ()
    assert (fast["x"][...] == 7).all()
    assert fast.attrs.asdict() == {"n": 1}
    assert str(fast.tree()) == str(root.tree())

    # the copy becomes outdated; it is used on request only
    root["x"].resize(5)
    root["x"].attrs["new"] = 2
    root.create_array("z", shape=1, dtype="i1")
    del root["g"]
    plain = tegula.open_group(store)
    assert sorted(plain) == ["x", "z"]
    assert plain["x"].shape == (5,)
    stale = tegula.open_group(store, consolidated=True)
    assert sorted(stale) == ["g", "x"]
    assert stale["x"].shape == (3,)
    with pytest.raises(NotFoundError):
        stale["z"]
    # and a write through it uses the stored document, not the copy
    writer = tegula.open_group(store, "r+", consolidated=True)
    writer["x"].append([1, 2])
    assert tegula.open_array(store, path="x").shape == (7,)
    writer["x"].attrs["third"] = 3
    assert tegula.open_array(store, path="x").attrs.asdict() == {"old": 1, "new": 2, "third": 3}
    root.consolidate()
    assert sorted(tegula.open_group(store, consolidated=True)) == ["x", "z"]
    assert tegula.open_group(store, consolidated=True)["x"].shape == (7,)


@pytest.mark.parametrize("format", FORMATS)
def test_a_copy_of_a_group_below_the_root(format: str) -> None:
    store = MemoryStore()
    group = tegula.create_group(store, path="a/b", format=format)
    group.create_array("c/x", shape=2, dtype="i1")
    group.consolidate()
    fast = tegula.open_group(store, path="a/b", consolidated=True)
    assert sorted(path for path, _ in fast.walk()) == ["c", "c/x"]
    assert fast["c/x"].path == "a/b/c/x"
    assert [*fast["c"]] == ["x"]


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        (".zmetadata", b"{"), (".zmetadata", b"{}"), (".zmetadata", b'{"zarr_consolidated_format": 1, "metadata": 5}'),
        (".zmetadata", b'{"zarr_consolidated_format": 2, "metadata": {}}'),
        ("zarr.json", b'{"zarr_format": 3, "node_type": "group", "consolidated_metadata": 5}'),
        ("zarr.json", b'{"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"kind": 1, "metadata": 1}}'),
    ],
)  # fmt: skip
def test_a_damaged_copy_fails_only_when_it_is_used(key: str, raw: bytes) -> None:
    contents = {key: raw} if key == "zarr.json" else {key: raw, ".zgroup": b'{"zarr_format": 2}'}
    assert [*tegula.open_group(contents)] == []
    with pytest.raises(TegulaError):
        tegula.open_group(contents, consolidated=True)


def test_consolidated_metadata_can_not_lead_outside_the_group() -> None:
    array = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|u1", "compressor": None, "fill_value": 0,
             "order": "C", "filters": None}  # fmt: skip
    entries = {f"{name}/.zarray": array for name in ("..", "../x", "a/../../b", "", "/etc")}
    contents = {
        ".zgroup": b'{"zarr_format": 2}',
        ".zmetadata": json.dumps({"zarr_consolidated_format": 1, "metadata": entries}).encode(),
    }
    group = tegula.open_group(contents, consolidated=True)
    for name in ("..", "../x", "a/../../b", "/etc", "etc"):
        with pytest.raises(TegulaError):
            group[name][...]


def test_one_damaged_member_does_not_hide_the_others() -> None:
    store = MemoryStore()
    root = tegula.create_group(store)
    for name in "abc":
        root.create_array(name, shape=2, dtype="i1")
    store.set("b/zarr.json", b"{")
    assert sorted(root) == ["a", "b", "c"]
    assert "a" in root
    assert "b" in root
    assert root["c"].shape == (2,)
    with pytest.raises(MetadataError) as caught:
        root["b"]
    assert caught.value.key == "b/zarr.json"
    with pytest.raises(MetadataError, match="'max_depth'"):
        root.tree("")  # type: ignore[arg-type]
    text = str(root.tree())
    assert "a (2,)" in text
    assert "b" in text
    assert "c (2,)" in text
    assert "b" in root._repr_html_()
    assert root.info["Arrays"] == 2
    del root["b"]
    assert sorted(root) == ["a", "c"]


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3"])
def test_attributes_are_a_mapping_that_writes_through(format: str) -> None:
    store = MemoryStore()
    array = tegula.create_array(store, shape=2, dtype="i1", format=format, attributes={"a": 1})
    other = tegula.open_array(store, "r+")
    values: dict[str, Any] = {"text": "é🦉", "list": [1, [2.5, None]], "dict": {"x": True}, "big": 2**60, "nan": "NaN"}
    array.attrs.update(values)
    array.attrs["tuple"] = (1, np.int16(2), np.arange(2), np.float64(0.5))
    values |= {"a": 1, "tuple": [1, 2, [0, 1], 0.5]}
    assert array.attrs.asdict() == tegula.open_array(store).attrs.asdict() == values
    assert sorted(array.attrs) == sorted(values)
    other.attrs["b"] = 2  # another object's changes are kept
    array.attrs["c"] = 3
    assert tegula.open_array(store).attrs.asdict() == {**values, "b": 2, "c": 3}
    del array.attrs["text"]
    assert "text" not in array.attrs
    for action in (lambda: array.attrs["text"], lambda: array.attrs.__delitem__("text")):
        with pytest.raises(NotFoundError) as missing:
            action()
        assert missing.value.path == store.url
    for given in (3, [1], None):
        for wrong in (array.attrs.update, array.attrs.put):
            with pytest.raises(MetadataError, match="must be a mapping") as refused:
                wrong(given)
            assert refused.value.path == store.url
    with pytest.raises(MetadataError) as refused:
        array.attrs["bad"] = {1}
    assert refused.value.path == store.url
    assert "bad" in str(refused.value.field)
    assert array.attrs.get("text", 5) == 5
    assert array.attrs.pop("b") == 2
    array.attrs.put({"only": 1})
    assert tegula.open_array(store).attrs.asdict() == {"only": 1}
    array.attrs.clear()
    assert tegula.open_array(store).attrs.asdict() == {}
    assert (array[...] == 0).all()


@pytest.mark.parametrize("format", ["zarr1", "zarr2", "zarr3", "bcolz", "group", "table"])
def test_what_is_read_from_attributes_is_a_copy(format: str) -> None:
    store = MemoryStore()
    if format == "group":
        node: Any = tegula.create_group(store)
    elif format == "table":
        node = tegula.create_table(store, columns={"x": [1]})
    else:
        node = tegula.create_array(store, shape=2, dtype="i1", format=format)
    given = {"list": [1, {"y": 2}], "empty": {}}
    node.attrs["d"] = given
    given["list"].append(3)  # type: ignore[attr-defined]
    stored = {"list": [1, {"y": 2}], "empty": {}}
    assert node.attrs["d"] == stored

    readings: list[Callable[[], Any]] = [
        lambda: node.attrs["d"],
        lambda: node.attrs.get("d"),
        lambda: node.attrs.asdict()["d"],
        lambda: dict(node.attrs)["d"],
        lambda: {**node.attrs}["d"],
        lambda: next(iter(node.attrs.values())),
        lambda: node.attrs.setdefault("d", 0),
    ]
    for read in readings:
        value = read()
        assert (type(value), type(value["list"]), json.loads(json.dumps(value))) == (dict, list, stored)
        value["list"][1]["y"] = 99
        value["empty"]["new"] = 1
        assert read() == stored == tegula.open(store).attrs["d"]

    value = node.attrs["d"]
    value["list"][1]["y"] = 99
    node.attrs["d"] = value
    assert node.attrs["d"]["list"] == [1, {"y": 99}] == tegula.open(store).attrs["d"]["list"]
    node.attrs["d"] |= {"z": 1}
    assert tegula.open(store).attrs["d"]["z"] == 1


@pytest.mark.parametrize("format", FORMATS)
def test_a_member_that_is_not_valid_is_not_left_out_of_the_copy(format: str) -> None:
    store = MemoryStore()
    root = tegula.create_group(store, format=format)
    root["a"], root["g/bad"] = [1, 2], [3]
    key = "g/bad/zarr.json" if format == "zarr3" else "g/bad/.zarray"
    store.set(key, (store.get(key) or b"")[:40])
    before = {name: store.get(name) for name in store.list()}
    with pytest.raises(MetadataError, match="g/bad") as caught:
        root.consolidate()
    assert "can't be written" not in str(caught.value)
    assert {name: store.get(name) for name in store.list()} == before


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_members_that_cannot_be_opened_are_errors_when_used(format: str, remote: bool, consolidated: bool) -> None:
    class Remote(MemoryStore):
        concurrency = 8 if remote else 0

    store = Remote()
    root = tegula.create_group(store, format=format)
    root["a"], root["bad"], root["c"] = [1, 2], [3], [4]
    for key in ("bad/zarr.json", "bad/.zarray"):
        if raw := store.get(key):
            store.set(key, raw.replace(b'"int64"', b'"int65"').replace(b'"<i8"', b'"<i65"'))
    if consolidated:
        key = "zarr.json" if format == "zarr3" else ".zmetadata"
        store.delete_prefix("bad/")
        root["bad"] = [3]
        root.consolidate()
        raw = store.get(key)
        assert raw is not None
        head, tail = raw[: raw.index(b"bad")], raw[raw.index(b"bad") :]
        store.set(key, head + tail.replace(b'"int64"', b'"int65"', 1).replace(b'"<i8"', b'"<i65"', 1))
    g = tegula.open_group(store, consolidated=consolidated)

    found = dict(g.items())
    assert [*found] == ["a", "bad", "c"] == [*g]
    assert (found["a"][...] == [1, 2]).all()
    assert [type(node).__name__ for node in g.values()] == ["Array", "Unreadable", "Array"]
    assert [name for name, node in g.items() if isinstance(node, tegula.Array)] == ["a", "c"]
    assert "65" in repr(found["bad"])
    uses: list[Callable[[Any], Any]] = [
        lambda node: node.shape,
        lambda node: node[0],
        lambda node: node.attrs,
        np.asarray,
        len,
        list,
        lambda node: 3 in node,
        lambda node: node.__setitem__(0, 1),
        lambda node: copy.copy(node).dtype,
        lambda node: pickle.loads(pickle.dumps(node)).dtype,
        lambda _: g["bad"],
    ]
    for use in uses:
        with pytest.raises(TegulaError, match=r"i(nt)?65.*bad") as caught:
            use(found["bad"])
        assert not consolidated or caught.value.key == key


def test_items_do_not_hide_that_a_store_fails() -> None:
    inner = MemoryStore()
    tegula.create_group(inner)["a"] = [1]
    group = tegula.open_group(store := FaultyStore(inner))
    store.arm(Fault(errno.EIO, on="get", keys="^a/zarr.json", times=9))
    for view in (group.items, group.values):
        with pytest.raises(StoreError, match=r"a/zarr\.json"):
            [*view()]


def test_changes_of_a_deleted_array_are_errors() -> None:
    store = MemoryStore()
    root = tegula.create_group(store)
    array = root.create_array("x", shape=2, dtype="i4")
    del root["x"]
    for action in (
        lambda: array.resize(5),
        lambda: array.attrs.update(a=1),
        lambda: array.append([1]),
        array.refresh,
    ):
        with pytest.raises(TegulaError):
            action()
    assert [*store.list()] == ["zarr.json"]


@pytest.mark.slow
def test_a_deep_hierarchy_is_walked_to_its_end() -> None:
    store = tegula.MemoryStore()
    tegula.create_group(store, path="/".join("g" * 1100))
    assert sum(1 for _ in tegula.open(store).walk()) == 1100


def test_a_consolidated_group_sees_what_is_written_through_it() -> None:
    store = tegula.MemoryStore()
    g = tegula.create_group(store)
    g.create_group("x")
    g.consolidate()
    g = tegula.open_group(store, mode="r+", consolidated=True)
    g.create_array("y", shape=2, dtype="u1")
    del g["x"]
    assert list(g) == ["y"]


def test_consolidating_keeps_attributes_set_at_the_same_time() -> None:
    class Interfering(tegula.MemoryStore):
        armed = False

        def get(self, key: str, *args: Any, **options: Any) -> Any:
            found = super().get(key, *args, **options)
            if self.armed and options.get("with_generation") and key == "zarr.json":
                self.armed = False
                tegula.open_group(self, mode="r+").attrs["late"] = 1
            return found

    store = Interfering()
    g = tegula.create_group(store)
    g.create_group("x")
    store.armed = True
    g.consolidate()
    assert tegula.open(store).attrs["late"] == 1
    assert list(tegula.open_group(store, consolidated=True)) == ["x"]


def test_a_group_can_not_be_assigned() -> None:
    g = tegula.create_group({})
    with pytest.raises(tegula.MetadataError, match="group"):
        g["copy"] = tegula.create_group({})


def test_overwriting_by_a_group_keeps_files_above_deep_nodes(tmp_path):
    tegula.save(tmp_path / "a" / "b" / "c" / "old.bcolz", [1, 2], format="bcolz")
    (tmp_path / "a" / "letters.txt").write_text("dear")
    assert isinstance(tegula.open(tmp_path), tegula.Group)
    tegula.create_group(tmp_path, overwrite=True)
    tegula.save(tmp_path / "a", [1, 2, 3], format="zarr3")
    assert (tmp_path / "a" / "letters.txt").read_text() == "dear"
    assert tegula.load(tmp_path / "a" / "b" / "c" / "old.bcolz").tolist() == [1, 2]


@pytest.mark.slow
def test_the_search_for_nodes_below_is_bounded(tmp_path, monkeypatch):
    for number in range(300):
        (tmp_path / f"{number}" / "x" / "y").mkdir(parents=True)
        (tmp_path / f"{number}" / "x" / "meta").write_text("no document")
        (tmp_path / f"{number}" / "x" / "y" / "file").write_text("")
    listed = []
    list_dir = tegula.LocalStore.list_dir
    monkeypatch.setattr(
        tegula.LocalStore, "list_dir", lambda self, prefix: listed.append(prefix) or list_dir(self, prefix)
    )
    with pytest.raises(tegula.NotFoundError):
        tegula.open(tmp_path)
    assert 100 < len(listed) < 500


@pytest.mark.parametrize("format", FORMATS)
def test_new_array_hides_leftovers_of_an_interrupted_deletion(format: str, tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path, format=format)
    group["a"] = np.arange(6)
    for key in ("zarr.json", ".zarray"):
        group.store.delete(f"a/{key}")
    assert "a" not in group
    with pytest.raises(AlreadyExistsError, match="overwrite"):
        group.create_array("a", shape=6, dtype="i8")
    with pytest.raises(AlreadyExistsError, match="overwrite"):
        group["a"] = np.ones(6)
    assert not group.create_array("a", shape=6, dtype="i8", overwrite=True)[...].any()


@pytest.mark.parametrize(
    "options", [{"format": "zarr3"}, {"format": "zarr2", "chunk_key_encoding": "/"}, {"format": "n5"}]
)
@pytest.mark.parametrize("shapes", [((4, 4), 4), (4, (4, 4)), ((2, 2, 2), (2, 2))])
def test_chunks_of_a_killed_deletion_stand_in_no_way(shapes: Any, options: dict[str, Any], tmp_path: Path) -> None:
    """A chunk of an array of other dimensions is where the new one needs a directory or a file."""
    old, new = (np.ones(shape, "i4") for shape in shapes)
    group = tegula.create_group(tmp_path, format=options["format"])
    array = group.create_array("a", data=old, chunks=1, **options)
    for key in array.metadata.documents:
        group.store.delete(f"a/{key}")
    with pytest.raises(AlreadyExistsError, match="overwrite"):
        group.create_array("a", data=new, chunks=1, **options)
    array = group.create_array("a", shape=new.shape, dtype="i4", chunks=1, overwrite=True, **options)
    assert not array[...].any()
    array[...] = new
    assert np.array_equal(array[...], new)


def test_a_store_error_does_not_drop_members() -> None:
    store = FaultyStore(MemoryStore())
    group = tegula.create_group(store)
    group["a"] = group["b/c"] = np.arange(3)
    group.consolidate()
    before = store.get("zarr.json")
    group.attrs.update()
    acts = [group.consolidate, lambda: [*group.members()], lambda: [*group.walk()], lambda: tegula.load(store)]
    for act in acts:
        store.arm(Fault(errno.EMFILE, on="get", keys="^a/zarr.json"))
        with pytest.raises(StoreError, match="files") as caught:
            act()
        assert caught.value.key == "a/zarr.json"
    store.arm()
    assert store.get("zarr.json") == before
    assert [*tegula.open_group(store, consolidated=True)] == ["a", "b"]


def test_a_slash_is_the_root_of_the_store() -> None:
    root = tegula.create_group({}, attributes={"a": 1})
    below = root.create_group("x/y")
    for group in (root, below, tegula.open_group(root.store, path="x")):
        assert "/" in group
        assert group["/"] == root
        assert (group["/x"].path, "/x/y" in group, "" in group) == ("x", True, False)
    for make in (below.create_group, lambda name: below.create_array(name, shape=1, dtype="i1"), below.__delitem__):
        with pytest.raises(TegulaError):
            make("/")
    assert "x/y" in root
