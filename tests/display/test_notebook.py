"""HTML for notebooks: complete, escaped, folded and of a bounded size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.display.reader import read

import tegula
from tegula.display.markup import Entry, fold, nested, shorten, table
from tegula.display.tree import Line, Tree
from tegula.jobs.checking.check import CheckReport
from tegula.jobs.converting.convert import ConvertReport
from tegula.stores import MemoryStore

EVIL = "<script>alert(1)</script>&\"'\u202e\x00</div></table>"


def text_of(value: Any) -> str:
    return " ".join(read(value._repr_html_()).text)


def test_shards_and_chunks_stand_side_by_side() -> None:
    array = tegula.create_array(
        MemoryStore(), shape=(100, 60), chunks=(10, 20), shards=(50, 60), dtype="f4", dimension_names=["y", None],
        attributes={"units": "K"},
    )  # fmt: skip
    text = text_of(array)
    for word in ("Shard", "(100, 60)", "(50, 60)", "(10, 20)", "2 shards", "30 chunks", "23.4 KiB", "y, –", "y 100",
                 "units", "K", "zstd", "zarr3"):  # fmt: skip
        assert word in text, word


def views(evil: str) -> list[Any]:
    """Return all objects with HTML, with `evil` names and values."""
    name = evil.replace("/", "|").replace("\0", "")
    root = tegula.create_group(MemoryStore(), attributes={evil: {evil: [evil]}})
    array = root.create_array(
        name, shape=(2, 2), dtype=str, fill_value=evil, dimension_names=[evil, evil], attributes={evil: {evil: evil}}
    )
    array[...] = evil
    prices = tegula.create_table({}, {name: np.arange(3)}, format="bcolz") if name.isprintable() else None
    damaged = MemoryStore()
    tegula.create_group(damaged).create_array(name, shape=(4,), dtype="u1")[:] = 1
    damaged.set(f"{name}/c/0", b"")
    damaged.set(f"{name}/{name}", b"")
    return [
        root, array, array.info, root.info, root.tree(), root.attrs, array.attrs, tegula.check(damaged),
        tegula.convert(root, MemoryStore(), format="zarr1"), tegula.convert(root, {}, format="zarr2"),
        *([] if prices is None else [prices]),
        ConvertReport(evil, False, [], [], {evil: evil}, {evil: [evil]}), CheckReport(evil),
    ]  # fmt: skip


def test_nothing_of_the_data_becomes_markup() -> None:
    for view in views(EVIL):
        html = view._repr_html_()
        assert "<script" not in html
        assert "\u202e" not in html  # text that runs backwards
        assert "\0" not in html
        read(html)
        assert len(repr(view)) < 3000


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_any_text_can_be_shown(value: str) -> None:
    root = tegula.create_group(MemoryStore(), attributes={value: value, "inner": {value: [value]}})
    root.create_array("x", shape=3, dtype=str, fill_value=value, dimension_names=[value])
    for view in (root, root["x"], root.attrs, root["x"].info):
        assert shorten(value)[:5] in text_of(view)


@given(st.text(), st.integers(2, 30))
def test_short_texts_are_one_visible_line(value: str, most: int) -> None:
    found = shorten(value, most)
    assert len(found) <= most
    assert found.isprintable()
    if len(value) <= most and value.isprintable():
        assert found == value


def many_members(group: tegula.Group) -> None:
    for number in range(400):
        group.create_array(f"a{number:03}", shape=(5, 5), dtype="f8", attributes={"n": number})


def many_attributes(group: tegula.Group) -> None:
    group.attrs.update(
        {f"name{n}": {"x": [*range(1000)], "y": {str(m): "v" * 999 for m in range(99)}} for n in range(500)}
    )


def deep(group: tegula.Group) -> None:
    group.create_group("/".join(["g"] * 60))


def wide_and_deep(group: tegula.Group) -> None:
    for number in range(30):
        for inner in range(30):
            group.create_array(f"g{number:02}/h/a{inner:02}", shape=(), dtype="u1")


def odd_arrays(group: tegula.Group) -> None:
    long = {"dtype": [(f"field{n}", "f8") for n in range(300)], "shape": 3}
    group.create_array("n" * 200, **long, dimension_names=["d" * 10_000])
    group.create_array("edges", shape=5000, dtype="u1", chunks=[[1] * 5000])
    group.create_array("text", shape=3, dtype=str, fill_value="f" * 100_000)


@pytest.mark.slow
@pytest.mark.sampled(one_in=19)
@pytest.mark.parametrize("fill", [many_members, many_attributes, deep, wide_and_deep, odd_arrays])
def test_html_is_bounded(fill: Callable[[tegula.Group], None]) -> None:
    group = tegula.create_group(MemoryStore())
    fill(group)
    for view in (group, group.attrs, group.tree(), *(node for _, node in group.members())):
        html = view._repr_html_()
        assert len(html) < 400_000
        assert read(html).deepest < 300
    assert len(group._repr_html_()) < 250_000
    assert len(repr(group.attrs)) < 3000


@pytest.mark.parametrize(("fill", "most", "first"), [(many_members, 50, "a000"), (wide_and_deep, 120, "g00")])
def test_a_large_group_is_not_walked(
    fill: Callable[[tegula.Group], None], most: int, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tegula.create_group(MemoryStore())
    fill(group)
    opened: list[str] = []
    member = tegula.Group.__getitem__
    monkeypatch.setattr(tegula.Group, "__getitem__", lambda self, name: opened.append(name) or member(self, name))
    text = text_of(group)
    assert len(opened) == most
    assert "… and more members" in text
    assert first in text


def test_groups_in_groups_fold() -> None:
    group = tegula.create_group(MemoryStore(), attributes={"title": "t"})
    group.create_array("a/b/c", shape=4, dtype="i4")
    html = group._repr_html_()
    assert html.count("<details open") == 3  # the members, a, b; the array and the attributes are closed
    assert html.count("<details") == 5
    tree = group.tree()._repr_html_()
    assert tree.count("<details open") == 2
    assert "(4,) int32" in tree


def test_unreadable_members_are_shown_as_such() -> None:
    store = MemoryStore()
    group = tegula.create_group(store)
    group.create_array("sound", shape=3, dtype="u1")
    store.set("broken/zarr.json", b"{")
    text = text_of(group)
    assert "broken" in text
    assert "unreadable: " in text
    assert "sound" in text


def test_reports_name_everything_that_matters() -> None:
    store = MemoryStore()
    group = tegula.create_group(store)
    for name in ("x", "y"):
        group.create_array(name, shape=(4,), dtype="u1")[:] = 1
    report = tegula.convert(store, {}, format="zarr2", verify=True)
    for word in ("done", "/x", "/y", "(4,)", "1 of 1", "yes", "2 arrays and 1 group converted to zarr2", "in 2 chunks"):
        assert word in text_of(report), word
    assert "dry run" in text_of(tegula.convert(store, {}, dry_run=True))
    store.set("x/c/0", b"")
    store.set("y/stray", b"")
    text = text_of(tegula.check(store))
    for word in ("1 error", "damaged-chunk", "x/c/0", "stray-key", "no checksums", "Restore it"):
        assert word in text, word
    assert text.index("damaged-chunk") < text.index("stray-key")
    damaged = tegula.convert(store, {}, codecs="gzip")
    assert "failed" in text_of(damaged)
    assert "/x" in text_of(damaged)


def test_a_hundred_thousand_findings_are_not_all_shown() -> None:
    store = MemoryStore()
    tegula.create_array(store, shape=(3000,), chunks=(1,), dtype="u1", codecs=["crc32c"])
    for number in range(3000):
        store.set(f"c/{number}", b"")
    report = tegula.check(store)
    assert report.errors == 3000
    assert len(report._repr_html_()) < 150_000
    assert "… and 2900 more findings" in text_of(report)


@given(st.lists(st.integers(0, 5), max_size=30))
def test_entries_nest_as_their_depths_say(depths: list[int]) -> None:
    steps = [0]
    for depth in depths:  # parents come first
        steps.append(min(depth, steps[-1] + 1))
    html = nested(Entry(depth, f"[{number}]") for number, depth in enumerate(steps))
    reader = read(html)
    assert " ".join(reader.text).split() == [f"[{number}]" for number in range(len(steps))]
    parents = sum(after > before for before, after in pairwise(steps))
    assert html.count("<details") == parents


@given(st.lists(st.integers(0, 40), max_size=40))
def test_a_tree_is_drawn_as_its_depths_say(depths: list[int]) -> None:
    steps = [0]
    for depth in depths:
        steps.append(min(max(depth, 1), steps[-1] + 1))
    lines = str(Tree([Line(depth, f"n{number}") for number, depth in enumerate(steps)])).splitlines()
    assert [line.index("n") // 4 for line in lines] == steps
    for number, line in enumerate(lines):
        for column in range(0, line.index("n"), 4):
            follows = next((d for d in steps[number + 1 :] if d <= column // 4 + 1), 0) == column // 4 + 1
            assert line[column] in ("│├" if follows else " └")


def test_cells_and_folds() -> None:
    html = table([("a", "1"), ("b", "2", "3")], ["", "x", "y"])
    assert html.count("colspan=2") == 1
    read(html)
    assert "<details>" in fold("s", "b")
    assert "<details open>" in fold("s", "b", opened=True)


def test_attributes_read_like_a_dict_and_stay_short() -> None:
    group = tegula.create_group(MemoryStore(), attributes={"units": "K", "n": [1, 2]})
    assert repr(group.attrs) == "Attributes({'units': 'K', 'n': [1, 2]})"
    group.attrs["long"] = "x" * 10_000
    group.attrs.update({f"a{number}": number for number in range(100)})
    text = repr(group.attrs)
    assert len(text) < 1000
    assert text.startswith("Attributes({'units': 'K', 'n': [1, 2], 'long': 'xxx")
    assert text.endswith(", … and 91 more})")
