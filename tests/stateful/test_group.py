"""Groups behave as nested dicts do, and after a fault a hierarchy has nodes of the old or the new state only."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tegula
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, TegulaError
from tegula.testing import Fault

pytestmark = pytest.mark.slow

PATHS = st.lists(st.sampled_from(["a", "b", "é", "a.b", "A"]), min_size=1, max_size=3).map("/".join)
OTHER = {"zarr2": "zarr3", "zarr3": "zarr2"}


class GroupMachine(RuleBasedStateMachine):
    """One hierarchy, two handles on its root, and a dict of paths: a number for an array, ``None`` for a group."""

    def __init__(self, new_place: Any) -> None:
        super().__init__()
        self.new_place = new_place
        self.place: Any = None

    @initialize(data=st.data(), format=st.sampled_from(["zarr2", "zarr3"]))
    def begin(self, data: st.DataObject, format: str) -> None:
        self.place = self.new_place(data.draw(self.kinds, label="place"))
        self.format = format
        self.model: dict[str, int | None] = {}
        self.attrs: dict[str, dict[str, Any]] = {"": {}}
        tegula.create_group(self.place.store, format=format)
        self.enter()

    kinds = st.sampled_from(["memory", "local", "zip", "faulty memory", "faulty local", "faulty zip", "faulty memory"])

    def enter(self) -> None:
        self.roots = [tegula.open_group(self.place.store, "r+") for _ in range(2)]

    def root(self, data: st.DataObject) -> tegula.Group:
        return self.roots[data.draw(st.integers(0, 1), label="handle")]

    def teardown(self) -> None:
        if self.place is not None:
            self.place.leave()

    def has_fault(self, data: st.DataObject) -> bool:
        return self.place.faulty and data.draw(st.integers(0, 2), label="is there a fault") == 0

    def meet(self, data: st.DataObject, act: Any, *, races: bool = True) -> Any:
        faults = self.place.faults if races else self.place.faults.filter(lambda fault: fault.what != "conflict")
        outcome = self.place.meet(act, data.draw(faults, label="fault"))
        if not isinstance(outcome, TegulaError | None):
            self.enter()
        return outcome

    def found(self) -> dict[str, int | None]:
        """The nodes that another process sees now."""
        walked = tegula.open_group(self.place.other()).walk()
        return {
            path: None if isinstance(node, tegula.Group) else int(node[0]) if node[0] == node[2] else -1
            for path, node in walked
        }

    def below(self, path: str) -> set[str]:
        return {known for known in self.model if known == path or known.startswith(f"{path}/")}

    # --- members

    @rule(data=st.data(), path=PATHS, number=st.none() | st.integers(0, 9), require=st.booleans())
    def create(self, data: st.DataObject, path: str, number: int | None, require: bool) -> None:
        above = ["/".join(path.split("/")[:count]) for count in range(1, path.count("/") + 1)]

        def act(**options: Any) -> None:
            root = self.roots[0]
            if number is None:
                root.create_group(path, **options)
            else:
                root.create_array(path, shape=3, chunks=2, dtype="i4", **options)[...] = number

        if path in self.model or any(self.model.get(parent) is not None for parent in above):
            with pytest.raises(AlreadyExistsError):
                act()
            return
        if require:
            act = (lambda: self.roots[1].require_group(path)) if number is None else act
        new = {**self.model, **dict.fromkeys(p for p in above if p not in self.model), path: number}
        if self.has_fault(data):
            # no other writer acts here, so that a lost race would be a fault
            outcome = self.meet(data, act, races=False)
            found = self.found()
            # the groups above may be there, and the array before its values are
            assert self.model.items() <= {known: found.get(known, "none") for known in found}.items()
            assert all(known in new and (known == path or value == new[known]) for known, value in found.items())
            assert outcome is not None or found == new
            if path in found:
                assert found[path] in (None, 0, -1, number)
                if number is not None:
                    self.roots[0][path][...] = number
            else:
                act()
        else:
            act()
        self.model = new
        self.attrs |= {known: {} for known in new if known not in self.attrs}

    @rule(data=st.data(), path=PATHS)
    def delete(self, data: st.DataObject, path: str) -> None:
        if path not in self.model:
            with pytest.raises(NotFoundError):
                del self.root(data)[path]
            return
        gone = self.below(path)
        rest = {known: value for known, value in self.model.items() if known not in gone}
        if self.has_fault(data):
            self.meet(data, lambda: self.roots[0].__delitem__(path))
            found = self.found()
            assert rest.items() <= found.items()
            assert found.keys() <= self.model.keys()
            try:
                del self.roots[0][path]
            except NotFoundError:  # its own documents are already deleted; the keys left below belong to no node
                self.place.store.delete_prefix(f"{path}/")
        else:
            del self.root(data)[path]
        assert not [*self.place.below.list_prefix(f"{path}/")]
        self.model = rest
        self.attrs = {known: attrs for known, attrs in self.attrs.items() if known not in gone}

    @rule(data=st.data(), path=PATHS)
    def look(self, data: st.DataObject, path: str) -> None:
        root = self.root(data)
        assert (path in root) is (path in self.model)
        if path not in self.model:
            with pytest.raises(NotFoundError):
                root[path]
            return
        node = root[path]
        assert (node.path, node.name, node.format) == (path, path.rpartition("/")[2], self.format)
        if self.model[path] is None:
            assert node.attrs.asdict() == self.attrs[path]
            direct = sorted(p[len(path) + 1 :] for p in self.below(path) - {path} if "/" not in p[len(path) + 1 :])
            assert sorted(node) == direct
            assert root.require_group(path) == node
            with pytest.raises(AlreadyExistsError):
                root.require_array(path, shape=3, dtype="i4")
        else:
            assert root.require_array(path, shape=3, dtype="i4") == node
            for shape, dtype in ((4, "i4"), (3, "f4")):
                with pytest.raises(AlreadyExistsError):
                    root.require_array(path, shape=shape, dtype=dtype)

    @rule(path=PATHS)
    def refuse_another_format(self, path: str) -> None:
        """A group has members of its own format only."""
        if path not in self.model:
            with pytest.raises((MetadataError, AlreadyExistsError)):
                tegula.create_array(self.place.store, path=path, shape=2, dtype="u1", format=OTHER[self.format])

    @precondition(lambda self: any(value is None for value in self.model.values()))
    @rule(data=st.data())
    def be_implicit(self, data: st.DataObject) -> None:
        """A group that has lost its documents exists as long as there are nodes directly below it."""
        path = data.draw(st.sampled_from(sorted(p for p, value in self.model.items() if value is None)))
        children = [p for p in self.below(path) if p.rpartition("/")[0] == path]
        before = {}
        for name in ("zarr.json", ".zgroup", ".zattrs"):
            before[name] = self.place.store.get(f"{path}/{name}")
            self.place.store.delete(f"{path}/{name}")
        assert (path in self.root(data)) is bool(children)
        if children:
            group = self.root(data)[path]
            assert isinstance(group, tegula.Group)
            assert sorted(group) == sorted(p.rpartition("/")[2] for p in children)
        assert path not in self.found()
        for name, value in before.items():
            if value is not None:
                self.place.store.set(f"{path}/{name}", value)

    # --- attributes

    @rule(data=st.data(), name=st.sampled_from("xy"), value=st.integers(0, 9))
    def set_attribute(self, data: st.DataObject, name: str, value: int) -> None:
        path = data.draw(st.sampled_from(sorted(self.attrs)), label="path")

        def act() -> None:
            (self.roots[0][path] if path else self.roots[0]).attrs[name] = value

        new = {**self.attrs[path], name: value}
        if self.has_fault(data):
            outcome = self.meet(data, act)
            root = tegula.open_group(self.place.other())
            found = (root[path] if path else root).attrs.asdict()
            assert found in ((self.attrs[path], new) if outcome else (new,))
        act()
        self.attrs[path] = new

    @precondition(lambda self: self.place.faulty)
    @rule(data=st.data(), path=PATHS)
    def set_attributes_at_once(self, data: st.DataObject, path: str) -> None:
        path = data.draw(st.sampled_from(sorted(self.attrs)), label="path")
        mine, other = ((root[path] if path else root) for root in self.roots)
        skip = data.draw(st.integers(0, 4))
        self.place.store.arm(Fault(lambda *_: other.attrs.update(q=1), skip=skip, done=data.draw(st.booleans())))
        mine.attrs["p"] = 2
        struck = self.place.store.struck
        self.place.store.arm()
        self.attrs[path] = {**self.attrs[path], "p": 2, **({"q": 1} if struck else {})}

    # --- the whole hierarchy

    @rule(data=st.data())
    def consolidate(self, data: st.DataObject) -> None:
        if self.has_fault(data):
            with warnings.catch_warnings():  # a document that is cut off is a damaged one, which is left out
                warnings.simplefilter("ignore")
                self.meet(data, self.roots[0].consolidate)
            assert self.found() == self.model
        self.roots[0].consolidate()
        known = tegula.open_group(self.place.store, consolidated=True)
        assert sorted(path for path, _ in known.walk()) == sorted(self.model)
        for path, attrs in self.attrs.items():
            assert (known[path] if path else known).attrs.asdict() == attrs

    @rule(data=st.data(), format=st.sampled_from(["zarr2", "zarr3"]))
    def convert(self, data: st.DataObject, format: str) -> None:
        place = self.new_place(data.draw(self.kinds, label="place"))

        def act() -> None:
            tegula.convert(self.place.store, place.store, format=format, overwrite=True)

        if place.faulty:
            place.meet(act, data.draw(place.faults, label="fault"))
        act()
        self.place.leave()
        self.place, self.format = place, format
        self.enter()

    @rule()
    def reopen(self) -> None:
        self.place.reopen()
        self.enter()

    @invariant()
    def others_see_the_model(self) -> None:
        if self.place is None:
            return
        assert self.found() == self.model
        root = tegula.open_group(self.place.other())
        assert len(str(root.tree()).splitlines()) == 1 + len(self.model)
        for path, attrs in self.attrs.items():
            assert (root[path] if path else root).attrs.asdict() == attrs
        for path, number in self.model.items():
            if number is not None:
                np.testing.assert_array_equal(root[path][...], number)
        self.place.check_files()


def test_groups(new_place: Any, run_machine: Any) -> None:
    run_machine(lambda: GroupMachine(new_place), examples=60)
