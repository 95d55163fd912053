"""Two changes of one node at once: the result is that of one after the other, at whatever step they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tegula
from tegula.errors import AlreadyExistsError, MetadataError, SelectionError, TegulaError
from tegula.stores import MemoryStore

LAYOUTS: dict[str, dict[str, Any]] = {
    "zarr1": {"format": "zarr1", "chunks": 4},
    "zarr2": {"format": "zarr2", "chunks": 4},
    "zarr3": {"format": "zarr3", "chunks": 4},
    "shards": {"format": "zarr3", "chunks": 2, "shards": 4},
    "bcolz": {"format": "bcolz", "chunks": 4},
}
LENGTH = 8


class Stepping(MemoryStore):
    """A store that counts its steps, and runs another action before a certain one."""

    steps = 0
    at = -1
    interfere: Callable[[], Any] | None = None

    def _step(self) -> None:
        self.steps += 1
        if self.interfere is not None and self.steps >= self.at:
            action, self.interfere = self.interfere, None
            action()

    def get(self, key: str, *args: Any, **options: Any) -> Any:
        self._step()
        return super().get(key, *args, **options)

    def set(self, key: str, value: Any, **options: Any) -> Any:
        self._step()
        return super().set(key, value, **options)

    def delete(self, key: str, **options: Any) -> None:
        self._step()
        super().delete(key, **options)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        self._step()
        return super().list_prefix(prefix)


class Killed(BaseException):
    """An exception that ends an operation as a kill would: no handler catches it."""


Action = Callable[[tegula.Array], Any]
ACTIONS: dict[str, Action] = {
    "shrink": lambda a: a.resize(5),
    "cut": lambda a: a.resize(3),
    "grow": lambda a: a.resize(11),
    "append": lambda a: a.append([21, 22, 23]),
    "element": lambda a: a.__setitem__(6, 31),
    "first": lambda a: a.__setitem__(0, 32),
    "attribute": lambda a: a.attrs.update(x=1),
    "other attribute": lambda a: a.attrs.update(y=2),
}


def make(store: tegula.Store, layout: str) -> None:
    array = tegula.create_array(store, shape=LENGTH, dtype="i4", attributes={"z": 0}, **LAYOUTS[layout])
    array[...] = np.arange(1, LENGTH + 1)


def state(store: tegula.Store) -> tuple[list[int], dict[str, Any], list[int]]:
    """Return the elements and attributes of an array, and its elements after it has grown."""
    copy = MemoryStore({key: store.get(key) or b"" for key in store.list()})
    array = tegula.open_array(copy, mode="r+")
    values, attributes = array[...].tolist(), array.attrs.asdict()
    array.resize(16)
    return values, attributes, array[...].tolist()


def act(action: Action, array: tegula.Array) -> None:
    """Change an array; if another process has shortened it, that can be an error."""
    try:
        action(array)
    except TegulaError as error:
        if not array.metadata.dense and not (isinstance(error, SelectionError) and error.is_stale):
            raise


def one_after_the_other(layout: str, *actions: Action) -> Any:
    store = MemoryStore()
    make(store, layout)
    arrays = [tegula.open_array(store, mode="r+") for _ in actions]  # as they are before anything happens
    for action, array in zip(actions, arrays):
        act(action, array)
    return state(store)


def moments(layout: str, action: Action, other: Callable[[tegula.Store], Callable[[], Any]]) -> Iterator[tegula.Store]:
    """Repeat an operation with another action before each of its steps; yield the store after each run."""
    for at in range(1, 10_000):
        store = Stepping()
        make(store, layout)
        array = tegula.open_array(store, mode="r+")
        store.interfere, store.at = other(store), store.steps + at
        with suppress(Killed):
            act(action, array)
        if store.interfere is not None:
            return
        yield store


@pytest.mark.slow
@pytest.mark.sampled(one_in=58)
@pytest.mark.parametrize("second", ACTIONS)
@pytest.mark.parametrize("first", ACTIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_is_as_if_one_change_had_come_first(layout: str, first: str, second: str) -> None:
    one, two = ACTIONS[first], ACTIONS[second]
    expected = [one_after_the_other(layout, one, two), one_after_the_other(layout, two, one)]

    def other(store: tegula.Store) -> Callable[[], Any]:
        array = tegula.open_array(store, mode="r+")
        return lambda: act(two, array)

    met = 0
    for store in moments(layout, one, other):
        assert state(store) in expected
        met += 1
    assert met > 1


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reader_never_sees_part_of_a_change(layout: str, name: str) -> None:
    """The shape is the old or the new one, and so is each element; elements that were cut off do not reappear."""
    before, after = one_after_the_other(layout), one_after_the_other(layout, ACTIONS[name])
    shapes = {len(before[0]), len(after[0])}

    def other(store: tegula.Store) -> Callable[[], Any]:
        def look() -> None:
            array = tegula.open_array(store)
            values = array[...].tolist()
            assert len(values) in shapes
            for index, value in enumerate(values):
                # room that an append has taken, and a row that a shrink has cleared already, hold the fill value
                assert value in {*before[0][index : index + 1], *after[0][index : index + 1], 0}
            assert array.attrs.asdict() in (before[1], after[1])

        return look

    assert sum(1 for _ in moments(layout, ACTIONS[name], other)) > 1


@pytest.mark.parametrize("name", ["append", "grow"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_leftovers_of_a_killed_shrink_stay_hidden_while_the_array_grows(layout: str, name: str) -> None:
    wanted = {"append": [21, 22, 23], "grow": [0] * 6}[name]

    def die(store: tegula.Store) -> Callable[[], Any]:
        def kill() -> None:
            raise Killed

        return kill

    for left in moments(layout, ACTIONS["shrink"], die):
        values = {key: left.get(key) or b"" for key in left.list()}
        for at in range(1, 10_000):
            store = Stepping(values)
            array = tegula.open_array(store, mode="r+")
            length = len(array)
            found: list[list[int]] = []
            store.interfere = lambda store=store, found=found: found.append(tegula.open_array(store)[...].tolist())
            store.at = store.steps + at
            ACTIONS[name](array)
            if store.interfere is not None:
                break
            (seen,) = found
            assert seen[:length] == [*range(1, length + 1)]
            for value, new in zip(seen[length:], wanted):
                assert value in (0, new)


# --- nodes that come and go


NODES: dict[str, Callable[..., Any]] = {
    "array": lambda store, mark, **o: tegula.create_array(store, shape=3, dtype="i4", fill_value=mark, **o),
    "group": lambda store, mark, **o: tegula.create_group(store, **o),
    "table": lambda store, mark, **o: tegula.create_table(store, {"x": [mark], "y": [mark]}, **o),
}
KINDS = {
    "zarr1": ["array"],
    "zarr2": ["array", "group", "table"],
    "zarr3": ["array", "group", "table"],
    "bcolz": ["array", "table"],
}
PAIRS = [
    (f, k, g, n) for f in KINDS for k in KINDS[f] for g in KINDS for n in KINDS[g] if f == g or "table" not in (k, n)
]
SIMPLE = [pair for pair in PAIRS if "table" not in pair]


def create(store: tegula.Store, format: str, kind: str, mark: int, **options: Any) -> bool:
    """Create a node with its creator's name, and return whether that succeeded."""
    try:
        NODES[kind](store, mark, format=format, attributes={"who": mark}, **options)
    except (AlreadyExistsError, MetadataError):  # the latter of half a node of bcolz, which has two documents
        return False
    return True


def who(node: Any) -> int:
    """Return the creator of a node, after checking that all of its values come from one creator."""
    mark: int = node.attrs["who"]
    if isinstance(node, tegula.Array):
        assert node.fill_value == mark
    if isinstance(node, tegula.Table):
        assert {name: node[name][...].tolist() for name in node.names} == {"x": [mark], "y": [mark]}
    return mark


@pytest.mark.slow
@pytest.mark.sampled(one_in=9)
@pytest.mark.parametrize(("format", "kind", "second_format", "second_kind"), PAIRS)
def test_of_two_that_create_a_node_one_wins(format: str, kind: str, second_format: str, second_kind: str) -> None:
    for at in range(1, 10_000):
        store = Stepping()
        won: dict[int, bool] = {}
        store.interfere = lambda store=store, won=won: won.update({2: create(store, second_format, second_kind, 2)})
        store.at = at
        won[1] = create(store, format, kind, 1)
        if store.interfere is not None:
            break
        assert sorted(won.values()) == [False, True], at
        node = tegula.open(store)
        assert won[who(node)]
        winner = format if won[1] else second_format
        assert node.format == winner
    assert at > 2  # before the search for existing nodes, and before the document that takes the path


@pytest.mark.slow
@pytest.mark.sampled(one_in=6)
@pytest.mark.parametrize(("format", "kind", "second_format", "second_kind"), SIMPLE)
def test_an_overwrite_wins_against_a_creation_at_the_same_time(
    format: str, kind: str, second_format: str, second_kind: str
) -> None:
    for at in range(1, 10_000):
        store = Stepping()
        won: dict[int, bool] = {}
        store.interfere = lambda store=store, won=won: won.update({2: create(store, second_format, second_kind, 2)})
        store.at = at
        assert create(store, format, kind, 1, overwrite=True)
        if store.interfere is not None:
            break
        node = tegula.open(store)
        assert who(node) == 1 or won[2]
    assert at > 2  # before the search for existing nodes, and before the document that takes the path
