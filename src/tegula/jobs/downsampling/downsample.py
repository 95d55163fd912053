"""`tegula.downsample`: multi-scale pyramids as OME-Zarr 0.5 describes them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from time import perf_counter
from typing import Any, Literal

from tegula.arrays.array import Array
from tegula.errors import UnsupportedError
from tegula.formats import find_format
from tegula.hierarchy.group import Group, open_node
from tegula.hierarchy.opening import open as open_any
from tegula.jobs.downsampling.arguments import check_arguments, factors_of, group_of, masks_of, scales_of
from tegula.jobs.downsampling.job import PyramidJob
from tegula.jobs.downsampling.levels import Reduction
from tegula.jobs.downsampling.ome import Level, axes_of, multiscales, per_axis
from tegula.jobs.downsampling.pyramid import Pyramid, level_of
from tegula.jobs.ledger import Ledger, share_of
from tegula.jobs.misplaced import refuse_misplaced
from tegula.jobs.recording import Recording
from tegula.jobs.rewriting.array_job import Run
from tegula.jobs.rewriting.estimating import Estimate
from tegula.jobs.rewriting.memory import bounded, memory_of
from tegula.jobs.rewriting.planning import for_reading, said_of
from tegula.jobs.rewriting.rules import Field, rules_of
from tegula.jobs.rewriting.targets import Layout
from tegula.jobs.runners.runner import check_reachable, runner_of
from tegula.jobs.units import Progress, one_at_a_time
from tegula.stores import Store
from tegula.tables.table import Table
from tegula.targets.paths import clean, location_of
from tegula.targets.stores import creating, options_of_both

__all__ = ["Level", "Pyramid", "downsample"]


def downsample(
    source: Any,
    target: Any = None,
    *,
    path: str = "",
    factors: Any = 2,
    levels: int | None = None,
    method: Literal["mean", "mode", "nearest"] = "mean",
    axes: Any = None,
    scale: Any = 1.0,
    missing: Any = None,
    chunks: Any = None,
    shards: Any = None,
    codecs: Any = None,
    name: str = "",
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
    """Write a multi-scale pyramid, an array and copies of decreasing size, with OME-Zarr 0.5 metadata.

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
        default the names of the dimensions, else ``yx``, ``zyx`` or ``tczyx``. Types of common names are known.
    scale : float, sequence of float, or mapping
        Distance between the elements of the array: one number for all spatial axes, one for each axis, or numbers by
        name.
    missing : scalar, sequence of scalar, or "fill_value", optional
        Values that mark missing data, left out by mean and mode, like NaN and NaT; by default those of CF's
        attributes ``_FillValue`` and ``missing_value``, as for `tegula.statistics`. A block of such values
        only becomes the first of them, or NaN.
    chunks, shards, codecs : optional
        Those of the first level, as for `tegula.convert`; by default those of the array. Other levels have the same, as
        far as they are large enough.
    name : str
        Name of the pyramid in its metadata.
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

    Returns
    -------
    Pyramid

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
    mode = "r" if target is not None or dry_run else "r+"
    opened = isinstance(source, (Array, Group, Table))
    array = source if opened else open_any(source, mode, storage_options=storage_options)
    if not isinstance(array, Array):
        raise UnsupportedError("only arrays have pyramids; name an array in the group", path=array.location)
    check_arguments(array, method, levels)
    refuse_misplaced(array)
    known = axes_of(axes, array.dimension_names, array.ndim)
    spatial = [axis.type == "space" for axis in known]
    steps = factors_of(per_axis(factors, known, "factors", 1, spatial))
    scales = scales_of(per_axis(scale, known, "scale", 1.0, spatial))
    reduction = Reduction(steps, method, tuple(masks_of(array, missing)))
    share, memory, names = share_of(part), memory_of(max_memory), tuple(axis.name for axis in known)
    encoding: dict[Field, Any] = {"chunks": chunks, "shards": shards, "codecs": codecs}
    said = said_of(**encoding, axes=axes, factors=factors, levels=levels, method=method, scale=scale, missing=missing)

    # the group that holds the array, or another one
    above = None
    if target is None:
        if not dry_run:
            array.check_writable()
        target, above, own = group_of(array, path)
        path = f"{above}/{own}".strip("/")
    opening: Any = nullcontext(target)
    if not isinstance(target, Store):
        opening = nullcontext(for_reading(target, target_options)) if dry_run else creating(target, target_options)
    resumes, recorded = bool(resume) or part is not None, resume is not None or part is not None
    with opening as store, bounded(memory), runner_of(None if dry_run else runner, None if dry_run else workers) as who:
        check_reachable(who, array.store, store)
        group, left, amount = clean(path), 0, Estimate()
        layout = Layout(find_format("zarr3"), **_rules(encoding), consolidated=False, names=names)
        run = Run(who, visible_early=visible_early, progress=progress, max_memory=memory, two_passes=part is None)
        job = PyramidJob(array, store, group, names, reduction, levels, layout, run)
        base = job.base
        listed = [Level(job.first, base.shape, base.chunks, scales, (0.0,) * base.ndim)]
        for number, level in enumerate(job.levels, 1):
            listed.append(level_of(level.name, level.draft, scales, [step**number for step in steps], method))
        metadata = multiscales(name, known, listed, method)
        if dry_run:
            amount = job.outlined(said, Ledger(store, group, share) if resumes else None, overwrite)
        elif recorded:
            recording = Recording(Ledger(store, group, share), job.plan(said), resumes)
            left = job.recorded(who, metadata, overwrite, recording)
        else:
            job.at_once(who, metadata, overwrite)
        if above is not None and job.is_copied and not left and not dry_run:
            _consolidate_again(store, above)
    if store is not target:
        store.close()
    about: dict[str, Any] = {"dry_run": dry_run, "units_left": left, "estimate": amount}
    return Pyramid(location_of(store, group), method, known, tuple(listed), perf_counter() - start, **about)


def _consolidate_again(store: Store, path: str) -> None:
    """Consolidate a group again if it has consolidated metadata, since it has a pyramid now."""
    group = open_node(store, path, "zarr3", read_only=False)
    if isinstance(group, Group) and group.metadata.documents and group.is_consolidated():
        group.consolidate()


def _rules(arguments: dict[Field, Any]) -> dict[str, Any]:
    return {name: rules_of(name, value, True) for name, value in arguments.items()}
