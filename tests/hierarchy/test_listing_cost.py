"""What listing a group, and opening a member by consolidated metadata, request from a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import tegula
from tegula.stores import LocalStore


class Counting(LocalStore):
    """A local store that counts listings, and the bytes of values that it returns."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.listings = self.nbytes = 0

    def prefixes_with(self, prefix: str, names: Sequence[str]) -> Iterator[str]:
        self.listings += 1
        return super().prefixes_with(prefix, names)

    def get(self, *args: Any, **options: Any) -> Any:
        found = super().get(*args, **options)
        value = found[0] if options.get("with_generation") else found
        self.nbytes += len(value or b"")
        return found


@pytest.fixture(params=["zarr2", "zarr3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Counting:
    g = tegula.create_group(tmp_path, format=request.param)
    for number in range(200):
        g.create_array(f"a{number:03d}", shape=3, dtype="i4", attributes={"text": "x" * 300})
    g.consolidate()
    return Counting(tmp_path)


NAMES = [f"a{number:03d}" for number in range(200)]


@pytest.mark.slow
@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("make", [list, tuple, sorted, len, lambda g: [*g], lambda g: list(g.keys())])
def test_names_take_one_listing(store: Counting, make: Any) -> None:
    g = tegula.open_group(store)
    found = make(g)
    assert len(NAMES) == found if isinstance(found, int) else [*found] == NAMES
    assert store.listings == 1


@pytest.mark.slow
def test_a_length_is_that_of_the_moment(store: Counting) -> None:
    g = tegula.open_group(store, mode="r+")
    names = iter(g)
    assert len(g) == 200
    g.create_array("b", shape=1, dtype="i4")
    assert [*names] == NAMES  # as they were when they were counted
    assert len(g) == 201
    assert next(iter(g)) == "a000"
    kept = iter(g)
    next(kept)
    del g["b"]
    assert (len(g), len([*kept])) == (200, 199)


def test_a_member_of_a_large_copy_takes_one_read_of_the_copy(store: Counting) -> None:
    g = tegula.open_group(store)
    size = store.nbytes if g.format == "zarr3" else store.size(".zmetadata") or 0
    assert g.with_consolidated()["a123"].shape == (3,)
    assert store.nbytes < 1.5 * size + 2**16


@pytest.mark.slow
def test_a_copy_that_has_changed_since_is_read_again(store: Counting) -> None:
    g = tegula.open_group(store)
    other = tegula.open_group(store, mode="r+")
    other.create_array("new", shape=4, dtype="i4")
    other.consolidate()
    assert g.with_consolidated()["new"].shape == (4,)


@pytest.mark.slow
def test_the_documents_of_members_are_read_together(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[int] = []
    get_many = LocalStore.get_many

    def counted(store: LocalStore, requests: Any) -> Any:
        requests = [*requests]
        wanted.append(len(requests))
        return get_many(store, requests)

    monkeypatch.setattr(LocalStore, "get_many", counted)
    plain = tegula.open_group(LocalStore(Path(store.root)))
    arrays = plain.arrays()
    next(arrays)
    assert len(wanted) == 1  # a listing that ends early reads no more than it needs
    assert [name for name, _ in arrays] == NAMES[1:]
    each = 1 if plain.format == "zarr3" else 4
    assert wanted == [64 * each] * 3 + [8 * each]
