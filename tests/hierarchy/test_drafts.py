"""Hierarchies of drafts of Zarr v3: found from any path, used as those of other formats, and never written."""

from __future__ import annotations

import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import tegula
import tegula.references
import tegula.zarr
from tegula import config
from tegula.errors import CodecError, MetadataError, NotFoundError, ReadOnlyError, TegulaError, UnsupportedError
from tegula.runtime import executors
from tegula.stores import LocalStore, MemoryStore

ARCHIVE = Path(__file__).parents[1] / "fixtures" / "zarr3draft-2.18.7.zip"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A hierarchy with groups, as zarr 2.18.7 wrote it."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("tree/")])
    return (tmp_path / "tree/store").rename(tmp_path / "old.zr3")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def expected(old: Path) -> Any:
    return np.load(old.parent / "tree" / "expected-g-a.npy")


def test_every_way_to_a_node(old: Path) -> None:
    values = expected(old)
    store = MemoryStore({f"below/{name}": value for name, value in contents(old).items()})
    archive = shutil.make_archive(str(old), "zip", old)
    for target, path in (
        (old, "g/a"), (f"{old}/g/a", ""), (old / "g", "a"), (old.as_uri(), "/g/a"), (LocalStore(old), "g/a"),
        (archive, "g/a"), (store, "below/g/a"), (old.parent, "old.zr3/g/a"), (contents(old), "g/a"),
    ):  # fmt: skip
        array = tegula.open(target, path=path)
        assert (array.format, array.path.endswith("g/a")) == ("zarr3_draft", True)
        assert np.array_equal(array[...], values)
    for missing in ("g/none", "none", "data/root/g/a", "meta/root"):
        with pytest.raises(NotFoundError):
            tegula.open(old, path=missing)
        with pytest.raises(NotFoundError):
            tegula.open(old / missing)
    with pytest.raises(NotFoundError):
        tegula.open(old, format="zarr2")
    assert tegula.open(old, format="zarr3_draft").format == "zarr3_draft"


def test_a_hierarchy_is_used_as_any_other(old: Path, tmp_path: Path) -> None:
    group = tegula.open(old)
    assert sorted(path for path, _ in group.walk()) == [
        "g", "g/a", "g/deep", "g/deep/inner", "g/deep/inner/x", "g/scalar", "implicit", "implicit/below",
    ]  # fmt: skip
    assert dict(group["g"].attrs) == {"title": "Δ"}
    assert group["g/deep/inner/x"].dimension_names == ("time",)
    assert group["g/scalar"][()] == 7
    assert "x (time: 4) float64" in str(group.tree())
    assert np.array_equal(pickle.loads(pickle.dumps(group["g/a"]))[...], expected(old))
    for place in (old, old / "g", group["g"]):
        report = tegula.check(place)
        assert report.ok, str(report)
        assert (report.arrays, report.findings) == (3, [])
    converted = tegula.convert(old, tmp_path / "new.zarr", verify=True)
    assert converted.ok, str(converted)
    assert tegula.compare(old, tmp_path / "new.zarr").equal
    assert tegula.checksum(old) == tegula.checksum(tmp_path / "new.zarr")
    assert tegula.statistics(old / "g/a").count == 20


def test_nothing_is_written(old: Path) -> None:
    before = contents(old)
    group = tegula.open(old, "r+")
    for change in (
        lambda: group["g/a"].__setitem__(0, 1), lambda: group.create_group("new"), lambda: group["g"].attrs.update(a=1),
        lambda: group["g/a"].resize((9, 9)), lambda: tegula.delete(group["g"]), lambda: group["g/a"].append([[1] * 4]),
    ):  # fmt: skip
        with pytest.raises(ReadOnlyError, match=r"draft of Zarr v3.*convert it"):
            change()
    for create in (lambda: tegula.create_array(old, shape=3, dtype="i1"), lambda: tegula.open(old, "a", shape=3)):
        with pytest.raises(TegulaError):
            create()
    # by a path inside the hierarchy, where a node would hide that of the draft
    other = tegula.create_array({}, data=[1, 2])
    for create in (
        lambda: tegula.create_array(old / "g/a", shape=3, dtype="i1"), lambda: tegula.create_group(old / "g"),
        lambda: tegula.save(old / "x", [1], format="bcolz"), lambda: tegula.create_table(old / "t", {"a": [1]}),
        lambda: tegula.copy(other, old / "y"), lambda: tegula.convert(other, old / "z"),
        lambda: tegula.create_array(old / "g", path="b", shape=3, dtype="i1", overwrite=True),
    ):  # fmt: skip
        with pytest.raises(ReadOnlyError, match=r"draft of Zarr v3.*convert it"):
            create()
    with pytest.raises(UnsupportedError, match="not written"):
        tegula.convert(old, {}, format="zarr3_draft")
    assert contents(old) == before


def test_nodes_are_copied_as_they_are_stored(old: Path, tmp_path: Path) -> None:
    inside = MemoryStore({f"below/{name}": value for name, value in contents(old).items()})
    opened = [tegula.open(old), tegula.open(inside, path="below"), tegula.open(contents(old))]
    for number, source in enumerate([old, *opened]):
        tegula.copy(source, tmp_path / f"copy{number}")
        assert contents(tmp_path / f"copy{number}") == contents(old)
    # a node below the root is the root of a hierarchy of its own
    stored = contents(old)
    wanted = {
        "zarr.json": stored["zarr.json"],
        "meta/root.array.json": stored["meta/root/g/a.array.json"],
        **{f"data/root/c0/{number}": stored[f"data/root/g/a/c0/{number}"] for number in (0, 1)},
    }
    for number, source in enumerate([tegula.open(old)["g/a"], old / "g" / "a", tegula.open(old / "g" / "a")]):
        for how in ({}, {"workers": 2} if number == 1 else {"resume": True}):
            target = tmp_path / f"node{number}{len(how)}"
            tegula.copy(source, target, **how)
            found = contents(target)
            assert {key: found[key] for key in wanted} == wanted
            assert np.array_equal(tegula.open(target)[...], expected(old))
    tegula.copy(tegula.open(old), tmp_path / "group", path="inner/g")
    tegula.copy(tegula.open(old)["g"], tmp_path / "other")
    assert np.array_equal(tegula.open(tmp_path / "other")["a"][...], expected(old))
    assert tegula.compare(tmp_path / "other", old / "g").equal
    assert tegula.compare(tegula.open(tmp_path / "group", path="inner/g"), old).equal
    group = tegula.open_group(tmp_path / "outer", "w")
    group.copy(tegula.open(old)["g"], "kept")
    assert np.array_equal(group["kept/a"][...], expected(old))
    converted = tegula.convert(old / "g", tmp_path / "new.zarr", verify=True)
    assert converted.ok
    chunks = [path.read_bytes() for path in (tmp_path / "new.zarr/a/c").rglob("*") if path.is_file()]
    assert {*chunks} <= {*stored.values()}  # chunks whose codecs stay are not encoded again


def test_errors_name_the_keys_of_the_files(old: Path) -> None:
    for executor in ("kernel", "reference"):
        if executor == "kernel" and executors.kernel() is None:
            continue
        values = contents(old)
        chunk = next(key for key in values if key.startswith("data/root/g/a/"))
        with config.configure(executor=executor):
            for damaged in ({**values, chunk: b"x"}, {**values, chunk: b""}):
                with pytest.raises(CodecError) as caught:
                    tegula.open(damaged, path="g/a")[...]
                assert caught.value.key == chunk
            document = values["meta/root/g/a.array.json"].replace(b"shape", b"shap", 1)
            with pytest.raises(TegulaError) as raised:
                tegula.open({**values, "meta/root/g/a.array.json": document}, path="g/a")
            assert raised.value.key == "meta/root/g/a.array.json"


@pytest.mark.parametrize("how", ["json", "parquet"])
def test_chunks_can_be_referenced(old: Path, tmp_path: Path, how: str) -> None:
    target = tmp_path / f"refs.{how}"
    report = tegula.references.write(old, target)
    assert (report.arrays, report.referenced) == (3, 5)
    group = tegula.open(target)
    assert np.array_equal(group["g/a"][...], expected(old))
    assert (group["g/scalar"][()], group["g/deep/inner/x"].dimension_names) == (7, ("time",))


@pytest.mark.parametrize("kind", ["group", "folder"])
@pytest.mark.parametrize("remote", [False, True])
def test_a_hierarchy_is_a_member_of_a_group(old: Path, kind: str, remote: bool) -> None:
    outer = old.parent / "outer"
    if kind == "group":
        tegula.open_group(outer, "w")["x"] = [1, 2, 3]
    outer.mkdir(exist_ok=True)
    stored = contents(old)
    old.rename(outer / "old.zr3")
    store: Any = Remote(contents(outer)) if remote else outer
    group = tegula.open(store)
    unreadable: dict[str, str] = {}
    below = ["g", "g/a", "g/deep", "g/deep/inner", "g/deep/inner/x", "g/scalar", "implicit", "implicit/below"]
    assert sorted(path for path, _ in group.walk(unreadable)) == sorted(
        ["old.zr3", *(f"old.zr3/{path}" for path in below), *(["x"] if kind == "group" else [])]
    )
    assert unreadable == {}
    values = expected(old)
    assert np.array_equal(group["old.zr3/g/a"][...], values)
    assert np.array_equal(pickle.loads(pickle.dumps(group["old.zr3"]["g"]))["a"][...], values)
    assert ("old.zr3/g/a" in group, "old.zr3/none" in group, "old.zr3" in group) == (True, False, True)
    assert np.array_equal(tegula.open(store, path="old.zr3/g/a")[...], values)
    with pytest.raises(NotFoundError):
        group["old.zr3/none"]
    with pytest.raises(ReadOnlyError):
        tegula.open(store, "r+")["old.zr3/g/a"][0] = 1
    report = tegula.check(store)
    assert report.ok, str(report)
    assert (report.arrays, "unsupported" in report.counts) == (3 + (kind == "group"), False)
    target = MemoryStore()
    assert tegula.convert(store, target, verify=True).ok
    assert tegula.compare(store, target).equal
    assert tegula.checksum(store) == tegula.checksum(target)
    copy = MemoryStore()
    tegula.copy(store, copy)
    assert {key: copy.get(f"old.zr3/{key}") for key in stored} == stored
    assert np.array_equal(tegula.open(copy)["old.zr3/g/a"][...], values)
    shown = tegula.open(tegula.zarr.store(store if kind == "folder" else group["old.zr3"]))
    shown = shown["old.zr3"] if kind == "folder" else shown
    assert (shown["g/a"].format, shown["g"].attrs.asdict()) == ("zarr3", {"title": "Δ"})
    assert np.array_equal(shown["g/a"][...], values)


class Remote(MemoryStore):
    """Values in memory, read as those of a remote store are."""

    concurrency = 8
    is_remote = True


@pytest.mark.parametrize("case", ["err_entry_extension", "err_entry_version"])
def test_an_entry_point_that_is_not_understood_is_named(case: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith(case)])
    with pytest.raises(UnsupportedError) as raised:
        tegula.open(tmp_path / case / "store")
    assert (raised.value.key, raised.value.field in ("extensions", "zarr_format")) == ("zarr.json", True)
    assert tegula.check(tmp_path / case / "store").counts["unsupported"] == 1


def mixed(old: Path) -> MemoryStore:
    """A group of Zarr v3 with an array `x`, a group `n`, and the hierarchy of a draft at `old`."""
    store = MemoryStore({f"old/{name}": value for name, value in contents(old).items()})
    group = tegula.create_group(store)
    group["x"] = [1, 2, 3]
    group.create_group("n")
    return store


def held(store: Any) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in sorted(store.list())}


@pytest.mark.parametrize("path", ["", "old", "old/x", "old/g", "old/data/root/zz"])
@pytest.mark.parametrize("member", ["old", "old/g", "old/g/a"])
def test_a_node_is_not_copied_over_or_into_its_own_hierarchy(old: Path, tmp_path: Path, member: str, path: str) -> None:
    store, folder = mixed(old), tmp_path / "outer"
    tegula.copy(store, folder)
    for place, before in ((store, held(store)), (folder, contents(folder))):
        source = tegula.open(place)[member]
        for how in ({}, {"resume": True}):
            with pytest.raises(MetadataError, match="the target is the source, lies within it or contains it"):
                tegula.copy(source, place, path=path, overwrite=True, **how)
        with pytest.raises(MetadataError, match="the target is the source, lies within it or contains it"):
            tegula.convert(source, place, path=path, overwrite=True)
        assert (contents(folder) if place is folder else held(store)) == before
    tegula.copy(tegula.open(store)[member], store, path="older")
    assert tegula.compare(tegula.open(store)[member], tegula.open(store)["older"]).equal


@pytest.mark.parametrize("where", ["", "old"])
@pytest.mark.parametrize("local", [False, True])
def test_nothing_is_left_of_a_hierarchy_that_is_replaced(old: Path, tmp_path: Path, where: str, local: bool) -> None:
    prefix, stored = f"{where}/" if where else "", contents(old)
    chunk, document = "data/root/g/a/c0/1", "meta/root/g/scalar.array.json"
    fewer = {key: value for key, value in stored.items() if key not in (chunk, document)}
    assert len(stored) - len(fewer) == 2

    def target(name: str) -> Any:
        store: Any = LocalStore(tmp_path / name) if local else MemoryStore()
        for key, value in stored.items():
            store.set(prefix + key, value)
        return store

    options: list[dict[str, Any]] = [{}, {"resume": True}]
    for number, how in enumerate(options):
        store = target(f"copy{number}")
        tegula.copy(fewer, store, path=where, overwrite=True, **how)
        assert {key.removeprefix(prefix) for key in store.list() if "tegula_complete" not in key} == {*fewer}
        left = target(f"left{number}")  # as a copy that was killed leaves it
        left.delete(f"{prefix}zarr.json")
        tegula.copy(fewer, left, path=where, overwrite=True, **how)
        assert {key.removeprefix(prefix) for key in left.list() if "tegula_complete" not in key} == {*fewer}
    new = tegula.create_array({}, data=[1, 2, 3])
    for name, write in {
        "array": lambda store: tegula.create_array(store, path=where, shape=3, dtype="i1", overwrite=True),
        "group": lambda store: tegula.create_group(store, path=where, overwrite=True),
        "data": lambda store: tegula.create_array(store, data=[1], path=where, overwrite=True),
        "convert": lambda store: tegula.convert(new, store, path=where, overwrite=True),
        "copy": lambda store: tegula.copy(tegula.create_group({}), store, path=where, overwrite=True),
    }.items():
        store = target(name)
        write(store)
        assert not [key for key in store.list() if key.startswith((f"{prefix}meta/", f"{prefix}data/"))], name
        assert tegula.open(store, path=where).format == "zarr3"


def test_an_interrupted_deletion_leaves_no_array_and_can_be_repeated(old: Path) -> None:
    class Failing(MemoryStore):
        fails = True

        def delete(self, key: str, **how: Any) -> None:
            if self.fails and "data/" in key:
                raise KeyboardInterrupt
            super().delete(key, **how)

        def delete_prefix(self, prefix: str) -> None:
            for key in [*self.list_prefix(prefix)]:
                self.delete(key)

    store = Failing(held(mixed(old)))
    with pytest.raises(KeyboardInterrupt):
        tegula.delete(store, path="old")
    assert [name for name, _ in tegula.open(store)["old"].walk()] == []
    store.fails = False
    del tegula.open(store, "r+")["old"]
    assert not [key for key in store.list() if key.startswith("old/")]


@pytest.mark.parametrize("local", [False, True])
def test_members_of_a_hierarchy_are_copied_by_name_but_not_moved(old: Path, tmp_path: Path, local: bool) -> None:
    store, folder = mixed(old), tmp_path / "outer"
    tegula.copy(store, folder)
    place: Any = folder if local else store
    before = contents(folder) if place is folder else held(store)
    group = tegula.open(place, "r+")
    inner = group["n"]
    for change in (
        lambda: group.pop("old/g/a"), lambda: group.__delitem__("old/g"), lambda: group.pop("old/implicit"),
        lambda: group.move("old/g/a", "z"), lambda: tegula.delete(group, path="old/g/a"),
        lambda: tegula.delete(place, path="old/g/a"), lambda: tegula.move(group["old/g/a"], place, path="z"),
        lambda: inner.move("/old/g/a", "z"), lambda: inner.__delitem__("/old/g/a"),
    ):  # fmt: skip
        with pytest.raises(ReadOnlyError, match=r"draft of Zarr v3.*convert it"):
            change()
        assert (contents(folder) if place is folder else held(store)) == before
    for missing in (
        lambda: group.pop("old/none"), lambda: group.move("old/none", "z"), lambda: group.copy("old/none", "z"),
        lambda: tegula.delete(place, path="old/none"), lambda: tegula.copy(tmp_path / "outer/old/none", {}),
    ):  # fmt: skip
        with pytest.raises((NotFoundError, KeyError)):
            missing()
    assert group.copy("old/g/a", "z").values == 4
    assert np.array_equal(group["z"][...], expected(old))
    group.move("old", "n/older")  # a whole hierarchy is a member as others are
    assert np.array_equal(group["n/older/g/a"][...], expected(old))
    del group["n/older"], group["z"]
    assert [name for name, _ in group.walk()] == ["n", "x"]
    assert not [key for key in group.store.list() if "root" in key]


def test_names_from_the_root_lead_into_a_hierarchy_and_out_of_it(old: Path, tmp_path: Path) -> None:
    store = mixed(old)
    tegula.open(store, "r+").create_group("n/deep/er")
    tegula.copy(old, store, path="n/other")
    tegula.copy(store, tmp_path / "outer")
    for place in (store, tmp_path / "outer", Remote(held(store))):
        group, values = tegula.open(place), expected(old)
        for start in ("n", "n/deep/er", "old", "old/g/deep", "n/other", "n/other/g", ""):
            inner = group[start] if start else group
            for name in ("/old/g/a", "/n/other/g/a"):
                assert name in inner
                assert np.array_equal(inner[name][...], values)
            assert inner["/x"][...].tolist() == [1, 2, 3]
            assert [member in inner for member in ("/x", "/n", "/old", "/none")] == [True, True, True, False]
            assert inner["/old"].format == "zarr3_draft"
            for name in ("/none", "/old/none", "/old/g/none", "/n/none"):
                with pytest.raises(NotFoundError):
                    inner[name]


def test_the_nodes_of_a_hierarchy_are_counted_where_they_are_copied(old: Path) -> None:
    options: list[dict[str, Any]] = [{}, {"resume": True}]
    for how in options:
        for source, number in (
            (mixed(old), (4, 4)), (old, (3, 2)), (tegula.open(old)["g"], (3, 1)), (tegula.open(old)["g/a"], (1, 0)),
        ):  # fmt: skip
            report = tegula.copy(source, MemoryStore(), **how)
            assert (report.arrays, report.groups) == number, (source, how)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("local", [False, True])
def test_consolidated_metadata_leave_out_a_hierarchy_that_is_still_found(
    old: Path, tmp_path: Path, format: str, local: bool
) -> None:
    place: Any = tmp_path / "outer" if local else MemoryStore()
    group = tegula.create_group(place, format=format)
    group["n/x"] = [1, 2, 3]
    tegula.copy(old, place, path="old")
    tegula.copy(old, place, path="n/older")
    plain = sorted(name for name, _ in group.walk())
    group.consolidate()
    if local:
        read = zarr.open_consolidated(place)
        assert sorted(name for name, _ in read.members(max_depth=None)) == ["n", "n/x"]
    assert {finding.kind for finding in tegula.check(place).findings} == {"other-format"}
    known = tegula.open_group(place, consolidated=True)
    assert known.knows_members
    assert sorted(name for name, _ in known.walk()) == plain
    assert ("old" in known, "n/older/g/a" in known, "old/none" in known, "none" in known) == (True, True, False, False)
    for path in ("old/g/a", "n/older/g/a"):
        assert np.array_equal(known[path][...], expected(old))
    with pytest.raises(NotFoundError):
        known["old/none"]
    if format == "zarr3":
        converted = MemoryStore()
        assert tegula.convert(known, converted, verify=True).ok
        assert tegula.compare(place, converted).equal


@pytest.mark.parametrize("where", ["old", "n/deep/old"])
@pytest.mark.parametrize("kind", ["memory", "local", "remote"])
def test_zarr_python_reads_a_hierarchy_inside_of_a_group(old: Path, tmp_path: Path, where: str, kind: str) -> None:
    place: Any = tmp_path / "outer" if kind == "local" else Remote() if kind == "remote" else MemoryStore()
    group = tegula.create_group(place)
    group["x"], group["n/deep/y"] = [1, 2, 3], [4]
    tegula.copy(old, place, path=where)
    plain = {name: getattr(node, "shape", None) for name, node in group.walk()}
    store, values = tegula.zarr.store(place), expected(old)
    found = zarr.open_group(store, mode="r", use_consolidated=False)
    assert {name: getattr(node, "shape", None) for name, node in found.members(max_depth=None)} == plain
    for inner in (f"{where}/g", f"{where}/g/a", "x", "n/deep/y"):  # each by a store that has seen nothing of it
        fresh = zarr.open(tegula.zarr.store(place), path=inner, mode="r")
        assert fresh.attrs.asdict() == tegula.open(place, path=inner).attrs.asdict()
    for pipeline in ("zarr.core.codec_pipeline.BatchedCodecPipeline", "tegula.zarr.Pipeline"):
        with zarr.config.set({"codec_pipeline.path": pipeline}):
            array: Any = zarr.open_array(tegula.zarr.store(place), path=f"{where}/g/a", mode="r")
            sent = pickle.loads(pickle.dumps(array)) if kind == "local" else array
            for one in (array, sent, zarr.open_array(store, path=f"{where}/g/a", mode="r")):
                assert np.array_equal(one[...], values)
    for missing in (f"{where}/none", f"{where}/g/none", "none", "n/none/none"):
        with pytest.raises(FileNotFoundError):
            zarr.open(tegula.zarr.store(place), path=missing, mode="r")
    before = contents(place) if kind == "local" else held(place)
    writable: Any = zarr.open_group(store, mode="r+", use_consolidated=False)
    with pytest.raises(ReadOnlyError):
        writable[f"{where}/g/a"][0] = 1
    with pytest.raises(ReadOnlyError):
        writable[f"{where}/g"].attrs["new"] = 1
    assert (contents(place) if kind == "local" else held(place)) == before
    writable["x"][0] = 7
    assert group["x"][0] == 7
