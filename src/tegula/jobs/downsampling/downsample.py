"""`tegula.downsample`: multi-scale pyramids as OME-Zarr describes them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from tegula import engine
from tegula.arrays.array import Array
from tegula.arrays.keywords import known_keywords
from tegula.engine.stored.misplaced import refuse_misplaced
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.hierarchy.walking import node_at
from tegula.jobs.downsampling.job import PyramidJob, group_at, other_variables
from tegula.jobs.downsampling.levels import MOST_LEVELS, ZARR3, check_method, masks_of
from tegula.jobs.ledger import share_of
from tegula.jobs.rewriting.array_job import Run
from tegula.jobs.rewriting.estimating import Estimate
from tegula.jobs.rewriting.memory import bounded, memory_of
from tegula.jobs.rewriting.planning import opened_target, said_of
from tegula.jobs.rewriting.rules import Field, rules_of
from tegula.jobs.rewriting.targets import Layout
from tegula.jobs.runners.runner import running
from tegula.jobs.units import Progress, one_at_a_time
from tegula.metadata import geo
from tegula.metadata.nodes import GroupMetadata
from tegula.metadata.ome import (
    KEY,
    VERSIONS,
    Axis,
    Level,
    axes_of,
    axes_said,
    check_version,
    factors_of,
    multiscales,
    placed,
    spaced,
)
from tegula.reductions.blocks import Reduction
from tegula.stores import LocalStore, Store
from tegula.stores.targets.opening import options_of_both
from tegula.stores.targets.paths import address_of, clean, location_of

if TYPE_CHECKING:
    from tegula.arrays.arguments import ChunksLike, CodecsLike, Missing, ShardsLike, SourceLike, TargetLike

__all__ = ["Level", "Pyramid", "downsample"]


@dataclass(frozen=True, slots=True, repr=False)
class Pyramid:
    """A pyramid that `tegula.downsample` has written.

    Parameters
    ----------
    target : str
        URL of its group.
    method : str
        How blocks of elements were reduced.
    axes : tuple of Axis
        Its axes: name, type and unit of each.
    levels : tuple of Level
        Its arrays, the largest first: path, shape, chunks, scale and translation of each.
    seconds : float
        Duration.
    dry_run : bool
        Whether nothing was written.
    units_left : int
        Number of units that other parts of the job still have to do; until then the pyramid is incomplete.
    estimate : Estimate
        In a dry run, what it would take.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> image = tegula.create_array({}, data=np.zeros((300, 500)), chunks=(100, 100), dimension_names=["y", "x"])
    >>> found = tegula.downsample(image, tegula.MemoryStore(), scale=0.5)
    >>> [(level.path, level.shape, level.scale) for level in found.levels[2:]]
    [('s2', (75, 125), (2.0, 2.0)), ('s3', (38, 63), (4.0, 4.0))]
    """

    target: str
    method: str
    axes: tuple[Axis, ...]
    levels: tuple[Level, ...]
    seconds: float = 0.0
    dry_run: bool = False
    units_left: int = 0
    estimate: Estimate = field(default_factory=Estimate)

    def as_dict(self) -> dict[str, Any]:
        """Return the pyramid as JSON values."""
        return {**asdict(self), "axes": [axis.as_dict() for axis in self.axes]}

    def __repr__(self) -> str:
        """Return a line for each level."""
        lines = [f"{level.path}  {level.shape} in chunks {level.chunks}" for level in self.levels]
        lines += [self.estimate.summary] if self.dry_run else []
        lines += [f"{self.units_left} units left to other parts"] if self.units_left else []
        return "\n".join([f"<tegula.Pyramid {self.target!r}, {self.method}>", *lines])


@known_keywords
def downsample(
    source: SourceLike,
    target: TargetLike | None = None,
    *,
    path: str = "",
    factors: Any = 2,
    levels: int | None = None,
    method: Literal["mean", "mode", "nearest"] = "mean",
    axes: Any = None,
    scale: Any = None,
    missing: Any = None,
    missing_chunks: Missing | None = None,
    chunks: ChunksLike | Mapping[str, ChunksLike] = None,
    shards: ShardsLike | Mapping[str, ShardsLike] = None,
    codecs: CodecsLike | Mapping[str, CodecsLike] = None,
    name: str = "",
    ome_version: Literal["0.5", "0.6"] = "0.5",
    overwrite: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    target_storage_options: Mapping[str, Any] | None = None,
    resume: bool | None = None,
    runner: Any = None,
    workers: int | None = None,
    part: tuple[int, int] | None = None,
    dry_run: bool = False,
    visible_early: bool = False,
    max_memory: int | str | None = None,
) -> Pyramid:
    """Write a multi-scale pyramid, an array and copies of decreasing size, with OME-Zarr metadata.

    The pyramid is a Zarr v3 group with the arrays ``s0``, ``s1``, …, each computed from the one before. If the
    target is the group that holds the array, the array stays where it is, and is the first level under its own name.
    A group with other variables, such as coordinates, can't be the target: the levels would have other lengths of its
    dimensions.
    Each array can be opened once it is complete, and the group once all of them are. After an error, everything created
    is deleted, unless the job can be resumed.

    Memory is bounded by two blocks of 64 MiB, or by a shard or chunk if that is larger; for remote storage by the
    setting ``buffer_bytes``. If few chunks are stored, only these are visited.

    Parameters
    ----------
    source : str, path, mapping, Store or Array
        The array, or where it is stored.
    target : str, path, mapping or Store, optional
        Where to write the group; by default the group that holds the array or, if that has other variables, a new
        group in it, named after the array: ``t_pyramid``.
    path : str
        Path of the group in the target's store; without a target, in the group that holds the array.
    factors : int, sequence of int, or mapping
        How many times smaller each level is than the one before: one number for all spatial axes, one for each axis, or
        numbers by name.
        Blocks at the far edges may be smaller, so that lengths are rounded up.
    levels : int, optional
        How many levels to compute, not counting the first; by default until one fits into a chunk.
    method : {"mean", "mode", "nearest"}
        The mean of a block, rounded to the nearest integer for integers, booleans and times (ties to even); the most
        frequent value, the smallest of several, for labels; or the first element.
    axes : sequence of str or mapping, optional
        Names of the axes, or mappings with ``name``, ``type`` (``"space"``, ``"time"``, ``"channel"``) and ``unit``; by
        default the names of the dimensions, or what the image of OME-Zarr says that the array is a level of, else
        ``yx``, ``zyx`` or ``tczyx``. Types of common names are known.
    scale : float, sequence of float, or mapping, optional
        Distance between the elements of the array: one number for all spatial axes, one for each axis, or numbers by
        name; by default the distances, units and places that its attributes state, or else 1.
    missing : scalar, sequence of scalar, or "fill_value", optional
        Values that mark missing data, left out by mean and mode, like NaN and NaT; by default those of CF's
        attributes ``_FillValue`` and ``missing_value``, as for `tegula.statistics`. A block of such values
        only becomes the first of them, or NaN.
    missing_chunks : {"fill", "error"}, optional
        What chunks that are not stored give, as for `tegula.open`; by default what the node says.
    chunks, shards, codecs : optional
        Those of the first level, as for `tegula.convert`; by default those of the array. Other levels have the same, as
        far as they are large enough.
    name : str
        Name of the pyramid in its metadata.
    ome_version : {"0.5", "0.6"}
        Version of OME-Zarr of the metadata. The arrays are the same in both.
    overwrite : bool
        Replace what exists at the target when the pyramid is complete: the group, or in the group that holds the array
        the old levels.
    progress : callable, optional
        Called with the path of a level, the bytes done, and its total bytes.
    storage_options : mapping, optional
        Settings of the storage, if `source` is a URL; see `tegula.store_of`.
    target_storage_options : mapping, optional
        Settings of the target's storage; by default those of `source` if both URLs name the same bucket.
    resume : bool, optional
        Keep a ledger of what is done in the group, as for `tegula.convert`: ``True`` resumes an interrupted pyramid or
        begins a new one; ``False`` begins a new one, and refuses a target where one was interrupted.
    runner, workers : optional
        How the levels are computed, as for `tegula.convert`.
    part : (int, int), optional
        Do one part of several, as for `tegula.convert`. The parts divide the first array that is written. Each
        smaller array needs the whole array before it, so it is divided among the parts that run when that is complete.
    dry_run : bool
        Report what would be written and what it takes, and write nothing; with `resume`, what is left to do.
    visible_early : bool
        Create the group and the arrays before their chunks are written. A node that replaces another one is created
        when it is complete all the same.
    max_memory : int or str, optional
        Maximum memory for values in each worker, in bytes or as ``"2GB"``.

    Raises
    ------
    AlreadyExistsError
        If the group, a level or a pyramid exists and `overwrite` is false, or another job works on it.
    MetadataError
        If an argument is not valid, the axes are not those of OME-Zarr, or the array or the options have changed since
        the interrupted job began.
    UnsupportedError
        If the array has no mean, or its group is not a Zarr v3 group.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> target = tegula.MemoryStore()
    >>> image = tegula.create_array({}, data=np.arange(64).reshape(8, 8), chunks=(2, 2), dimension_names=["y", "x"])
    >>> [level.shape for level in tegula.downsample(image, target).levels]
    [(8, 8), (4, 4), (2, 2)]
    >>> tegula.open(target)["s2"][:]
    array([[13, 17],
           [45, 49]])
    """
    start, progress = perf_counter(), one_at_a_time(progress)
    # the source, and what to do with it
    target_options = options_of_both(source, target, storage_options, target_storage_options)
    mode: Literal["r", "r+"] = "r" if target is not None or dry_run else "r+"
    array = node_at(source, mode, missing_chunks=missing_chunks, storage_options=storage_options)
    if not isinstance(array, Array):
        raise UnsupportedError("only arrays have pyramids; name an array in the group", path=array.location)
    check_method(method, array.dtype)
    if levels is not None and (type(levels) is not int or not 1 <= levels <= MOST_LEVELS):
        raise MetadataError(f"{levels!r:.40} is not a number of levels from 1 to {MOST_LEVELS}", field="levels")
    refuse_misplaced(array.stored)
    said = _axes_said(array) if axes is None else axes
    known, version = axes_of(said, array.dimension_names, array.ndim), check_version(ome_version)
    steps, (known, scales, starts) = factors_of(factors, known), spaced(known, scale, array.stored.steps)
    reduction = Reduction(steps, method, tuple(masks_of(array, missing)))
    share, memory = share_of(part), memory_of(max_memory)
    encoding: dict[Field, Any] = {"chunks": chunks, "shards": shards, "codecs": codecs}
    said = said_of(
        **encoding, axes=axes, factors=factors, levels=levels, method=method, scale=scale, missing=missing,
        ome_version=None if version == VERSIONS[0] else version,
    )  # fmt: skip
    rules: dict[str, Any] = {field: rules_of(field, value, True) for field, value in encoding.items()}
    layout = Layout(ZARR3, **rules, consolidated=False, names=tuple(axis.name for axis in known))

    # the group that holds the array, or another one
    above = None
    if target is None:
        if not dry_run:
            array.check_writable()
        target, above, own = _group_of(array, path)
        path = f"{above}/{own}".strip("/")
        target_options = None
    else:
        target, path, _ = address_of(target, path)
    resumes = bool(resume) or part is not None
    is_recorded = resumes or (resume is not None and not dry_run)
    if dry_run:
        runner = workers = None
    with (
        opened_target(target, target_options, dry_run=dry_run) as store,
        bounded(memory),
        running(runner, workers, array.store, store) as who,
    ):
        group, left, estimate = path, 0, Estimate()
        run = Run(who, visible_early=visible_early, progress=progress, max_memory=memory, two_passes=part is None)
        job = PyramidJob(array, store, group, reduction, levels, layout, run)
        arrays = [(job.first, job.base), *((step.name, step.draft) for step in job.steps)]
        listed = tuple(
            Level(level, draft.shape, draft.chunks, *placed(scales, starts, [step**number for step in steps], method))
            for number, (level, draft) in enumerate(arrays)
        )
        recording = job.recording(said, share, resumes=resumes, overwrite=overwrite) if is_recorded else None
        if dry_run:
            estimate = job.estimate(recording)
        else:
            image = {KEY: multiscales(name, known, listed, method, version)}
            attributes = [(path, array.metadata.attributes) for path, array in arrays]
            left = job.write(image | geo.of_pyramid(attributes, steps, method), overwrite, recording)
        if above is not None and job.is_copied and not left and not dry_run:
            parent = group_at(store, above)
            if parent is not None and parent.is_consolidated():  # it has a pyramid now
                parent.consolidate()
    return Pyramid(location_of(store, group), method, known, listed, perf_counter() - start, dry_run, left, estimate)


def _axes_said(array: Array) -> Any:
    """Return the axes that the image of OME-Zarr around an array without names has for it, ``None`` without one."""
    if None not in (array.dimension_names or (None,)):
        return None
    for store, path in [(array.store, ""), *array.store.stores_above()]:
        parts = [part for part in (*path.split("/"), *array.path.split("/")) if part]
        # a store over directories above is asked for its root alone
        for depth in reversed(range(1 if path else len(parts))):
            try:
                above = engine.read_metadata(store, "/".join(parts[:depth]))
            except TegulaError:
                continue
            attributes = above.attributes if isinstance(above, GroupMetadata) else {}
            if (found := axes_said(attributes, "/".join(parts[depth:]), array.ndim)) is not None:
                return found
    return None


def _group_of(array: Array, path: str) -> tuple[Store, str, str]:
    """Return store and path of the group that holds an array, and the path below it of the group for a pyramid.

    Unless a path is given, a variable of a data set gets a group of its own, since levels beside the variables would
    have other lengths of the same dimensions.
    """
    if array.path:
        store, above, name = array.store, array.path.rpartition("/")[0], array.name
    elif array.store.local_directory is not None:
        root, name = os.path.split(os.path.realpath(array.store.local_directory))
        store, above = LocalStore(root, read_only=array.store.read_only), ""
    else:
        raise MetadataError("the store holds nothing but the array: pass a target", path=array.location)
    return store, above, clean(path) or (f"{name}_pyramid" if other_variables(store, above, name) else "")
