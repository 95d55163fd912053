"""A pyramid under way: its plan, its levels one after the other, and its group at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final

from tegula.arrays.array import Array
from tegula.arrays.creation import new_array_of, new_group
from tegula.engine.nodes.creating import check_path, check_reserved, check_vacant, create_parents
from tegula.engine.nodes.deleting import clear_place, occupant, remove_incomplete
from tegula.engine.nodes.replacing import Replacement, put_in_place
from tegula.errors import AlreadyExistsError, NotFoundError
from tegula.formats import find_format
from tegula.hierarchy.group import Group, open_node
from tegula.hierarchy.sources import Source, source_of
from tegula.jobs.downsampling.arguments import is_level
from tegula.jobs.downsampling.levels import Reducing, level_grid
from tegula.jobs.downsampling.outline import Level, PyramidOutline
from tegula.jobs.ledger import DIRECTORY, Ledger, is_ledger_key
from tegula.jobs.plans import Plan
from tegula.jobs.publishing import Place, publish
from tegula.jobs.recording import Recording, claimed
from tegula.jobs.rewriting.hierarchy import Job
from tegula.jobs.rewriting.planning import is_taken
from tegula.jobs.runners.runner import Runner
from tegula.jobs.running import do_units
from tegula.targets.paths import location_of

__all__ = ["PyramidJob"]

_KEY: Final = "ome"
_ZARR3: Final = find_format("zarr3")
_PAUSE: Final = 0.25  # seconds between the first checks of what other parts have done
_LONGEST_PAUSE: Final = 15.0


class PyramidJob(PyramidOutline):
    """A pyramid under way.

    The units of the first array that is written are divided among the parts of the job by their numbers. Each further
    level needs the whole level before it, so its units are divided among the parts that run when that is complete. A
    part waits as long as others with units left are running, and ends if they are not.

    What is replaced, a group or the levels of an old pyramid, stays until everything is computed: `_made` says where
    the new nodes are meanwhile.

    For parameters see `PyramidOutline`.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._created: list[str] = []
        self._ledger: Ledger | None = None
        self._source: Source

    # --- the target

    def check(self) -> None:
        """Refuse a target that is not free."""
        check_path(self._path, _ZARR3)
        check_reserved(self._path, _ZARR3, self._store)
        if "" in self._made:
            return
        if self.is_copied:
            keys = self._store.list_prefix(f"{self._path}/".lstrip("/"))
            if self._store.listable and all(map(is_ledger_key, keys)):
                return  # nothing but the claim
            if is_taken(self._store, self._path):
                raise AlreadyExistsError(
                    "something already exists at this path; pass overwrite=True to replace it",
                    path=location_of(self._store, self._path),
                )
            check_vacant(self._store, self._place("s0"), _ZARR3, self.base.metadata)
        elif not self._made and (group := self._group()) is not None and _KEY in group.attrs:
            raise AlreadyExistsError("the group has a pyramid; pass overwrite=True to replace it", path=group.location)
        for level in (each for each in self.levels if each.name not in self._made):
            check_vacant(self._store, self._place(level.name), _ZARR3, level.metadata)

    def clear(self) -> None:
        """Delete what is left at the target of nodes that are not complete."""
        if self.is_copied:
            clear_place(self._store, self._path)
        for name in ["s0"] * self.is_copied + [level.name for level in self.levels]:
            remove_incomplete(self._store, self._place(name))

    def has_old(self) -> bool:
        """Return whether there is something that has to stay until the pyramid is complete."""
        if self.is_copied:
            return occupant(self._store, self._path) in ("node", "members")
        group = self._group()
        levels = (occupant(self._store, self._place(level.name)) for level in self.levels)
        return (group is not None and _KEY in group.attrs) or any(there in ("node", "members") for there in levels)

    # --- the work

    def at_once(self, runner: Runner, metadata: dict[str, Any], overwrite: bool) -> None:
        """Write the pyramid without a ledger; after an error, what was created is deleted."""
        with claimed(self._store, self._path, overwrite=overwrite), ExitStack() as stack:
            places = []
            for name in ([""] if self.is_copied else [level.name for level in self.levels]) if overwrite else []:
                place = Replacement(self._store, self._place(name), _ZARR3, True, "lazy")
                stack.callback(place.close)
                if place.is_staged:
                    places.append(place)
                    self._made[name] = place.store, place.path
            if overwrite and not places:
                self.clear()
            self.check()
            try:
                self._write(runner, None, metadata)
                self._put([place.put for place in places], metadata)
            except BaseException:  # Ctrl-C, too
                for name in reversed(self._created):
                    remove_incomplete(self._store, name, chunks=name != self._path)
                raise

    def recorded(self, runner: Runner, metadata: dict[str, Any], overwrite: bool, recording: Recording) -> int:
        """Write the pyramid with a ledger; return the number of units that are left to other parts."""
        exists, whole = partial(is_taken, self._store, self._path), recording.ledger

        def check() -> None:
            if whole.replaces:
                create_parents(self._store, self._path, _ZARR3)
            else:
                self.check()

        with recording.under_way(
            overwrite=overwrite,
            check=check,
            clear=self.clear,
            is_taken=exists,
            is_replaced=self.has_old,
        ) as ledger:
            if ledger is None:
                return 0
            self._ledger = ledger
            names = ([""] if self.is_copied else [level.name for level in self.levels]) if ledger.replaces else []
            self._made = {name: (self._store, f"{ledger.made}/{name}".rstrip("/")) for name in names}
            left = self._write(runner, recording.plan, metadata)
            if not left:
                places = [(self._place(name), self._made[name][1]) for name in names]
                puts = [partial(put_in_place, self._store, *place, keep=self._place(DIRECTORY)) for place in places]
                recording.finish(put=None if self.is_copied else partial(self._put, puts, metadata))
            elif recording.is_over():
                left = 0
        return left

    def _put(self, puts: Sequence[Callable[[], object]], metadata: dict[str, Any]) -> None:
        """Put in place what was made elsewhere; between the levels of two pyramids, the group has none."""
        if self.is_copied:
            for put in puts:
                put()
            return
        if puts:
            group, names = self._group(), {level.name for level in self.levels}
            if group is not None and (found := group.attrs.get(_KEY)) is not None:
                for name in {*_old_levels(found)} - names:
                    if not f"{self.first}/".startswith(f"{name}/"):
                        clear_place(self._store, self._place(name))
                        remove_incomplete(self._store, self._place(name))
                del group.attrs[_KEY]  # last, since it lists the levels
            for put in puts:
                put()
        self._made.clear()
        self._finish(metadata)

    def _write(self, runner: Runner, plan: Plan | None, metadata: dict[str, Any]) -> int:
        """Write the levels, then the group; return the number of units that are left to other parts."""
        # groups above; the group itself comes last
        if "" not in self._made:
            create_parents(self._store, self._path, _ZARR3)
        if self._run.visible_early and self._group() is None:
            self._new_group({})
            self._note("")
        # the first level
        left, before = 0, self.array
        self._source = source_of(self.array, changed=None if self._ledger is None else self._ledger.spoil)
        if self.is_copied and not (left := self._copy(runner)):
            before = self._opened("s0")
        # the others, each from the one before
        for level in self.levels if not left else ():
            done = self._compute(runner, plan, level, before, is_first=before is self.array)
            if isinstance(done, int):
                left = done
                break
            before = done
        if left:
            ledger = self._ledger
            assert plan is not None
            assert ledger is not None
            return sum(ledger.left_of(piece.first, piece.stop) for piece in plan.pieces.values())
        self._source.check()
        if self.is_copied:
            self._finish(metadata)
        return 0

    def _copy(self, runner: Runner) -> int:
        """Convert the array to the first level; return the number of units left to parts that are not running."""
        plan = None if self._ledger is None else self._copy_plan
        path = self._note("s0")

        def done() -> Counter[int]:
            copying = self._copying(runner=runner, ledger=self._ledger, plan=plan, in_group=True)
            try:
                Job(copying).run(self.array)
            except AlreadyExistsError:  # another process has created a node here, which stays
                self._forget(path)
                raise
            return copying.left_to

        return self._until_done(done)

    def _compute(
        self, runner: Runner, plan: Plan | None, level: Level, before: Array, *, is_first: bool
    ) -> Array | int:
        """Compute a level, and return it; or the number of units that are left to parts that are not running."""
        draft = level.draft
        factors, memory = self._reduction.factors, self._run.max_memory
        self._note(level.name)
        store, path = self._where(level.name)
        early = self._published(level) if self._run.visible_early else None
        documents = {**level.metadata.documents}
        made = Place(store, path, documents, _ZARR3.name, self._allowed, self._run.visible_early)
        limits = {} if memory is None else {"buffer_bytes": max(1, memory // 2)}
        if plan is None:
            plan = Plan("downsample", {}, "", "")
            plan.add(level.name, draft.shape, level_grid(before, draft, factors, memory), {})
        piece = plan.pieces[level.name]

        def done(ledger: Ledger | None) -> Counter[int]:
            work = Reducing(level.name, before, made, self._reduction, self._most(before, draft), ledger, limits)
            stored = partial(work.stored, piece.grid)
            _, left = do_units(runner, work, piece, stored, lambda number: self._report(level, number))
            if ledger is not None and not left:
                ledger.complete(piece.first, piece.stop)
            return left

        if is_first:
            with self._source:  # what is missing in another node would count as fill values
                left = self._until_done(lambda: done(self._ledger))
        elif self._ledger is None:
            left = self._until_done(lambda: done(None))
        else:
            left = self._shared(self._ledger, done)
        if left:
            return left
        before.stored.check_exists()  # the chunks of a deleted array would count as absent
        self._report(level, draft.size)
        return self._published(level) if early is None else early

    def _published(self, level: Level) -> Array:
        """Write the documents of a level; with a ledger, they may have been written before an interruption."""
        store, path = self._where(level.name)
        if self._ledger is not None:
            return publish(store, path, _ZARR3, level.metadata, self._allowed, has_parent=True)
        created: dict[str, Any] = {"has_parent": True, "has_chunks": not self._run.visible_early, **self._allowed}
        try:
            return new_array_of(store, path, _ZARR3, level.metadata, False, **created)
        except AlreadyExistsError:  # another process has created a node here, which stays
            self._forget(path)
            raise

    def _until_done(self, done: Callable[[], Counter[int]]) -> int:
        """Do the units of this part, and wait for running parts that have units left."""
        pause = _PAUSE
        while left := done():
            ledger = self._ledger
            assert ledger is not None
            if {*left}.isdisjoint({*ledger.living_parts()} - {ledger.part[0]}):
                return left.total()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return 0

    def _shared(self, ledger: Ledger, done: Callable[[Ledger], Counter[int]]) -> int:
        """Divide the units among the running parts; if one stops before its units are done, the others do them."""
        pause = _PAUSE
        while left := done(ledger.among_living()):
            if not ledger.is_kept:  # another part has completed the target, or the job was removed
                return left.total()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        ledger.read()
        return 0

    def _finish(self, metadata: dict[str, Any]) -> None:
        """Write the metadata of the pyramid; consolidate again if the group had consolidated metadata."""
        if self.is_copied and not self._run.visible_early:
            with suppress(AlreadyExistsError):  # another part may have written the same
                self._new_group({_KEY: metadata})
                self._created.clear()
                return
        group = self._group()
        if group is None:
            self._new_group({})
            group = self._group()
        if group is None:
            raise NotFoundError("the group has been deleted", path=location_of(self._store, self._path))
        group.attrs[_KEY] = metadata
        self._created.clear()
        if group.is_consolidated():
            group.consolidate()

    # --- small parts

    def _report(self, level: Level, number: int) -> None:
        if self._run.progress is not None:
            self._run.progress(level.name, number * level.draft.itemsize, level.draft.nbytes)

    def _note(self, name: str) -> str:
        """Note that a node is about to be created, to be deleted after an error; return its path."""
        path = self._place(name)
        if self._where(name) == (self._store, path):
            self._created.append(path)
        return path

    def _forget(self, path: str) -> None:
        with suppress(ValueError):
            self._created.remove(path)

    def _new_group(self, attributes: dict[str, Any]) -> None:
        new_group(*self._where(""), attributes=attributes, format="zarr3", has_parent="" in self._made)

    def _group(self) -> Group | None:
        """Return the group, if it has documents."""
        found = open_node(*self._where(""), "zarr3", read_only=False)
        return found if isinstance(found, Group) and found.metadata.documents else None

    def _opened(self, name: str) -> Array:
        found = open_node(*self._where(name), None, read_only=False)
        if not isinstance(found, Array):
            raise NotFoundError("the array has been deleted", path=location_of(self._store, self._place(name)))
        return found


def _old_levels(metadata: Any) -> Iterator[str]:
    """Yield the names of levels, ``s1`` and so on, that the metadata of an old pyramid lists."""
    with suppress(TypeError, KeyError, AttributeError):
        for pyramid in metadata["multiscales"]:
            yield from (item["path"] for item in pyramid["datasets"] if is_level(item["path"]))
