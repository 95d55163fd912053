"""Tables behave as lists of records do: whatever interrupts a change of rows or columns, no row is incomplete."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tegula
from tegula.errors import AlreadyExistsError, MetadataError, TegulaError
from tegula.testing import Fault

pytestmark = pytest.mark.slow

TYPES = st.sampled_from(["<i4", "<f8", "<U2", "<M8[s]", ("<i2", (2,))])
NAMES = ["a", "b", "c", "d"]


def make(dtype: Any, rows: int, seed: int) -> Any:
    """Make few different values."""
    dtype = np.dtype(dtype)
    numbers = np.random.default_rng(seed).integers(0, 4, (rows, *dtype.shape))
    if dtype.kind == "U":
        return np.array(["", "a", "é", "bc"])[numbers].astype(dtype)
    return numbers.astype("i8").astype(dtype.base)


def same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    return [*found] == [*expected] and all(
        found[name].shape == values.shape and found[name].tobytes() == values.astype(found[name].dtype).tobytes()
        for name, values in expected.items()
    )


class TableMachine(RuleBasedStateMachine):
    """One table, two handles on it, and its columns in memory."""

    def __init__(self, new_place: Any) -> None:
        super().__init__()
        self.new_place = new_place
        self.place: Any = None

    @initialize(data=st.data(), format=st.sampled_from(["bcolz", "bcolz", "zarr2", "zarr3"]), rows=st.integers(0, 9))
    def begin(self, data: st.DataObject, format: str, rows: int) -> None:
        self.place = self.new_place(data.draw(self.kinds, label="place"))
        self.chunks = data.draw(st.integers(1, 4), label="chunks")
        self.model = {"a": make("<i4", rows, 1), "b": make("<U2", rows, 2)}
        self.types: dict[str, Any] = {"a": "<i4", "b": "<U2"}
        self.attrs: dict[str, Any] = {}
        tegula.create_table(self.place.store, self.model, path="t", format=format, chunks=self.chunks)
        self.enter()

    kinds = st.sampled_from(["memory", "local", "zip", "faulty memory", "faulty local", "faulty zip", "faulty memory"])

    def enter(self) -> None:
        self.handles = [self.open(), self.open()]

    def open(self, store: Any = None) -> tegula.Table:
        return tegula.open_table(self.place.store if store is None else store, "r+", path="t")

    def refresh(self) -> None:
        """Let each handle see the other's changes of the columns."""
        for handle in self.handles:
            handle.refresh()

    def teardown(self) -> None:
        if self.place is not None:
            self.place.leave()

    @property
    def rows(self) -> int:
        return len(next(iter(self.model.values()))) if self.model else 0

    def do(self, data: st.DataObject, act: Any, *allowed: dict[str, Any]) -> None:
        """Change the table into the last of `allowed`, perhaps after a fault, which may leave any of the others."""
        number = data.draw(st.integers(0, 1), label="handle")
        if self.place.faulty and data.draw(st.integers(0, 2), label="is there a fault") == 0:
            outcome = self.place.meet(lambda: act(self.handles[number]), data.draw(self.place.faults, label="fault"))
            if outcome is None:
                self.model = allowed[-1]
                return
            if not isinstance(outcome, TegulaError):
                self.enter()
            table = self.open()
            if not table.is_consistent:  # beyond the end of the table
                table.repair()
                assert table.is_consistent
            found = table.read()
            assert any(same(found, one) for one in (self.model, *allowed)), f"neither old nor new after {outcome!r}"
            self.refresh()
            if same(found, allowed[-1]):
                self.model = allowed[-1]
                return
            self.model = next(one for one in (self.model, *allowed) if same(found, one))
        act(self.handles[number])
        self.model = allowed[-1]

    def more(self, data: st.DataObject, label: str) -> dict[str, Any]:
        count, seed = data.draw(st.integers(0, 5), label=label), data.draw(st.integers(0, 30), label="values")
        return {name: make(self.types[name], count, seed + place) for place, name in enumerate(self.model)}

    def joined(self, *parts: dict[str, Any]) -> dict[str, Any]:
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    @precondition(lambda self: self.model and self.rows < 25)
    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        rows = self.more(data, "rows")
        self.do(data, lambda table: table.append(rows), self.joined(self.model, rows))

    @precondition(lambda self: self.place.faulty and self.model and self.rows < 25 and self.place.kind != "local")
    @rule(data=st.data())
    def append_while_another_appends(self, data: st.DataObject) -> None:
        self.refresh()
        parts = [self.more(data, "rows"), self.more(data, "rows of the other")]
        fault = Fault(
            lambda *_: self.handles[1].append(parts[1]),
            on=data.draw(st.sampled_from(["get", "set"])),
            skip=data.draw(st.integers(0, 9)),
            done=data.draw(st.booleans()),
        )
        self.place.store.arm(fault)
        self.handles[0].append(parts[0])
        struck = self.place.store.struck
        self.place.store.arm()
        found = self.open().read()
        orders = [self.joined(self.model, *pair) for pair in (parts, parts[::-1])] if struck else []
        orders = orders or [self.joined(self.model, parts[0])]
        assert any(same(found, one) for one in orders)
        self.model = next(one for one in orders if same(found, one))

    @precondition(lambda self: self.model)
    @rule(data=st.data(), rows=st.integers(0, 20))
    def resize(self, data: st.DataObject, rows: int) -> None:
        new = {}
        for name, values in self.model.items():
            new[name] = np.zeros((rows, *values.shape[1:]), values.dtype)
            new[name][: self.rows] = values[:rows]
        self.do(data, lambda table: table.resize(rows), new)

    @rule(data=st.data(), name=st.sampled_from(NAMES), dtype=TYPES, position=st.integers(0, 3), seed=st.integers(0, 9))
    def add_column(self, data: st.DataObject, name: str, dtype: Any, position: int, seed: int) -> None:
        if name in self.model:
            return
        values = make(dtype, self.rows, seed)
        names = [*self.model]
        names.insert(position, name)
        new = {known: {**self.model, name: values}[known] for known in names}
        self.types[name] = dtype

        def act(table: tegula.Table) -> None:
            try:
                table.add_column(name, values, position=position, chunks=self.column_chunks(values))
            except (AlreadyExistsError, MetadataError):  # an attempt that failed has left an array, or part of one
                if not [*self.place.store.list_prefix(f"t/{name}/")]:
                    raise
                table.add_column(name, values, position=position, chunks=self.column_chunks(values), overwrite=True)

        self.do(data, act, new)
        self.refresh()

    def column_chunks(self, values: Any) -> tuple[int, ...]:
        return (self.chunks, *values.shape[1:])

    @rule(data=st.data(), name=st.sampled_from(NAMES))
    def remove_column(self, data: st.DataObject, name: str) -> None:
        if name not in self.model or len(self.model) == 1:
            return
        rest = {known: values for known, values in self.model.items() if known != name}
        self.do(data, lambda table: table.remove_column(name), rest)
        self.refresh()

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), seed=st.integers(0, 30))
    def assign(self, data: st.DataObject, seed: int) -> None:
        """Assign to some rows, without faults, since a write to several chunks is not one step."""
        chosen = data.draw(st.slices(self.rows), label="rows")
        number = data.draw(st.integers(0, 1), label="handle")
        self.handles[number].refresh()
        count = len(range(*chosen.indices(self.rows)))
        parts = {name: make(self.types[name], count, seed) for name in self.model}
        self.handles[number][chosen] = parts
        self.model = {name: values.copy() for name, values in self.model.items()}
        for name, values in self.model.items():
            values[chosen] = parts[name]

    @rule(data=st.data(), value=st.integers(0, 9))
    def set_attribute(self, data: st.DataObject, value: int) -> None:
        handle = data.draw(st.sampled_from(self.handles))
        handle.attrs[f"n{value % 2}"] = value
        self.attrs[f"n{value % 2}"] = value

    @precondition(lambda self: "a" in self.model and self.types["a"] in ("<i4", "<f8"))
    @rule(least=st.integers(0, 4))
    def where(self, least: int) -> None:
        found = self.open().where("a >= least", ["a"], variables={"least": least})
        assert found["a"].tobytes() == self.model["a"][self.model["a"] >= least].tobytes()

    @rule(data=st.data())
    def read_slices(self, data: st.DataObject) -> None:
        table = self.open()
        chosen = data.draw(st.slices(self.rows), label="rows")
        found = table[chosen]
        assert same(
            {name: found[name] for name in table.names}, {n: values[chosen] for n, values in self.model.items()}
        )

    @rule()
    def reopen(self) -> None:
        self.place.reopen()
        self.enter()

    @invariant()
    def a_fresh_handle_sees_the_model(self) -> None:
        if self.place is None:
            return
        table = self.open(self.place.other())
        assert table.is_consistent
        assert len(table) == self.rows
        assert same(table.read(), self.model)
        assert table.attrs.asdict() == self.attrs
        self.place.check_files()


def test_tables(new_place: Any, run_machine: Any) -> None:
    run_machine(lambda: TableMachine(new_place), examples=80)
