"""Arrays behave as NumPy's do: all formats, types and stores, several handles, reopening, and faults.

After a fault each chunk holds its old or its new values, and the same operation succeeds when it is repeated.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tegula
from tegula import config
from tegula.errors import (
    AlreadyExistsError,
    MetadataError,
    NotFoundError,
    SelectionError,
    TegulaError,
    UnsupportedError,
)
from tegula.testing import Fault

pytestmark = pytest.mark.slow

RECORD = [("a", "<i4"), ("b", ">f8"), ("s", "S3")]
PLAIN = ["?", "i1", "<i4", ">u2", "<f8", ">f4", "<c8", "S3", "<U3", ">U2", "<M8[s]", ">m8[us]", RECORD]
TYPES = {"zarr1": PLAIN, "zarr2": [*PLAIN, str, bytes], "zarr3": [*PLAIN, str, bytes], "bcolz": PLAIN}
CODECS: dict[str, list[Any]] = {
    "zarr1": ["auto", None],
    "zarr2": ["auto", None, "zlib"],
    "zarr3": ["auto", None, ["zstd", "crc32c"]],
    "bcolz": ["auto"],
}
LAYOUTS = ["zarr1", "zarr2", "zarr3", "zarr3 sharded", "bcolz"]
DOCUMENTS = {"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata", "meta", "attrs", "__attrs__"}
DOCUMENTS |= {"meta/sizes", "meta/storage"}
WORDS = ["", "a", "é", "tegula", "a b", "🦉"]


def make(dtype: Any, shape: Any, seed: int) -> Any:
    """Make few different values, among them zeros, so that chunks are often equal to the fill value."""
    numbers = np.random.default_rng(seed).integers(0, 2 + seed % 4, shape)
    dtype = np.dtype(dtype)
    if dtype.kind == "O":
        return np.array(WORDS, object)[numbers]
    if dtype.names:
        out = np.zeros(shape, dtype)
        for place, name in enumerate(dtype.names):
            out[name] = make(dtype[name], shape, seed + place)
        return out
    if dtype.kind in "SU":
        return np.array(["", "a", "bc", "x", "yz"])[numbers].astype(dtype)
    return numbers.astype("i8").astype(dtype)


def same(a: Any, b: Any) -> bool:
    """Whether two arrays hold the same bits."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return a.tolist() == b.tolist() if a.dtype.kind == "O" else a.tobytes() == b.tobytes()


class ArrayMachine(RuleBasedStateMachine):
    """One array, two handles on it, and what NumPy makes of the same operations."""

    def __init__(self, new_place: Any) -> None:
        super().__init__()
        self.new_place = new_place
        self.place: Any = None
        self.strays = False  # whether there may be chunks outside the array

    # --- the place

    @initialize(
        data=st.data(), layout=st.sampled_from(LAYOUTS), shape=hnp.array_shapes(max_dims=3, min_side=0, max_side=7)
    )
    def begin(self, data: st.DataObject, layout: str, shape: tuple[int, ...]) -> None:
        self.place = self.new_place(data.draw(self.place_kinds, label="place"))
        self.create(data, layout, shape)

    place_kinds = st.sampled_from(["memory", "local", "zip", "faulty memory", "faulty local", "faulty zip"])

    def create(self, data: st.DataObject, layout: str, shape: tuple[int, ...]) -> None:
        format = layout.partition(" ")[0]
        dtype = data.draw(st.sampled_from(TYPES[format]), label="dtype")
        if format == "bcolz":
            shape = (shape[0], *(max(1, size) for size in shape[1:]))
        chunks = tuple(data.draw(st.integers(1, 4), label="chunk") for _ in shape)
        options: dict[str, Any] = {"chunks": (chunks[0], *shape[1:]) if format == "bcolz" else chunks}
        if layout == "zarr3 sharded":
            options["shards"] = tuple(size * data.draw(st.integers(1, 2), label="in shard") for size in chunks)
        if (
            format != "bcolz"
            and dtype not in (str, bytes, RECORD if format == "zarr1" else None)
            and data.draw(st.booleans(), label="filled with ones")
        ):
            options["fill_value"] = make(dtype, 1, 2)[0]
        options["codecs"] = data.draw(st.sampled_from(CODECS[format]), label="codecs")
        options["order"] = data.draw(st.sampled_from("CF" if format == "zarr2" else "C"), label="order")
        self.path = "a" if format in ("zarr2", "zarr3") else ""
        options |= {"path": self.path, "shape": shape, "dtype": dtype, "format": format}
        try:
            tegula.create_array(self.place.store, **options)
        except AlreadyExistsError:  # chunks of an earlier array, whose deletion met a fault
            assert self.strays
            tegula.create_array(self.place.store, overwrite=True, **options)
        self.enter()
        self.model = np.full(shape, self.fill, self.handles[0].dtype)
        self.attrs: dict[str, Any] = {}
        self.shapes = [shape, shape]

    def enter(self) -> None:
        """Open two handles."""
        self.handles = [
            self.open(self.place.store),
            self.open(self.place.store if self.place.faulty else self.place.other()),
        ]
        self.shapes = [handle.shape for handle in self.handles]

    def open(self, store: Any) -> tegula.Array:
        return tegula.open_array(store, "r+", path=self.path)

    def teardown(self) -> None:
        if self.place is not None:
            self.place.leave()

    @property
    def fill(self) -> Any:
        """The value of elements that were never written; if it is undefined, the value that reading returns."""
        return self.handles[0].stored.fill

    @property
    def dense(self) -> bool:
        return self.handles[0].format == "bcolz"

    # --- changes and their outcome

    def draw_handle(self, data: st.DataObject, *, stale: bool = False) -> tegula.Array:
        """Choose a handle; one that does not know of a change of the shape reads the metadata again, unless `stale`."""
        number = data.draw(st.integers(0, 1), label="handle")
        if not stale and self.handles[number].shape != self.model.shape:
            self.handles[number].refresh()
        return self.handles[number]

    def do(self, data: st.DataObject, number: int, act: Any, new: Any, *, mixed: bool = False) -> None:
        """Carry out a change by a handle that turns the model into `new`, with a fault or two before it succeeds.

        After a fault each chunk may be old or new if `mixed`, otherwise only the whole array.
        """
        if self.place.faulty and data.draw(st.integers(0, 2), label="is there a fault") == 0:
            outcome = self.place.meet(lambda: act(self.handles[number]), data.draw(self.place.faults, label="fault"))
            if outcome is None:
                self.model = new
                return
            self.strays |= new.shape != self.model.shape
            if not isinstance(outcome, TegulaError):  # the process has died
                self.enter()
            found = self.open(self.place.store)[...]
            self.check_outcome(found, new, mixed, outcome)
            if found.shape == new.shape and new.shape != self.model.shape:  # all but its last step was done
                self.model = found
                for handle in self.handles:
                    handle.refresh()
                return
            self.model = found
        act(self.handles[number])
        self.model = new

    def check_outcome(self, found: Any, new: Any, mixed: bool, outcome: Any) -> None:
        """Check that the state after a fault is allowed, chunk by chunk."""
        old = self.model
        if same(found, old) or same(found, new):
            return
        assert mixed, f"neither old nor new after {outcome!r}"
        assert found.shape == new.shape, f"the shape {found.shape} is neither of the two after {outcome!r}"
        padded = np.full(new.shape, self.fill, new.dtype)
        padded[tuple(slice(0, size) for size in old.shape)] = old
        handle = self.open(self.place.store)
        grid = handle.shards or handle.chunks
        for coords in np.ndindex(*(-(-size // step) for size, step in zip(new.shape, grid))):
            part = tuple(slice(n * step, (n + 1) * step) for n, step in zip(coords, grid))
            assert same(found[part], padded[part]) or same(found[part], new[part]), f"{coords} after {outcome!r}"

    # --- writing

    def assign(self, data: st.DataObject, index: Any, change: Any) -> None:
        """Write values through one of the ways to select, and to the same elements of the model."""
        number = data.draw(st.integers(0, 1), label="handle")
        handle = self.handles[number]
        if handle.shape != self.model.shape:
            handle.refresh()
        new = self.model.copy()
        shape = np.shape(new[index])
        scalar = data.draw(st.booleans(), label="scalar")
        values = make(new.dtype, () if scalar else shape, data.draw(st.integers(0, 30), label="values"))
        if new.dtype.kind == "O":
            values = self.texts(values)
        new[index] = values
        self.do(data, number, lambda array: change(array, values), new, mixed=True)

    def texts(self, values: Any) -> Any:
        """Encode text if the array holds bytes."""
        if self.handles[0].metadata.data_type.variable != "bytes":
            return values
        encoded = [text.encode() for text in np.asarray(values, object).flat]
        out = np.empty(len(encoded), object)
        out[:] = encoded
        return out.reshape(np.shape(values))[()]

    @rule(data=st.data())
    def write_basic(self, data: st.DataObject) -> None:
        index = data.draw(hnp.basic_indices(self.model.shape), label="index")
        self.assign(data, index, lambda array, values: array.__setitem__(index, values))

    @rule(data=st.data())
    def write_with_a_mask(self, data: st.DataObject) -> None:
        mask = np.random.default_rng(data.draw(st.integers(0, 99), label="mask")).random(self.model.shape) < 0.4
        indexer = data.draw(st.sampled_from(["", "vindex"]), label="way")
        self.assign(data, mask, lambda array, values: (getattr(array, indexer or "vindex")).__setitem__(mask, values))

    @precondition(lambda self: self.model.size)
    @rule(data=st.data(), seed=st.integers(0, 99), count=st.integers(0, 6))
    def write_points(self, data: st.DataObject, seed: int, count: int) -> None:
        flat = np.random.default_rng(seed).permutation(self.model.size)[:count]
        points = np.unravel_index(flat, self.model.shape)
        self.assign(data, points, lambda array, values: array.vindex.__setitem__(points, values))

    @precondition(lambda self: self.model.size)
    @rule(data=st.data(), seed=st.integers(0, 99))
    def write_orthogonally(self, data: st.DataObject, seed: int) -> None:
        random = np.random.default_rng(seed)
        lists = [random.permutation(size)[: random.integers(1, size + 1)] for size in self.model.shape]
        given = tuple(
            data.draw(st.sampled_from([items, np.isin(np.arange(size), items)]), label="axis") if size > 1 else items
            for items, size in zip(lists, self.model.shape)
        )
        index = np.ix_(*(np.flatnonzero(item) if item.dtype == bool else item for item in given))
        self.assign(data, index, lambda array, values: array.oindex.__setitem__(given, values))

    @precondition(lambda self: self.model.size)
    @rule(data=st.data())
    def write_blocks(self, data: st.DataObject) -> None:
        handle = self.draw_handle(data)
        grid = handle.shards or handle.chunks
        counts = [-(-size // step) for size, step in zip(self.model.shape, grid)]
        chosen = tuple(data.draw(st.integers(0, count - 1), label="block") for count in counts)
        index = tuple(slice(n * step, (n + 1) * step) for n, step in zip(chosen, grid))
        self.assign(data, index, lambda array, values: array.blocks.__setitem__(chosen, values))

    @precondition(lambda self: self.model.dtype.names)
    @rule(data=st.data(), seed=st.integers(0, 30))
    def write_a_field(self, data: st.DataObject, seed: int) -> None:
        number = self.handles.index(self.draw_handle(data))
        new = self.model.copy()
        new["b"] = make("f8", new.shape, seed)
        self.do(data, number, lambda array: array.__setitem__("b", new["b"]), new, mixed=True)

    @rule(data=st.data(), seed=st.integers(0, 30))
    def write_through_a_stale_handle(self, data: st.DataObject, seed: int) -> None:
        """Write through a handle that may have an older shape: nothing beyond the present one is stored."""
        handle = self.draw_handle(data, stale=True)
        common = tuple(map(min, handle.shape, self.model.shape))
        if handle.size and common != handle.shape:
            with pytest.raises(SelectionError, match=r"refresh\(\)"):
                handle[...] = self.fill
            if self.dense:
                handle.refresh()
        values = make(self.model.dtype, common, seed)
        values = self.texts(values) if values.dtype.kind == "O" else values
        part = tuple(slice(0, size) for size in common)
        handle[part] = values
        self.model = self.model.copy()
        self.model[part] = values

    @precondition(lambda self: self.place.faulty and self.model.size)
    @rule(data=st.data(), seeds=st.tuples(st.integers(0, 30), st.integers(0, 30)))
    def write_while_another_writes(self, data: st.DataObject, seeds: tuple[int, int]) -> None:
        """Neither write is lost; if both write the same element, it has one of the two values."""
        masks = [np.random.default_rng(seed).random(self.model.shape) < 0.5 for seed in seeds]
        parts = [make(self.model.dtype, mask.sum(), seed + 1) for mask, seed in zip(masks, seeds)]
        parts = [self.texts(part) if part.dtype.kind == "O" else part for part in parts]
        for handle in self.handles:
            handle.refresh()
        orders = []
        for first, second in ((0, 1), (1, 0)):
            new = self.model.copy()
            new[masks[first]] = parts[first]
            new[masks[second]] = parts[second]
            orders.append(new)
        other = Fault(
            lambda *_: self.handles[1].vindex.__setitem__(masks[1], parts[1]),
            on=data.draw(st.sampled_from(["get", "set"])),
            keys=r"\d$|blp$",
            skip=data.draw(st.integers(0, 3)),
            done=data.draw(st.booleans()),
        )
        self.place.store.arm(other)
        self.handles[0].vindex[masks[0]] = parts[0]
        if not self.place.store.struck:
            orders = [np.where(masks[0], orders[1], self.model).astype(self.model.dtype)]
        self.place.store.arm()
        found = self.handles[0][...]
        for place in np.ndindex(*found.shape):
            assert any(same(found[place], new[place]) for new in orders), place
        self.model = found

    # --- growing

    @rule(data=st.data(), grow=st.booleans())
    def resize(self, data: st.DataObject, grow: bool) -> None:
        number = self.handles.index(self.draw_handle(data))
        shape = tuple(
            data.draw(
                st.integers(size if grow else 0, 12 if grow else size) if size < 12 else st.just(size - 3), label="size"
            )
            for size in self.model.shape
        )
        if self.dense:
            shape = (shape[0], *self.model.shape[1:])
        new = np.full(shape, self.fill, self.model.dtype)
        part = tuple(slice(0, min(pair)) for pair in zip(shape, self.model.shape))
        new[part] = self.model[part]
        self.do(data, number, lambda array: array.resize(shape), new)

    @precondition(lambda self: self.place.faulty and self.model.size)
    @rule(data=st.data(), skip=st.integers(0, 4))
    def die_while_shrinking(self, data: st.DataObject, skip: int) -> None:
        """Elements that were cut off do not reappear when another process grows the array later."""
        number = self.handles.index(self.draw_handle(data))
        shape = tuple(data.draw(st.integers(0, size), label="size") for size in self.model.shape)
        shape = (shape[0], *self.model.shape[1:]) if self.dense else shape
        fault = Fault("crash", on=("set", "delete"), skip=skip)
        if self.place.meet(lambda: self.handles[number].resize(shape), fault) is not None:
            self.enter()
            self.strays = True
        cut = self.model[tuple(slice(0, size) for size in shape)]
        found = self.open(self.place.store)[...]
        assert same(found, cut) or same(found, self.model)
        grown = np.full(self.model.shape, self.fill, self.model.dtype)
        grown[tuple(slice(0, size) for size in found.shape)] = found
        self.open(self.place.store).resize(grown.shape)
        self.model = grown
        for handle in self.handles:
            handle.refresh()

    def rows(self, data: st.DataObject, axis: int, label: str) -> Any:
        count = data.draw(st.integers(0, 5), label=label)
        shape = tuple(count if a == axis else size for a, size in enumerate(self.model.shape))
        values = make(self.model.dtype, shape, data.draw(st.integers(0, 30), label="values"))
        return self.texts(values) if values.dtype.kind == "O" else values

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        axis = 0 if self.dense else data.draw(st.integers(0, self.model.ndim - 1), label="axis")
        added = self.rows(data, axis, "rows")
        if self.model.shape[axis] + added.shape[axis] > 15:
            return
        number = self.handles.index(self.draw_handle(data, stale=True))
        if any(a != b for n, (a, b) in enumerate(zip(self.handles[number].shape, self.model.shape)) if n != axis):
            self.handles[number].refresh()
        new = np.concatenate([self.model, added], axis).astype(self.model.dtype)

        def act(array: tegula.Array) -> None:
            # rows that an attempt reserved before it died are not given back
            array.append(added, axis)

        self.do(data, number, act, new, mixed=not self.dense)

    @precondition(lambda self: self.place.faulty)
    @rule(data=st.data())
    def append_while_another_appends(self, data: st.DataObject) -> None:
        """The rows of both are stored, in either order."""
        parts = [self.rows(data, 0, "rows"), self.rows(data, 0, "rows of the other")]
        if len(self.model) + sum(map(len, parts)) > 18:
            return
        if self.dense and self.place.kind == "local":  # the other one would wait for the lock
            return
        for handle in self.handles:
            handle.refresh()
        other = Fault(
            lambda *_: self.handles[1].append(parts[1]),
            on=data.draw(st.sampled_from(["get", "set"])),
            skip=data.draw(st.integers(0, 5)),
            done=data.draw(st.booleans()),
        )
        self.place.store.arm(other)
        self.handles[0].append(parts[0])
        struck = self.place.store.struck
        self.place.store.arm()
        found = self.open(self.place.store)[...]
        allowed = [np.concatenate([self.model, *pair]) for pair in (parts, parts[::-1])] if struck else []
        allowed = allowed or [np.concatenate([self.model, parts[0]])]
        assert any(same(found, new.astype(found.dtype)) for new in allowed)
        self.model = found
        for handle in self.handles:
            handle.refresh()

    # --- attributes

    @rule(
        data=st.data(),
        name=st.sampled_from(["x", "units", "é"]),
        value=st.none() | st.integers(0, 9) | st.text(max_size=3),
    )
    def set_attribute(self, data: st.DataObject, name: str, value: Any) -> None:
        self.change_attributes(data, {**self.attrs, name: value}, lambda attrs: attrs.__setitem__(name, value))

    @precondition(lambda self: self.attrs)
    @rule(data=st.data())
    def delete_attribute(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.attrs)))
        rest = {known: value for known, value in self.attrs.items() if known != name}
        self.change_attributes(data, rest, lambda attrs: attrs.__delitem__(name))

    @rule(data=st.data())
    def put_attributes(self, data: st.DataObject) -> None:
        self.change_attributes(data, {"n": [1, None]}, lambda attrs: attrs.put({"n": [1, None]}))

    def change_attributes(self, data: st.DataObject, new: dict[str, Any], act: Any) -> None:
        handle = self.draw_handle(data)
        number = self.handles.index(handle)
        if self.place.faulty and data.draw(st.integers(0, 2), label="is there a fault") == 0:
            outcome = self.place.meet(lambda: act(handle.attrs), data.draw(self.place.faults, label="fault"))
            if not isinstance(outcome, TegulaError | None):
                self.enter()
            found = self.open(self.place.store).attrs.asdict()
            assert found in ((self.attrs, new) if outcome else (new,))
            self.attrs = found
            if found == new:
                return
        act(self.handles[number].attrs)
        self.attrs = new

    # --- reading

    @rule(data=st.data())
    def read_with_both_executors(self, data: st.DataObject) -> None:
        index = data.draw(hnp.basic_indices(self.model.shape, allow_ellipsis=True), label="index")
        expected = np.asarray(self.model[index], self.model.dtype)  # of one element, too
        for executor in ("reference", "auto"):
            with config.configure(executor=executor):
                found = self.open(self.place.store)[index]
                assert same(np.asarray(found, self.model.dtype), expected), executor
                assert same(self.open(self.place.store)[...], self.model), executor
        out = np.empty(np.shape(expected), self.model.dtype)
        self.draw_handle(data).read(index, out=out).result()
        assert same(out, expected)

    @precondition(lambda self: self.place.faulty)
    @rule(data=st.data())
    def read_with_a_fault(self, data: st.DataObject) -> None:
        """What is read is right, or an error."""
        number = self.handles.index(self.draw_handle(data))
        read = []
        faults = st.one_of(self.place.faults, self.place.short)
        outcome = self.place.meet(lambda: read.append(self.handles[number][...]), data.draw(faults, label="fault"))
        if outcome is None:
            assert same(read[0], self.model)
        elif not isinstance(outcome, TegulaError):
            self.enter()

    # --- the whole array

    @rule()
    def reopen(self) -> None:
        self.place.reopen()
        self.enter()

    @rule(data=st.data())
    def refresh(self, data: st.DataObject) -> None:
        handle = data.draw(st.sampled_from(self.handles))
        handle.refresh()
        assert handle.shape == self.model.shape
        assert handle.attrs.asdict() == self.attrs

    @precondition(lambda self: self.path)
    @rule()
    def consolidate(self) -> None:
        tegula.open_group(self.place.store, "r+").consolidate()
        member = tegula.open_group(self.place.store, consolidated=True)["a"]
        assert same(member[...], self.model)
        assert member.attrs.asdict() == self.attrs

    @rule(data=st.data(), format=st.sampled_from(["zarr1", "zarr2", "zarr3", "bcolz"]))
    def convert(self, data: st.DataObject, format: str) -> None:
        """Continue with a copy in another format and another place."""
        path = "a" if format in ("zarr2", "zarr3") else ""
        source = self.open(self.place.store)
        try:
            tegula.convert(source, {}, format=format, dry_run=True)
        except (UnsupportedError, MetadataError):  # no such types or shapes
            return
        place = self.new_place(data.draw(self.place_kinds, label="place"))

        def act() -> None:
            tegula.convert(source, place.store, path=path, format=format, verify=True, overwrite=True)

        if place.faulty:
            place.meet(act, data.draw(place.faults, label="fault"))
        act()
        self.place.leave()
        self.place, self.path, self.strays = place, path, place.faulty
        self.enter()
        self.model = self.model.astype(self.handles[0].dtype)  # Zarr v3 has no byte order in its data types

    @rule(data=st.data(), layout=st.sampled_from(LAYOUTS))
    def delete_and_create(self, data: st.DataObject, layout: str) -> None:
        """Nothing of an array appears in the next one at its path."""
        if self.path:
            group = tegula.open_group(self.place.store, "r+")
            if self.place.faulty and data.draw(st.booleans(), label="is there a fault"):

                def act() -> None:
                    del tegula.open_group(self.place.store, "r+")["a"]

                self.strays |= self.place.meet(act, data.draw(self.place.faults, label="fault")) is not None
                group = tegula.open_group(self.place.store, "r+")
                with suppress(NotFoundError):
                    del group["a"]
            else:
                del group["a"]
                self.strays = False
                assert not [*self.place.store.list_prefix("a/")]
            assert "a" not in group
            if group.format != layout.partition(" ")[0]:
                layout = group.format
        else:
            self.place.leave()
            self.place, self.strays = self.new_place(data.draw(self.place_kinds, label="place")), False
        self.create(data, layout, data.draw(hnp.array_shapes(max_dims=2, max_side=6), label="shape"))

    @rule(data=st.data())
    def save_and_load(self, data: st.DataObject) -> None:
        loaded = tegula.load(self.place.store, path=self.path)
        assert same(loaded, self.model)
        format = self.handles[0].format
        if self.model.dtype.kind != "O":
            tegula.save(self.place.store, loaded, path=self.path, format=format)
            self.enter()
            self.attrs = {}
            self.model = self.model.astype(self.handles[0].dtype)

    # --- invariants

    @invariant()
    def a_fresh_handle_sees_the_model(self) -> None:
        if self.place is None:
            return
        fresh = self.open(self.place.other())
        assert fresh.shape == self.model.shape
        assert same(fresh[...], self.model)
        assert fresh.attrs.asdict() == self.attrs
        for handle in self.handles:
            if handle.shape == self.model.shape:
                assert same(handle[...], self.model)

    @invariant()
    def nothing_else_is_stored(self) -> None:
        if self.place is None:
            return
        fresh = self.open(self.place.other())
        prefix = f"{self.path}/" if self.path else ""
        counts = fresh.metadata.grid.counts(fresh.shape)
        expected = DOCUMENTS | {prefix + name for name in DOCUMENTS}
        expected |= {fresh.stored.key(coords) for coords in np.ndindex(*counts)}
        strays = {*self.place.below.list()} - expected
        assert self.strays or not strays
        self.place.check_files()


def test_arrays(new_place: Any, run_machine: Any) -> None:
    run_machine(lambda: ArrayMachine(new_place), examples=100)
