"""A pyramid under way: its plan, its levels one after the other, and its group at the end."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import prod
from typing import Any, Final

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.creation import new_group
from tegula.engine.creating import check_path, check_reserved, check_vacant, create_parents, read_back
from tegula.engine.deleting import clear_place, remove_incomplete
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, UnsupportedError
from tegula.formats import find_format
from tegula.hierarchy.group import Group, open_node
from tegula.jobs.converting.array_job import Conduct, label_of
from tegula.jobs.converting.estimating import Estimate
from tegula.jobs.converting.job import Job
from tegula.jobs.converting.ledgers import is_taken, plan_of
from tegula.jobs.converting.report import ConvertReport
from tegula.jobs.converting.rules import match_rules
from tegula.jobs.converting.targets import Options
from tegula.jobs.downsampling.levels import (
    Reducing,
    Reduction,
    check_amount,
    level_grid,
    level_metadata,
    longest_chunk,
    piece_nbytes,
    shapes_of,
    share_of_memory,
)
from tegula.jobs.ledger import Ledger, claimed, is_ledger_key
from tegula.jobs.plans import Plan, digest, fingerprint_of
from tegula.jobs.publishing import place_for, publish
from tegula.jobs.recording import Recording
from tegula.jobs.runners.runner import Runner
from tegula.jobs.running import do_units
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store
from tegula.targets.paths import name_below, place, refuse_overlap

__all__ = ["PyramidJob"]

_KEY: Final = "ome"
_ZARR3: Final = find_format("zarr3")
_PAUSE: Final = 0.25  # seconds between looks at what other parts have done, at first
_LONGEST_PAUSE: Final = 15.0


@dataclass(frozen=True, slots=True)
class Level:
    """A level to compute: its name, its metadata, and the array that it will be."""

    name: str
    metadata: ArrayMetadata
    draft: Array


class PyramidJob:
    """A pyramid under way.

    The units of the first array that is written belong to the parts of the job by their numbers. Each further level
    needs the one before as a whole: its units are shared by the parts that run when that is complete. A part waits for
    others that run and have units left; it ends if they do not run.

    Parameters
    ----------
    array : Array
        The array; it may lie in the group.
    store, path : Store, str
        The group.
    names : tuple of str
        Names of the dimensions.
    reduction : Reduction
        How each level is computed from the one before.
    levels : int, optional
        How many levels to compute.
    options : Options
        Those of the conversion to the first level, where it is a copy.
    visible_early : bool
        Whether arrays can be seen before they are complete.
    """

    def __init__(
        self,
        array: Array,
        store: Store,
        path: str,
        names: tuple[str, ...],
        reduction: Reduction,
        levels: int | None,
        options: Options,
        visible_early: bool = False,
    ) -> None:
        own = name_below(array.store, array.path, store, path)
        if own is None:
            refuse_overlap(array.store, array.path, store, path)
        self.array, self.first, self.is_copied = array, own or "s0", own is None
        self._store, self._path, self._reduction, self._options = store, path, reduction, options
        self._visible_early = visible_early
        self._created: list[str] = []
        self._ledger: Ledger | None = None
        # what the arrays will be
        if self.is_copied:
            match_rules(options.rules, [(label_of(array, ""), array)])
        else:
            self._check_array(names)
        copied = self._copying(Conduct())._prepared(array, "", None).draft if self.is_copied else array
        self.base = copied
        self.levels = []
        shapes = shapes_of(copied.shape, longest_chunk(copied), reduction.factors, levels)
        for number, shape in enumerate(shapes[1:], 1):
            name = f"s{number}"
            if f"{self.first}/".startswith(f"{name}/"):
                raise AlreadyExistsError(
                    "the array itself has the name of a level: pass a target", path=self._place(name)
                )
            metadata = level_metadata(copied, shape)
            path = self._place(name)
            stored = engine.stored_array(store, path, read_back(_ZARR3, metadata, path), **self._allowed)
            self.levels.append(Level(name, metadata, Array(stored, path, read_only=True)))
        for before, level in zip([copied, *(each.draft for each in self.levels)], self.levels):
            check_amount(before, level.draft, reduction)

    def _check_array(self, names: tuple[str, ...]) -> None:
        """Check that an array which stays where it is is what OME-Zarr demands."""
        options = self._options
        if any(rules.values for rules in (options.chunks, options.shards, options.codecs)):
            raise MetadataError("an array that stays where it is keeps its chunks, shards and codecs; pass a target")
        if self.array.metadata.format != "zarr3":
            raise UnsupportedError(
                f"OME-Zarr 0.5 is Zarr v3, not {self.array.metadata.format}: pass a target", path=self.array._place
            )
        if self.array.dimension_names != names:
            raise MetadataError(
                f"OME-Zarr 0.5 demands the names {names} for the dimensions, and the array has "
                f"{self.array.dimension_names}: pass a target, where a copy gets them",
                path=self.array._place,
            )

    # --- the plan

    def plan(self, said: Mapping[str, Any]) -> Plan:
        """Return the plan, with the options of the user in words."""
        plan = Plan("downsample", dict(said), self.array._place, place(self._store, self._path))
        source: dict[str, Any] = fingerprint_of(self.array)
        if self.is_copied:
            self._copy_plan = plan_of(self.array, None, self._store, self._place("s0"), self._options, {})
            for name, piece in self._copy_plan.pieces.items():
                plan.add(f"s0/{name}".strip("/"), piece.shape, piece.grid, {**piece.source}, piece.target, piece.chunks)
            plan.groups[""] = {}  # whose documents this job writes
            source = {}
        before = self.base
        for level in self.levels:
            facts = sorted(level.draft.metadata.documents.items()), self._reduction
            grid = level_grid(before, level.draft, self._reduction.factors, self._options.max_memory)
            plan.add(level.name, level.draft.shape, grid, source, digest(repr(facts).encode()))
            before, source = level.draft, {}
        return plan

    def outlined(self, said: Mapping[str, Any], ledger: Ledger | None) -> Estimate:
        """Estimate what the pyramid takes; with a ledger, what is left to do of a job that would go on."""
        plan = self.plan(said)
        if ledger is None:
            return self._estimate(plan, None)
        stored = ledger.plan()
        if stored is not None and not ledger.is_done:
            plan.check_same(stored)
            ledger.read()
            return self._estimate(plan, ledger)
        exists = partial(is_taken, self._store, self._path)
        is_complete = Recording(ledger, plan, goes_on=True).completed(exists) is not None
        return Estimate() if is_complete else self._estimate(plan, None)

    def _estimate(self, plan: Plan, ledger: Ledger | None) -> Estimate:
        total = Estimate()
        if self.is_copied:
            outline = self._copying(Conduct(), replace(self._options, dry_run=True, progress=None))
            total = outline.run(self.array).estimate
            total = total if ledger is None else total.left(ledger, plan, "s0")
        before = self.base
        for level in self.levels:
            piece, draft = plan.pieces[level.name], level.draft
            box = prod(min(length, max(1, size)) for length, size in zip(piece.grid.largest_chunk(), draft.shape))
            nbytes, requests = box * draft.itemsize, _values_of(before) + _values_of(draft)
            factors = self._reduction.factors
            read = max(self._most(before, draft), piece_nbytes(before, draft, factors))
            read = min(read, nbytes * prod(factors))
            found = Estimate(piece.stop - piece.first, before.nbytes, draft.nbytes, requests, nbytes + read)
            total = total.merge(found if ledger is None else found.left(ledger, plan, level.name))
            before = draft
        return total

    # --- the target

    def check(self) -> None:
        """Refuse a target that is not free."""
        check_path(self._path, _ZARR3)
        check_reserved(self._path, _ZARR3, self._store)
        if self.is_copied:
            keys = self._store.list_prefix(f"{self._path}/".lstrip("/"))
            if self._store.listable and all(map(is_ledger_key, islice(keys, 2))):
                return  # nothing but the claim
            if is_taken(self._store, self._path):
                raise AlreadyExistsError(
                    "something already exists at this path; pass overwrite=True to replace it",
                    path=place(self._store, self._path),
                )
            check_vacant(self._store, self._place("s0"), _ZARR3, self.base.metadata)
        elif (group := self._group()) is not None and _KEY in group.attrs:
            raise AlreadyExistsError("the group has a pyramid; pass overwrite=True to replace it", path=group._place)
        for level in self.levels:
            check_vacant(self._store, self._place(level.name), _ZARR3, level.metadata)

    def clear(self) -> None:
        """Delete what exists at the target: the group, or in the group that holds the array the old levels."""
        names = ["s0"] * self.is_copied + [level.name for level in self.levels]
        if self.is_copied:
            clear_place(self._store, self._path)
        elif (group := self._group()) is not None and (found := group.attrs.get(_KEY)) is not None:
            del group.attrs[_KEY]
            names += _old_levels(found)
        for name in names:
            if self.is_copied or not f"{self.first}/".startswith(f"{name}/"):
                clear_place(self._store, self._place(name))
                remove_incomplete(self._store, self._place(name))

    # --- the work

    def at_once(self, runner: Runner, metadata: dict[str, Any], overwrite: bool) -> None:
        """Write the pyramid without a ledger; after an error, what was created is deleted."""
        with claimed(self._store, self._path):
            if overwrite:
                self.clear()
            self.check()
            try:
                self._write(runner, None, metadata)
            except BaseException:  # Ctrl-C, too
                for name in reversed(self._created):
                    remove_incomplete(self._store, name, chunks=name != self._path)
                raise

    def recorded(self, runner: Runner, metadata: dict[str, Any], overwrite: bool, recording: Recording) -> int:
        """Write the pyramid with a ledger; return the number of units that are left to other parts."""
        exists = partial(is_taken, self._store, self._path)
        done = recording.prepare(overwrite=overwrite, check=self.check, clear=self.clear, is_taken=exists)
        if done is not None:
            return 0
        with recording.under_way() as ledger:
            self._ledger = ledger
            left = self._write(runner, recording.plan, metadata)
            if not left:
                recording.finish()
            elif ledger.plan() is None:  # another part has completed the target since
                ledger.remove()
                left = 0
        return left

    def _write(self, runner: Runner, plan: Plan | None, metadata: dict[str, Any]) -> int:
        """Write the levels, then the group; return the number of units that are left to other parts."""
        # groups above; the group itself comes last
        create_parents(self._store, self._path, _ZARR3)
        if self._visible_early and self._group() is None:
            self._new_group({})
            self._created.append(self._path)
        # the first level
        left, before = 0, self.array
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
        self._finish(metadata)
        return 0

    def _copying(self, conduct: Conduct, options: Options | None = None) -> Job:
        """Return the conversion of the array to the first level."""
        options, where = self._options if options is None else options, (self._store, self._place("s0"))
        progress = options.progress
        if progress is not None:
            options = replace(options, progress=lambda _, done, total: progress("s0", done, total))
        return Job(*where, options, ConvertReport("zarr3"), conduct)

    def _copy(self, runner: Runner) -> int:
        """Convert the array to the first level; return the number of units that are left to parts which do not run."""
        plan = None if self._ledger is None else self._copy_plan
        conduct = Conduct(runner, self._ledger, plan, self._visible_early, in_group=True)
        path = self._place("s0")
        self._created.append(path)

        def done() -> Counter[int]:
            job = self._copying(conduct)
            job.run(self.array)
            return job.left_to

        return self._until_done(done)

    def _compute(
        self, runner: Runner, plan: Plan | None, level: Level, before: Array, *, is_first: bool
    ) -> Array | int:
        """Compute a level, and return it; or the number of units that are left to parts which do not run."""
        path, draft = self._place(level.name), level.draft
        factors, memory = self._reduction.factors, self._options.max_memory
        self._created.append(path)
        final = path, _ZARR3, level.metadata, self._allowed
        if self._visible_early:
            publish(self._store, *final, has_parent=True)
        made = place_for(self._store, *final, visible=self._visible_early)
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

        if self._ledger is None or is_first:
            left = self._until_done(lambda: done(self._ledger))
        else:
            left = self._shared(self._ledger, done)
        if left:
            return left
        before._stored.check_exists()  # chunks of a deleted array are absent, too
        self._report(level, draft.size)
        return publish(self._store, *final, has_parent=True)

    def _until_done(self, done: Callable[[], Counter[int]]) -> int:
        """Do the units of this part, and wait for the other parts that have some left, as long as they run."""
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
        """Share the units with the parts that run; if one ends before it has done its own, others do them."""
        pause = _PAUSE
        while left := done(ledger.among_living()):
            if ledger.plan() is None:  # another part has completed the target since
                return left.total()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        ledger.read()
        return 0

    def _finish(self, metadata: dict[str, Any]) -> None:
        """Write the metadata of the pyramid, and consolidated metadata anew where the group had some."""
        if self.is_copied and not self._visible_early:
            with suppress(AlreadyExistsError):  # another part may have written the same
                self._new_group({_KEY: metadata})
                self._created.clear()
                return
        group = self._group()
        if group is None:
            self._new_group({})
            group = self._group()
        if group is None:
            raise NotFoundError("the group has been deleted", path=place(self._store, self._path))
        group.attrs[_KEY] = metadata
        self._created.clear()
        if group._is_consolidated():
            group.consolidate()

    # --- small parts

    @property
    def _allowed(self) -> dict[str, Any]:
        return {"allow_pickle": self.array._allow_pickle}

    def _most(self, before: Array, level: Array) -> int:
        return share_of_memory(before, level, self._reduction.factors, self._options.max_memory)

    def _report(self, level: Level, number: int) -> None:
        if self._options.progress is not None:
            self._options.progress(level.name, number * level.draft.itemsize, level.draft.nbytes)

    def _new_group(self, attributes: dict[str, Any]) -> None:
        new_group(self._store, self._path, attributes=attributes, format="zarr3")

    def _group(self) -> Group | None:
        """Return the group, if it has documents."""
        found = open_node(self._store, self._path, "zarr3", read_only=False)
        return found if isinstance(found, Group) and found.metadata.documents else None

    def _opened(self, name: str) -> Array:
        found = open_node(self._store, self._place(name), None, read_only=False)
        if not isinstance(found, Array):
            raise NotFoundError("the array has been deleted", path=place(self._store, self._place(name)))
        return found

    def _place(self, name: str) -> str:
        return f"{self._path}/{name}".strip("/")


def _values_of(array: Array) -> int:
    """Return how many values the chunks or shards of an array are."""
    return array.nchunks if array.nshards is None else array.nshards


def _old_levels(metadata: Any) -> Iterator[str]:
    """Yield the names of levels, ``s1`` and so on, that the metadata of an old pyramid lists."""
    with suppress(TypeError, KeyError, AttributeError):
        for pyramid in metadata["multiscales"]:
            yield from (item["path"] for item in pyramid["datasets"] if re.fullmatch("s[1-9][0-9]*", item["path"]))
