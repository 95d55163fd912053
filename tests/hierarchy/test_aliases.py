"""Names of zarr-python and h5py that mean the same, compared with these libraries."""

from __future__ import annotations

import pydoc
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.arrays.foreign_names import ALIASES
from tegula.arrays.keywords import KeywordError
from tegula.hierarchy import aliases

VALUES = np.arange(24, dtype="f4").reshape(4, 6)


@pytest.fixture(params=["h5py", "zarr"])
def groups(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """A group of another library, and one of tegula."""
    library = pytest.importorskip(request.param)
    other = library.File(tmp_path / "x.h5", "w") if request.param == "h5py" else library.group()
    kind = "array" if request.param == "zarr" else "dataset"  # the other name is deprecated there
    for group, ending in ((other, kind), (ours := tegula.create_group({}), "dataset")):
        group.create_group("a/b")
        getattr(group, f"create_{ending}")("z", data=VALUES)
        getattr(group, f"require_{ending}")("a/y", shape=(3,), dtype="i4")
    yield other, ours
    if request.param == "h5py":
        other.close()


def test_members_are_visited_in_the_same_way(groups: tuple[Any, Any]) -> None:
    other, ours = groups
    if hasattr(other, "visititems"):
        seen: list[list[str]] = [[], []]
        for group, names in zip(groups, seen):
            assert group.visititems(lambda path, node, names=names: names.append(path)) is None
            assert group.visititems(lambda path, node: path if hasattr(node, "shape") else None) == "a/y"
        assert seen[0] == seen[1] == ["a", "a/b", "a/y", "z"]
    else:
        assert sorted(other.array_keys()) == sorted(ours.array_keys()) == ["z"]
        assert sorted(other.group_keys()) == sorted(ours.group_keys()) == ["a"]


def test_arrays_are_read_and_written_in_the_same_way(groups: tuple[Any, Any]) -> None:
    other, ours = (group["z"] for group in groups)
    if hasattr(other, "read_direct"):
        for sel in ((None, None), (np.s_[1:3], np.s_[2:4]), (np.s_[1:3, ::2], np.s_[:2, :3])):
            results = [np.full((4, 6), -1.0) for _ in range(2)]
            for array, result in zip((other, ours), results):
                array.read_direct(result, *sel)
            np.testing.assert_array_equal(*results)
        return
    for selection in (..., 1, np.s_[1:3, ::2], (-1, 2)):
        np.testing.assert_array_equal(other.get_basic_selection(selection), ours.get_basic_selection(selection))
        for array in (other, ours):
            array.set_basic_selection(selection, 7)
        np.testing.assert_array_equal(other[...], ours[...])
    for wrong in ([0, 1], ours[...] > 0, (slice(None), [1]), 0.5):
        for array in (other, ours):
            with pytest.raises(IndexError):
                array.get_basic_selection(wrong)
            with pytest.raises(IndexError):
                array.set_basic_selection(wrong, 7)
    out = np.zeros(6)
    assert ours.get_basic_selection(2, out=out) is out
    assert [*out] == [*ours[2]]


def test_the_target_is_also_called_store(tmp_path: Path) -> None:
    made = tegula.create_array(store=tmp_path / "a", data=VALUES)
    for opened in (tegula.open, tegula.open_array):
        np.testing.assert_array_equal(opened(store=tmp_path / "a", mode="r")[...], VALUES)
    np.testing.assert_array_equal(tegula.load(store=tmp_path / "a"), VALUES)
    assert tegula.create_group(store=tmp_path / "g").path == tegula.open_group(store=tmp_path / "g").path == ""
    tegula.delete(store=tmp_path / "a")
    assert not (tmp_path / "a").exists()
    for call in (tegula.create_array, tegula.create_group):
        with pytest.raises(KeywordError):
            call(made.store, store={})
    with pytest.raises(TypeError):
        tegula.open(made.store, store={})


def test_jobs_and_the_server_call_it_store_too(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    path = tmp_path / "a.zarr"
    tegula.save(store=path, x=VALUES)
    assert [*tegula.load(store=path)] == ["x"]
    assert tegula.check(store=path).ok
    assert tegula.checksum(store=path / "x").digest == tegula.checksum(path / "x").digest
    assert str(tegula.statistics(store=path / "x")) == str(tegula.statistics(path / "x"))
    assert tegula.convert(path, store=tmp_path / "b.zarr").ok
    tegula.copy(path, store=tmp_path / "c.zarr")
    tegula.move(tmp_path / "c.zarr", store=tmp_path / "d.zarr")
    assert tegula.downsample(store=path / "x", target=tmp_path / "e.zarr")
    assert tegula.jobs.list_jobs(store=tmp_path) == []
    assert tegula.store_of(store=path).url == tegula.store_of(path).url
    assert tegula.Table.from_pandas(pd.DataFrame({"n": [1]}), store=tmp_path / "t.zarr")["n"][0] == 1
    with tegula.serve(store=path, port=0) as server:
        assert server.is_running
    with pytest.raises(KeywordError):
        tegula.check(path, store=path)
    with pytest.raises(KeywordError, match="did you mean verify="):
        tegula.convert(path, tmp_path / "f.zarr", verfy=True)


def test_each_name_is_in_the_table_of_the_page_and_nowhere_else() -> None:
    page = Path(__file__).parents[2].joinpath("docs/how-to/move-from-zarr-and-h5py.md").read_text(encoding="utf-8")
    table = page.partition("## Names that are kept")[2].partition("\n## ")[0]
    names = {*aliases.__all__, *(name for cls in ALIASES.values() for name in vars(cls) if not name.startswith("_"))}
    assert names == {*re.findall(r"`(\w+)", "".join(line.split("|")[2] for line in table.splitlines() if "|" in line))}
    assert not names & {*dir(tegula)} - {"array", "empty", "full", "ones", "zeros"}
    group = tegula.create_group({}, attributes={"a": 1})
    group["x"] = [1]
    assert not names & {*dir(group["x"]), *dir(group)} - {"tree"}


@pytest.mark.parametrize("name", ALIASES)
def test_each_name_is_an_attribute_of_its_class(name: str) -> None:
    cls, other = getattr(tegula, name), ALIASES[name]
    lent = next(base for base in cls.__mro__ if base.__name__ == other.__name__)
    assert {key for key in vars(lent) if key[0] != "_"} == {key for key in vars(other) if key[0] != "_"}
    for key in vars(lent):
        assert key[0] == "_" or getattr(cls, key) is getattr(other, key)
    shown = pydoc.plain(pydoc.render_doc(cls))
    assert all(f" {key}" in shown for key in vars(other) if key[0] != "_")


def test_subclasses_call_the_names_of_their_base() -> None:
    class Visited(tegula.Group):
        def visititems(self, function: Any) -> Any:
            return super().visititems(lambda path, node: function(f"/{path}", node))

    group = tegula.create_group({})
    group["x"] = VALUES
    node = tegula.open_group(group.store)
    node.__class__ = Visited
    assert node.visititems(lambda path, _: path) == "/x"
    assert "visititems" in dir(node)
    dest = np.zeros_like(VALUES)
    tegula.Array.read_direct(group["x"], dest)
    np.testing.assert_array_equal(dest, VALUES)


def test_names_are_shown_and_completed() -> None:
    group = tegula.create_group({})
    for number in range(102):
        group.create_group(f"g{number:03}")
    assert group._ipython_key_completions_() == [*group]
    assert repr(group.keys()).startswith("Keys(['g000', 'g001', ")
    assert repr(group.keys()).endswith("'g099', …])")


def test_a_mask_selection_takes_a_mask_of_the_shape_and_nothing_else() -> None:
    zarr = pytest.importorskip("zarr")
    arrays = zarr.array(VALUES), tegula.array(VALUES)
    for mask in (VALUES > 7, (VALUES > 9,), (VALUES < 3).tolist()):
        if not isinstance(mask, list):
            np.testing.assert_array_equal(*(array.get_mask_selection(mask) for array in arrays))
        arrays[0].set_mask_selection(np.asarray(mask).reshape(4, 6), 7)
        arrays[1].set_mask_selection(mask, 7)
        np.testing.assert_array_equal(*(array[...] for array in arrays))
    before = arrays[1][...]
    for wrong in ([0, 2], [[0] * 6] * 4, [True] * 4, (VALUES > 7, VALUES > 7), [[True], [True, False]]):
        with pytest.raises(tegula.SelectionError):
            arrays[1].get_mask_selection(wrong)
        with pytest.raises(tegula.SelectionError):
            arrays[1].set_mask_selection(wrong, 5)
    np.testing.assert_array_equal(arrays[1][...], before)


def test_a_new_array_without_a_type_has_that_of_zarr() -> None:
    zarr = pytest.importorskip("zarr")
    assert tegula.create(4, dtype=None).dtype == zarr.create(4, dtype=None).dtype == np.dtype("f8")


def test_kept_names_take_the_calls_of_zarr() -> None:
    group, store = tegula.create_group({}), tegula.MemoryStore()
    assert group.array("x", shape=3, dtype="i4")[...].tolist() == [0, 0, 0]
    assert str(tegula.tree(group, expand=True)) == str(tegula.tree(group, True, 1)) == str(group.tree())
    tegula.create_group(store)["x"] = VALUES
    assert [*tegula.consolidate_metadata(store, path=None)] == ["x"]
    assert [*tegula.open_consolidated(store, use_consolidated=True)] == ["x"]
    source = tegula.array(VALUES, chunks=(2, 6))
    assert tegula.from_array({}, data=source, chunks="keep", shards="keep").chunks == (2, 6)
    assert tegula.from_array({}, data=source, chunks=(4, 2)).chunks == (4, 2)


def test_kept_names_refuse_with_errors_of_their_own() -> None:
    group = tegula.create_group({})
    with pytest.raises(tegula.MetadataError, match="two arrays named arr_0"):
        tegula.save_group({}, [1], arr_0=[2])
    for name in ("zeros", "ones"):
        with pytest.raises(tegula.MetadataError, match="fill_value"):
            getattr(group, name)("z", shape=3, fill_value=5)
    with pytest.raises(ValueError, match="at least 0"):
        group.nmembers(-1)
    with pytest.raises(tegula.MetadataError, match="use_consolidated=True"):
        tegula.open_consolidated({}, use_consolidated=False)
