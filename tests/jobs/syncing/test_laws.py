"""Laws of mirrors: after any changes of the source and a sync, the target equals the source, in all formats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

import tegula

pytestmark = pytest.mark.once(executors="both")

FORMATS = ("zarr1", "zarr2", "zarr3", "n5", "bcolz")
ENCODINGS: tuple[dict[str, Any], ...] = (
    {}, {"chunks": (3, 4)}, {"codecs": "zstd"}, {"chunks": (5, 2), "codecs": False},
)  # fmt: skip
SHARDS: tuple[dict[str, Any], ...] = ({"chunks": (2, 3), "shards": (4, 6)}, {"chunks": (1, 1), "shards": (3, 2)})

edits = st.one_of(
    st.tuples(st.just("update"), st.integers(0, 12), st.integers(0, 5), st.integers(0, 3)),
    st.tuples(st.just("append"), st.integers(0, 6)),
    st.tuples(st.just("resize"), st.integers(0, 14)),
    st.tuples(st.just("clear"), st.integers(0, 12)),
    st.tuples(st.just("attribute"), st.sampled_from("ab"), st.integers(0, 2)),
    st.tuples(st.just("delete")),
    st.tuples(st.just("replace"), st.sampled_from([(2, 2), (3, 3)]), st.sampled_from(["i4", "f8"])),
)


def change(store: tegula.MemoryStore, format: str, edit: tuple[Any, ...]) -> None:
    """Change the array at the root of a store."""
    kind, *facts = edit
    if kind == "replace" or not any(True for _ in store.list()):
        chunks, dtype = facts if kind == "replace" else ((2, 2), "i4")
        values = np.arange(66).reshape(11, 6).astype(dtype)
        codecs: Any = None if format in ("zarr1", "bcolz") else "gzip"
        options = {"chunks": (chunks[0], 6) if format == "bcolz" else chunks}
        tegula.create_array(store, data=values, codecs=codecs, format=format, overwrite=True, **options)
        return
    array = tegula.open_array(store, mode="r+")
    if kind == "update":
        row, column, value = facts
        array[row : row + 2, column:] = value
    elif kind == "append":
        array.append(np.full((facts[0], 6), 7).astype(array.dtype))
    elif kind == "resize":
        array.resize(facts[0], 6)
    elif kind == "clear":
        array[facts[0] :] = 0
    elif kind == "attribute":
        array.attrs[facts[0]] = facts[1]
    else:
        tegula.delete(store)


@given(
    st.sampled_from(FORMATS), st.sampled_from(FORMATS), st.data(),
    st.lists(st.lists(edits, min_size=1, max_size=3), min_size=1, max_size=4),
)  # fmt: skip
@settings(max_examples=examples(300, slow=True), deadline=None)
def test_after_any_changes_a_sync_makes_the_target_equal(
    one: str, other: str, data: st.DataObject, rounds: list[list[tuple[Any, ...]]]
) -> None:
    encodings = [
        options
        for options in (*ENCODINGS, *(SHARDS if other == "zarr3" else ()))
        if other in ("zarr2", "zarr3", "n5") or not {"codecs", "checksum"} & options.keys()
    ]
    options = data.draw(st.sampled_from(encodings))
    source, target = tegula.MemoryStore(), tegula.MemoryStore()
    for number, several in enumerate([[("replace", (2, 2), "i4")], *rounds]):
        for edit in several:
            change(source, one, edit)
        if not any(True for _ in source.list()):
            continue
        chosen: dict[str, Any] = {"format": other, **options} if not number else {}
        if other == "bcolz" and "chunks" in chosen:
            chosen["chunks"] = (chosen["chunks"][0], 6)
        report = tegula.sync(source, target, **chosen)
        assert report.ok, report
        assert tegula.compare(source, target).equal
        found = tegula.check(target)
        assert found.ok, found
        assert not [one for one in found.findings if one.severity != "note"], found
        again = tegula.sync(source, target)
        assert again.is_same, again
