"""A pyramid under way: its steps and its plan, its levels one after the other, and its group at the end."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial, reduce
from typing import Any, Final

from tegula.arrays.array import Array
from tegula.arrays.creation import new_array_of, new_group
from tegula.engine.nodes.creating import check_path, check_reserved, check_vacant, create_parents
from tegula.engine.nodes.deleting import clear_place, is_taken, occupant, remove_incomplete
from tegula.engine.nodes.replacing import Replacement, put_in_place
from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, UnsupportedError
from tegula.hierarchy.group import Group
from tegula.hierarchy.nodes import open_node
from tegula.hierarchy.sources import source_of
from tegula.jobs.downsampling.levels import ZARR3, Reducing, Step, steps_of
from tegula.jobs.ledger import DIRECTORY, UNRECORDED, Ledger, Records, is_ledger_key
from tegula.jobs.plans import Piece, Plan, digest, fingerprint_of
from tegula.jobs.publishing import Destination, array_at, publish
from tegula.jobs.recording import Recording, claimed
from tegula.jobs.rewriting.array_job import ArrayJob, Run, label_of
from tegula.jobs.rewriting.estimating import Estimate
from tegula.jobs.rewriting.hierarchy import Job
from tegula.jobs.rewriting.planning import Conversion, refuse_taken
from tegula.jobs.rewriting.report import ConvertReport
from tegula.jobs.rewriting.rules import match_rules
from tegula.jobs.rewriting.targets import Layout
from tegula.jobs.runners.runner import do_units
from tegula.metadata import geo
from tegula.metadata.ome import KEY, level_paths
from tegula.reductions.blocks import Reduction
from tegula.stores import Store
from tegula.stores.targets.paths import location_of, name_below, refuse_overlap

__all__ = ["PyramidJob", "group_at", "other_variables"]

_PAUSE: Final = 0.25  # seconds between the first checks of what other parts have done
_LONGEST_PAUSE: Final = 15.0
_is_level: Final = re.compile("s[1-9][0-9]*").fullmatch

_Puts = Sequence[Callable[[], object]]
"""Functions that put what was made elsewhere in place."""


class PyramidJob:
    """A pyramid that is written, or would be.

    The units of the first array that is written are divided among the parts of the job by their numbers. Each further
    level needs the whole level before it, so its units are divided among the parts that run when that is complete. A
    part waits as long as others with units left are running, and ends if they are not.

    What is replaced, a group or the levels of an old pyramid, stays until everything is computed: `_made` says where
    the new nodes are meanwhile.

    The group is at `store` and `path`. `array` may lie in it; if not, it is copied, as `layout` says.
    """

    _metadata: dict[str, Any]
    _recording: Recording | None = None
    _ledger: Records = UNRECORDED

    def __init__(
        self, array: Array, store: Store, path: str, reduction: Reduction, levels: int | None, layout: Layout, run: Run
    ) -> None:
        own = name_below(array.store, array.path, store, path)
        if own is None:
            refuse_overlap(array.store, array.path, store, path)
        self._array, self.first, self.is_copied = array, own or "s0", own is None
        self._store, self._path, self._reduction, self._layout, self._run = store, path, reduction, layout, run
        self._allowed = {"allow_pickle": array.allow_pickle}
        self._made: dict[str, tuple[Store, str]] = {}
        self._created: list[str] = []  # paths of nodes to delete after an error
        if self.is_copied:
            match_rules(layout.rules, [(label_of(array, ""), array)])
            self.base = self._copying().prepared(array, "").draft
        else:
            self._check_array()
            self.base = array
        self.steps = [*steps_of(self.base, store, path, reduction, levels, run.max_memory)]
        self._levels = [step.name for step in self.steps]
        if (name := self.first.partition("/")[0]) in self._levels:
            raise AlreadyExistsError(
                "the array itself has the name of a level: pass a target", path=self._path_of(name)
            )

    def _check_array(self) -> None:
        """Check that an array that stays in its place meets the demands of OME-Zarr."""
        array, names = self._array, self._layout.names
        if any(rules.values for rules in self._layout.rules):
            raise MetadataError("an array that stays where it is keeps its chunks, shards and codecs; pass a target")
        if array.metadata.format != "zarr3":
            raise UnsupportedError(
                f"OME-Zarr is Zarr v3, not {array.metadata.format}: pass a target", path=array.location
            )
        if array.dimension_names != names:
            raise MetadataError(
                f"OME-Zarr demands the names {names} for the dimensions, and the array has "
                f"{array.dimension_names}: pass a target, where a copy gets them",
                path=array.location,
            )
        if others := other_variables(self._store, self._path, self.first):
            listed = f"{', '.join(others[:3])}{', …' * (len(others) > 3)}"
            raise MetadataError(
                f"the group holds other variables ({listed}), and levels beside them would have other lengths of the "
                "same dimensions, so that it would be no data set: name a group of its own for the pyramid, such as "
                f"{self._path_of(array.name or self.first)}_pyramid",
                path=location_of(self._store, self._path),
            )

    # --- before the work

    def recording(
        self, said: Mapping[str, Any], share: tuple[int, int], *, resumes: bool, overwrite: bool
    ) -> Recording:
        """Return the job with a ledger; `said` has the user's options as text."""
        ledger, taken = Ledger(self._store, self._path, share), partial(is_taken, self._store, self._path)
        return Recording(ledger, self._plan(said), resumes=resumes, overwrite=overwrite, is_taken=taken)

    def _plan(self, said: Mapping[str, Any]) -> Plan:
        plan = Plan("downsample", dict(said), self._array.location, location_of(self._store, self._path))
        source: dict[str, Any] = fingerprint_of(self._array)
        if self.is_copied:
            copying = Conversion(self._array, None, self._store, self._path_of("s0"), self._layout, self._run)
            self._copy_plan = copying.plan()
            for name, piece in self._copy_plan.pieces.items():
                plan.add(replace(piece, name=f"s0/{name}".strip("/")))
            plan.groups[""] = {}  # whose documents this job writes
            source = {}
        for step in self.steps:
            facts = sorted(step.draft.metadata.documents.items()), self._reduction
            plan.add(Piece(step.name, step.draft.shape, step.grid, source, digest(repr(facts).encode())))
            source = {}
        return plan

    def estimate(self, recording: Recording | None) -> Estimate:
        """Estimate what the pyramid takes; of a job that would be resumed, what is left to do."""
        estimates = {step.name: step.estimate(self._reduction.factors) for step in self.steps}
        if self.is_copied:
            estimates["s0"] = Job(self._copying(dry_run=True)).run(self._array).estimate
        if recording is not None:
            outlook = recording.outlook()
            if outlook == "is complete":
                return Estimate()
            if outlook == "resumes":
                job = recording.ledger, recording.plan
                estimates = {name: estimate.left(*job, name) for name, estimate in estimates.items()}
        return reduce(Estimate.merge, estimates.values(), Estimate())

    def _check(self) -> None:
        """Refuse a target that is not free."""
        check_path(self._path, ZARR3)
        check_reserved(self._path, ZARR3, self._store)
        if "" in self._made:
            return
        if self.is_copied:
            keys = self._store.list_prefix(f"{self._path}/".lstrip("/"))
            if self._store.listable and all(map(is_ledger_key, keys)):
                return  # nothing but the claim
            refuse_taken(self._store, self._path)
            check_vacant(self._store, self._path_of("s0"), ZARR3, self.base.metadata)
        elif not self._made and (group := self._group()) is not None and KEY in group.attrs:
            raise AlreadyExistsError("the group has a pyramid; pass overwrite=True to replace it", path=group.location)
        for step in (each for each in self.steps if each.name not in self._made):
            check_vacant(self._store, self._path_of(step.name), ZARR3, step.draft.metadata)

    def _clear(self) -> None:
        """Delete what is left at the target of nodes that are not complete."""
        if self.is_copied:
            clear_place(self._store, self._path)
        for name in ["s0"] * self.is_copied + self._levels:
            remove_incomplete(self._store, self._path_of(name))

    def _has_old(self) -> bool:
        """Return whether there is something that has to stay until the pyramid is complete."""
        group = None if self.is_copied else self._group()
        nodes = (occupant(self._store, self._path_of(name)) for name in self._replaced)
        return (group is not None and KEY in group.attrs) or any(node in ("node", "members") for node in nodes)

    @property
    def _replaced(self) -> list[str]:
        """The names of the nodes that replace others, each as a whole."""
        return [""] if self.is_copied else self._levels

    # --- the work

    def write(self, metadata: dict[str, Any], overwrite: bool, recording: Recording | None) -> int:
        """Write the pyramid; return the number of units that are left to other parts of a recorded job."""
        self._metadata, self._recording = metadata, recording
        if recording is not None:
            self._ledger = recording.ledger
        with self._staged(overwrite) if recording is None else self._recorded(recording) as puts:
            if puts is None:
                return 0
            is_complete = self._write()
            if recording is None:
                self._put(puts)
            elif is_complete:
                recording.finish(put=None if self.is_copied else partial(self._put, puts))
            elif not recording.is_over():
                return recording.ledger.left_in(recording.plan)
            return 0

    @contextmanager
    def _staged(self, overwrite: bool) -> Iterator[_Puts]:
        """Make room for a pyramid that is written in one go; after an error, what was created is deleted."""
        with claimed(self._store, self._path, overwrite=overwrite), ExitStack() as stack:
            puts = []
            for name in self._replaced if overwrite else []:
                made = Replacement(self._store, self._path_of(name), ZARR3, True, "lazy")
                stack.enter_context(closing(made))
                if made.is_staged:
                    puts.append(made.put)
                    self._made[name] = made.store, made.path
            if overwrite and not puts:
                self._clear()
            self._check()
            try:
                yield puts
            except BaseException:  # Ctrl-C, too
                for name in reversed(self._created):
                    remove_incomplete(self._store, name, chunks=name != self._path)
                raise

    @contextmanager
    def _recorded(self, recording: Recording) -> Iterator[_Puts | None]:
        """Begin or resume a job with a ledger, whose new nodes are below it; ``None`` if the same job is complete."""

        def check() -> None:
            if recording.ledger.replaces:
                create_parents(self._store, self._path, ZARR3)
            else:
                self._check()

        with recording.under_way(check=check, clear=self._clear, is_replaced=self._has_old) as ledger:
            if ledger is None:
                yield None
                return
            puts = []
            for name in self._replaced if ledger.replaces else []:
                path = f"{ledger.made}/{name}".rstrip("/")
                self._made[name] = self._store, path
                puts.append(
                    partial(put_in_place, self._store, self._path_of(name), path, keep=self._path_of(DIRECTORY))
                )
            yield puts

    def _put(self, puts: _Puts) -> None:
        """Put in place what was made elsewhere; between the levels of two pyramids, the group has none."""
        group = None if self.is_copied or not puts else self._group()
        if group is not None and (old := group.attrs.get(KEY)) is not None:
            for name in {*filter(_is_level, level_paths(old))} - {*self._levels, self.first.partition("/")[0]}:
                clear_place(self._store, self._path_of(name))
                remove_incomplete(self._store, self._path_of(name))
            if geo.CONVENTIONS in group.attrs:
                group.attrs.pop(geo.LAYOUT, None)
            del group.attrs[KEY]  # last, since it lists the levels
        for put in puts:
            put()
        if not self.is_copied:
            self._made.clear()
            self._finish()

    def _write(self) -> bool:
        """Write the levels, then the group; return whether all is done, and nothing left to other parts."""
        # groups above; the group itself comes last
        if "" not in self._made:
            create_parents(self._store, self._path, ZARR3)
        if self._run.visible_early and self._group() is None:
            with self._creating(""):
                self._new_group({})
        # the first level
        before = self._array
        self._source = source_of(before, changed=self._ledger.spoil)
        if self.is_copied:
            if self._copy():
                return False
            before = array_at(*self._where("s0"), ZARR3.name)
        # the others, each from the one before
        for step in self.steps:
            level = self._compute(step, before)
            if level is None:
                return False
            before = level
        self._source.check()
        if self.is_copied:
            self._finish()
        return True

    def _copy(self) -> bool:
        """Convert the array to the first level; return whether units are left to parts that are not running."""
        plan = None if self._recording is None else self._copy_plan

        def done() -> Counter[int]:
            copying = self._copying(ledger=self._ledger, plan=plan, in_group=True)
            Job(copying).run(self._array)
            return copying.left_to

        with self._creating("s0"):
            return self._are_left(done, self._is_alone)

    def _compute(self, step: Step, before: Array) -> Array | None:
        """Compute a level, and return it; ``None`` if units are left to parts that are not running."""
        ledger, memory, documents = self._ledger, self._run.max_memory, {**step.draft.metadata.documents}
        limits = {} if memory is None else {"buffer_bytes": max(1, memory // 2)}
        piece = Piece(step.name, step.draft.shape, step.grid)
        if self._recording is not None:
            piece = self._recording.plan.pieces[step.name]

        def done(ledger: Records) -> Counter[int]:
            work = Reducing(step.name, before, made, self._reduction, step.most, ledger, limits)
            _, left = do_units(self._run.runner, work, piece, partial(self._show, step))
            if not left:
                ledger.complete(piece)
            return left

        with self._creating(step.name):
            early = self._published(step) if self._run.visible_early else None
            made = Destination(*self._where(step.name), documents, ZARR3.name, self._allowed, self._run.visible_early)
            if before is self._array:
                with self._source:  # what is missing in another node would count as fill values
                    if self._are_left(lambda: done(ledger), self._is_alone):
                        return None
            else:  # if a part stops before its units are done, the others do them
                if self._are_left(lambda: done(ledger.among_living()), lambda _: not ledger.is_kept):
                    return None  # another part has completed the target, or the job was removed
                ledger.read()
            before.stored.check_exists()  # the chunks of a deleted array would count as absent
            self._show(step, step.draft.size)
            level = self._published(step) if early is None else early
            level.missing_chunks = "fill"
            return level

    def _published(self, step: Step) -> Array:
        """Write the documents of a level; with a ledger, they may have been written before an interruption."""
        store, path = self._where(step.name)
        if self._ledger.lasts:
            return publish(store, path, ZARR3, step.draft.metadata, self._allowed, has_parent=True)
        created: dict[str, Any] = {"has_parent": True, "has_chunks": not self._run.visible_early, **self._allowed}
        return new_array_of(store, path, ZARR3, step.draft.metadata, False, **created)

    def _are_left(self, done: Callable[[], Counter[int]], is_over: Callable[[Counter[int]], bool]) -> bool:
        """Do units until none are left to other parts, or waiting for these is over; return whether some are left."""
        pause = _PAUSE
        while left := done():
            if is_over(left):
                return True
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return False

    def _is_alone(self, left: Counter[int]) -> bool:
        """Return whether no running part has units left."""
        assert self._recording is not None
        ledger = self._recording.ledger
        return {*left}.isdisjoint({*ledger.living_parts()} - {ledger.part[0]})

    def _finish(self) -> None:
        """Write the metadata of the pyramid; consolidate again if the group had consolidated metadata."""
        group = None if self.is_copied and not self._run.visible_early else self._group()
        if group is None:
            with suppress(AlreadyExistsError):  # another part may have written the same
                self._new_group(self._metadata)
                self._created.clear()
                return
            group = self._group()
        if group is None:
            raise NotFoundError("the group has been deleted", path=location_of(self._store, self._path))
        new = dict(self._metadata)
        if geo.CONVENTIONS in new:
            new[geo.CONVENTIONS] = geo.joined(group.attrs.get(geo.CONVENTIONS), new[geo.CONVENTIONS])
        group.attrs.update(new)
        self._created.clear()
        if group.is_consolidated():
            group.consolidate()

    # --- small parts

    def _copying(self, **changes: Any) -> ArrayJob:
        """Return the conversion of the array to the first level; `changes` are made to how that is done."""
        run = replace(self._run, **changes)
        if (progress := run.progress) is not None:
            run = replace(run, progress=lambda _, done, total: progress("s0", done, total))
        return ArrayJob(*self._where("s0"), self._layout, run, ConvertReport(ZARR3.name))

    def _show(self, step: Step, number: int) -> None:
        if self._run.progress is not None:
            self._run.progress(step.name, number * step.draft.itemsize, step.draft.nbytes)

    @contextmanager
    def _creating(self, name: str) -> Iterator[None]:
        """Note that a node is created, to be deleted after an error, unless it is that of another process."""
        path = self._path_of(name)
        if self._where(name) == (self._store, path):
            self._created.append(path)
        try:
            yield
        except AlreadyExistsError:
            with suppress(ValueError):
                self._created.remove(path)
            raise

    def _path_of(self, name: str) -> str:
        return f"{self._path}/{name}".strip("/")

    def _where(self, name: str) -> tuple[Store, str]:
        """Return store and path where an array, or with an empty name the group, is made."""
        for above in (name, ""):
            if above in self._made:
                store, path = self._made[above]
                return store, path if above == name else f"{path}/{name}".lstrip("/")
        return self._store, self._path_of(name)

    def _new_group(self, attributes: dict[str, Any]) -> None:
        new_group(*self._where(""), attributes=attributes, format="zarr3", has_parent="" in self._made)

    def _group(self) -> Group | None:
        return group_at(*self._where(""))


def group_at(store: Store, path: str, *, read_only: bool = False) -> Group | None:
    """Return the group of Zarr v3 at a path, if it has documents."""
    group = open_node(store, path, "zarr3", read_only=read_only)
    return group if isinstance(group, Group) and group.metadata.documents else None


def other_variables(store: Store, path: str, name: str) -> list[str]:
    """Return the names of the arrays in a group that xarray reads as variables, besides one of them and its levels."""
    group = group_at(store, path, read_only=True)
    return [
        other
        for other, node in (() if group is None else group.members({}, strict=True))
        if isinstance(node, Array)
        and other != name
        and not _is_level(other)
        and (node.dimension_names is not None or not node.ndim)
    ]
