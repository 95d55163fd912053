"""The outline of a pyramid: which arrays it will have, the plan of its units, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, Final

from tegula import engine
from tegula.arrays.array import Array
from tegula.engine.nodes.creating import read_back
from tegula.errors import AlreadyExistsError, MetadataError, UnsupportedError
from tegula.formats import find_format
from tegula.jobs.downsampling.arguments import other_variables
from tegula.jobs.downsampling.levels import (
    Reduction,
    check_amount,
    level_grid,
    level_metadata,
    longest_chunk,
    piece_nbytes,
    shapes_of,
    share_of_memory,
)
from tegula.jobs.ledger import Ledger
from tegula.jobs.plans import Plan, digest, fingerprint_of
from tegula.jobs.recording import Recording
from tegula.jobs.rewriting.array_job import ArrayJob, Run, label_of
from tegula.jobs.rewriting.estimating import Estimate
from tegula.jobs.rewriting.hierarchy import Job
from tegula.jobs.rewriting.planning import Conversion, is_taken
from tegula.jobs.rewriting.report import ConvertReport
from tegula.jobs.rewriting.rules import match_rules
from tegula.jobs.rewriting.targets import Layout
from tegula.metadata.nodes import ArrayMetadata
from tegula.stores import Store
from tegula.targets.paths import location_of, name_below, refuse_overlap

__all__ = ["Level", "PyramidOutline"]

_ZARR3: Final = find_format("zarr3")


@dataclass(frozen=True, slots=True)
class Level:
    """A level to compute: its name, its metadata with the documents, and the array that it will be."""

    name: str
    metadata: ArrayMetadata
    draft: Array


class PyramidOutline:
    """A pyramid that is about to be written.

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
    layout : Layout
        What the first level is to be like, if that is a copy.
    run : Run
        How the arrays are made.
    """

    def __init__(
        self,
        array: Array,
        store: Store,
        path: str,
        names: tuple[str, ...],
        reduction: Reduction,
        levels: int | None,
        layout: Layout,
        run: Run,
    ) -> None:
        own = name_below(array.store, array.path, store, path)
        if own is None:
            refuse_overlap(array.store, array.path, store, path)
        self.array, self.first, self.is_copied = array, own or "s0", own is None
        self._store, self._path, self._reduction, self._layout, self._run = store, path, reduction, layout, run
        self._made: dict[str, tuple[Store, str]] = {}
        # what the arrays will be
        if self.is_copied:
            match_rules(layout.rules, [(label_of(array, ""), array)])
        else:
            self._check_array(names)
        copied = self._copying().prepared(array, "").draft if self.is_copied else array
        self.base = copied
        self.levels = []
        shapes = shapes_of(copied.shape, longest_chunk(copied), reduction.factors, levels)
        for number, shape in enumerate(shapes[1:], 1):
            name = f"s{number}"
            if f"{self.first}/".startswith(f"{name}/"):
                raise AlreadyExistsError(
                    "the array itself has the name of a level: pass a target", path=self._place(name)
                )
            path = self._place(name)
            metadata = read_back(_ZARR3, level_metadata(copied, shape), path)
            stored = engine.stored_array(store, path, metadata, **self._allowed)
            self.levels.append(Level(name, metadata, Array(stored, path, read_only=True)))
        for before, level in zip([copied, *(each.draft for each in self.levels)], self.levels):
            check_amount(before, level.draft, reduction)

    def _check_array(self, names: tuple[str, ...]) -> None:
        """Check that an array that stays in its place meets the demands of OME-Zarr."""
        if any(rules.values for rules in self._layout.rules):
            raise MetadataError("an array that stays where it is keeps its chunks, shards and codecs; pass a target")
        if self.array.metadata.format != "zarr3":
            raise UnsupportedError(
                f"OME-Zarr 0.5 is Zarr v3, not {self.array.metadata.format}: pass a target", path=self.array.location
            )
        if self.array.dimension_names != names:
            raise MetadataError(
                f"OME-Zarr 0.5 demands the names {names} for the dimensions, and the array has "
                f"{self.array.dimension_names}: pass a target, where a copy gets them",
                path=self.array.location,
            )
        if others := other_variables(self._store, self._path, self.first):
            listed = f"{', '.join(others[:3])}{', …' * (len(others) > 3)}"
            raise MetadataError(
                f"the group holds other variables ({listed}), and levels beside them would have other lengths of the "
                "same dimensions, so that it would be no data set: name a group of its own for the pyramid, such as "
                f"{self._place(self.array.name or self.first)}_pyramid",
                path=location_of(self._store, self._path),
            )

    def plan(self, said: Mapping[str, Any]) -> Plan:
        """Return the plan, with the user's options as text."""
        plan = Plan("downsample", dict(said), self.array.location, location_of(self._store, self._path))
        source: dict[str, Any] = fingerprint_of(self.array)
        if self.is_copied:
            copying = Conversion(self.array, None, self._store, self._place("s0"), self._layout, self._run)
            self._copy_plan = copying.plan()
            for name, piece in self._copy_plan.pieces.items():
                plan.add(f"s0/{name}".strip("/"), piece.shape, piece.grid, {**piece.source}, piece.target, piece.chunks)
            plan.groups[""] = {}  # whose documents this job writes
            source = {}
        before = self.base
        for level in self.levels:
            facts = sorted(level.draft.metadata.documents.items()), self._reduction
            grid = level_grid(before, level.draft, self._reduction.factors, self._run.max_memory)
            plan.add(level.name, level.draft.shape, grid, source, digest(repr(facts).encode()))
            before, source = level.draft, {}
        return plan

    def outlined(self, said: Mapping[str, Any], ledger: Ledger | None, overwrite: bool) -> Estimate:
        """Estimate what the pyramid takes; with a ledger, what is left to do of a job that would be resumed."""
        plan = self.plan(said)
        if ledger is None:
            return self._estimate(plan, None)
        exists = partial(is_taken, self._store, self._path)
        outlook = Recording(ledger, plan, resumes=True).outlook(overwrite=overwrite, is_taken=exists)
        if outlook == "is complete":
            return Estimate()
        return self._estimate(plan, ledger if outlook == "resumes" else None)

    def _estimate(self, plan: Plan, ledger: Ledger | None) -> Estimate:
        total = Estimate()
        if self.is_copied:
            total = Job(self._copying(dry_run=True, progress=None)).run(self.array).estimate
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

    def _copying(self, **changes: Any) -> ArrayJob:
        """Return the conversion of the array to the first level; `changes` are made to how that is done."""
        run = replace(self._run, **changes)
        if (progress := run.progress) is not None:
            run = replace(run, progress=lambda _, done, total: progress("s0", done, total))
        return ArrayJob(*self._where("s0"), self._layout, run, ConvertReport("zarr3"))

    @property
    def _allowed(self) -> dict[str, Any]:
        return {"allow_pickle": self.array.allow_pickle}

    def _most(self, before: Array, level: Array) -> int:
        return share_of_memory(before, level, self._reduction.factors, self._run.max_memory)

    def _place(self, name: str) -> str:
        return f"{self._path}/{name}".strip("/")

    def _where(self, name: str) -> tuple[Store, str]:
        """Return store and path where an array, or with an empty name the group, is made; see `PyramidJob`."""
        for above in (name, ""):
            if above in self._made:
                store, path = self._made[above]
                return store, path if above == name else f"{path}/{name}".lstrip("/")
        return self._store, self._place(name)


def _values_of(array: Array) -> int:
    """Return the number of shards of an array, or of chunks if it has no shards."""
    return array.nchunks if array.nshards is None else array.nshards
