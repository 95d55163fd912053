"""`tegula.convert`: arrays, tables and hierarchies converted between formats, chunk shapes and codecs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from tegula.arrays.array import Array
from tegula.arrays.creation import new_format
from tegula.arrays.keywords import known_keywords
from tegula.engine.nodes.creating import check_path, check_reserved
from tegula.engine.nodes.replacing import replacing
from tegula.errors import SelectionError, UnsupportedError
from tegula.formats import find_format
from tegula.hierarchy.walking import node_at, with_known_members
from tegula.jobs.converting.recorded import convert_recorded, outline_recorded
from tegula.jobs.ledger import share_of
from tegula.jobs.recording import claimed
from tegula.jobs.rewriting.array_job import Run
from tegula.jobs.rewriting.memory import bounded, memory_of
from tegula.jobs.rewriting.planning import Conversion, layout_of, opened_target, said_of
from tegula.jobs.rewriting.report import ConvertedArray, ConvertReport
from tegula.jobs.runners.runner import running
from tegula.jobs.units import Progress, one_at_a_time
from tegula.stores.targets.opening import options_of_both
from tegula.stores.targets.paths import address_of, location_of, refuse_overlap

if TYPE_CHECKING:
    from tegula.arrays.arguments import (
        ChunksLike,
        CodecsLike,
        DTypeLike,
        FormatName,
        Missing,
        ShardsLike,
        SourceLike,
        TargetLike,
    )

__all__ = ["ConvertReport", "ConvertedArray", "Progress", "convert"]


@known_keywords
def convert(
    source: SourceLike,
    target: TargetLike,
    *,
    format: FormatName | None = None,
    chunks: ChunksLike | Mapping[str, ChunksLike] = None,
    shards: ShardsLike | Mapping[str, ShardsLike] = None,
    codecs: CodecsLike | Mapping[str, CodecsLike] = None,
    dtype: DTypeLike | Mapping[str, DTypeLike] | None = None,
    scale_offset: Any = None,
    bitround: Any = None,
    checksum: bool = False,
    select: Any = None,
    path: str = "",
    overwrite: bool = False,
    dry_run: bool = False,
    verify: bool = False,
    progress: Progress | None = None,
    allow_pickle: bool = False,
    missing_chunks: Missing | None = None,
    consolidated: bool | Literal["auto"] = "auto",
    storage_options: Mapping[str, Any] | None = None,
    target_storage_options: Mapping[str, Any] | None = None,
    resume: bool | None = None,
    runner: Any = None,
    workers: int | None = None,
    part: tuple[int, int] | None = None,
    visible_early: bool = False,
    max_memory: int | str | None = None,
    temporary: Any = None,
) -> ConvertReport:
    """Copy an array, or a group or table with all its members, into another format.

    Values, attributes, fill values and dimension names are kept, and so are codecs that the target's format has. Other
    codecs are replaced by the format's usual ones, and the report has a note on that. Memory is bounded by a few blocks
    of 64 MiB, or one chunk if that is larger; for remote storage by the setting ``buffer_bytes``, since many arrays and
    blocks are processed at once.

    Data written by xarray (arrays with dimension names) reads the same with xarray afterwards. The names are stored
    where readers of the target's format look for them: in the attribute ``_ARRAY_DIMENSIONS``, or ``dimension_names``
    in Zarr v3. So is the value that marks missing data: the fill value in Zarr v2, the attribute ``_FillValue`` in v3.
    If that changes the fill value, chunks that are absent from the source are written, too.

    Arrays can be opened only once they are complete, since their metadata is written last.

    If chunks and codecs stay the same, the compressed chunks are copied as they are, which is many times faster:
    between Zarr v1, v2, v3 and bcolz if the codec is Blosc, between Zarr v2 and v3 with most codecs.

    A bcolz table becomes a group with an array for each column, and an attribute ``column-order`` with their names in
    order. In bcolz, such a group becomes a table.

    Parameters
    ----------
    source : str, path, mapping, Store, Array, Group or Table
        The node to convert, or where it is stored.
    target : str, path, mapping or Store
        Where to write the result; must not be the source or lie within it.
    format : {"zarr3", "zarr2", "zarr1", "bcolz", "n5"}, optional
        Format of the target; by default the one that the suffix of `target` or `path` implies, else Zarr v3.
    chunks, shards, codecs : optional
        As for `tegula.create_array`; by default those of the source. In a hierarchy a shape applies to the arrays with
        that number of dimensions. A mapping gives them by dimension, ``{"time": 24, "lat": 45}``, or by array,
        ``{"tas": (24, 45, 90), "model/*": "auto"}`` (codecs by array only). See Notes.
    dtype : dtype-like or mapping, optional
        Another type for the numbers, rounded to the nearest value with ties to even. By array, as for `codecs`; in a
        hierarchy a plain type applies to numbers of its kind, except dimension coordinates. See Notes.
    scale_offset : (float, float) or mapping, optional
        Pack floating-point numbers as CF does: ``dtype`` holds ``(value - offset) / scale``, and the attributes
        ``scale_factor`` and ``add_offset`` tell readers how to unpack it. Needs `dtype`.
    bitround : int or mapping, optional
        Keep this many bits of the fraction of floating-point numbers, rounding ties to even, so that they compress
        better.
    checksum : bool
        Store a checksum with each chunk, as for `tegula.create_array`; chunks are not compressed again for that.
    select : selection, optional
        Ints and slices: the part of an array to convert.
    path : str
        Path in the target's store.
    overwrite : bool
        Replace an existing node at the target, with all its members, when the conversion is complete. In local files
        both change places in one step; elsewhere the new node is made inside the old one, and copied at the end.
    dry_run : bool
        Report what would be done, and write nothing.
    verify : bool
        Read everything back and compare it with the source, bit by bit.
    progress : callable, optional
        Called with the path of an array, the bytes converted, and its total bytes; with `verify` both also count the
        bytes that are read back. Several arrays may be under way at once.
    allow_pickle : bool
        Allow unpickling the source, and pickling objects if the format has no other codec for them.
    missing_chunks : {"fill", "error"}, optional
        What chunks that are not stored give, as for `tegula.open`; by default what the node says.
    consolidated : {"auto", True, False}
        ``"auto"`` writes consolidated metadata to the groups that have it in the source, ``True`` also to the topmost
        group, ``False`` to none.
    storage_options : mapping, optional
        Settings of the storage, if `source` is a URL; see `tegula.store_of`.
    target_storage_options : mapping, optional
        Settings of the target's storage; by default those of `source` if both URLs name the same bucket.
    resume : bool, optional
        Keep a ledger, a record of what is done, in the target's store, so that a conversion that is interrupted at any
        moment can be resumed. ``True`` resumes an interrupted conversion or begins a new one; ``False`` begins a new
        one, and refuses a target where one was interrupted. By default there is no ledger, and an array that an
        interrupted conversion has not completed is removed.
    runner : "threads", "processes", "dask", address, Client or Runner, optional
        How the work is done: in threads of this process (the default), in processes, on a cluster of `dask.distributed`
        that is started on this machine (``"dask"``), or on the cluster of a `Client` or of a scheduler's address.
    workers : int, optional
        Number of processes; implies ``runner="processes"``.
    part : (int, int), optional
        Do one part of several, ``(3, 16)`` for the third of 16, as the jobs of a batch system do. The last part to
        finish completes the target. A ledger is kept.
    visible_early : bool
        Create arrays before their chunks are written, so that they can be opened early. Elements that are not written
        yet read as the fill value. What replaces another node is seen when it is complete all the same.
    max_memory : int or str, optional
        Maximum memory for values in each worker, in bytes or as ``"2GB"``. If the chunks of source and
        target cut across each other, values go through a temporary array if that takes less time than reading chunks
        many times; a dry run shows the passes.
    temporary : str, path, mapping or Store, optional
        Where temporary arrays are stored; by default next to the target. With a ledger they always are.

    Raises
    ------
    CodecError
        If a new data type can't hold a value. In a hierarchy such arrays are left out and reported.
    UnsupportedError
        If one chunk or shard of the target does not fit into `max_memory` (the message says how much memory it needs),
        or if the target's format can't hold the array. In a hierarchy such arrays are left out and reported.
    MetadataError
        If the target is the source, the format contradicts the suffix, an argument is not valid, a rule matches no
        array, or shards are not multiples of the chunks.
    NotFoundError, AlreadyExistsError
        If the source does not exist, or the target does and `overwrite` is false.

    Notes
    -----
    In a mapping, a single integer is a rule for a dimension if there is one of that name, as in xarray: arrays that
    have it get chunks (shards) of that length along it (-1: the whole axis), and keep what they have along others.
    Anything else is a rule for arrays: those of that name at any level, or the one at a path from the top, which
    contains ``/``; both may have the wildcards ``*``, ``?`` and ``[…]`` for parts of one name. So ``{"/time": 24}`` or
    ``{"time": (24,)}`` is about the array ``time`` and not about the dimension.

    ``None`` leaves an array as it is, ``False`` stands for no shards, no codecs, or one chunk. Of several rules for one
    array, a path takes precedence over a name, a name over a pattern, and among equals the last one wins; rules for
    dimensions apply to the arrays that no other rule names. ``{"id": …}`` and ``{"name": …}`` with a text are one
    codec, not rules.

    An array that does not fit (another number of dimensions) stays as it is, and a note in the report says so.

    With `dtype`, `scale_offset` or `bitround` the report gives the largest absolute and relative error of each array.
    Values that mark missing data (NaN, and those of ``_FillValue`` and ``missing_value``) stay missing: packed as
    integers they become the smallest signed or the largest unsigned integer, which the attribute ``_FillValue`` names.
    A value that the new type can't hold is an error, and so is a missing value that it can't represent.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> old, new = tegula.MemoryStore(), tegula.MemoryStore()
    >>> tegula.save(old, x=np.arange(6).reshape(2, 3), format="zarr2")
    >>> report = tegula.convert(old, new, format="zarr3")
    >>> tegula.open(new)["x"][:]
    array([[0, 1, 2],
           [3, 4, 5]])
    >>> report = tegula.convert(old, tegula.MemoryStore(), chunks={"x": (2, 2)}, codecs={"x": "zstd"}, dry_run=True)
    >>> report.arrays[0].chunks
    (2, 2)
    """
    # the target's format and path
    start = time.perf_counter()
    target, path, format = address_of(target, path, format)
    format = new_format(target, path, format, "zarr3")
    fmt = find_format(format)
    if not fmt.writable:
        raise UnsupportedError(f"{format} can be read, but not written", field="format")
    check_path(path, fmt)
    check_reserved(path, fmt)

    # the source, and the rules for it
    target_options = options_of_both(source, target, storage_options, target_storage_options)
    node = node_at(source, missing_chunks=missing_chunks, allow_pickle=allow_pickle, storage_options=storage_options)
    node = with_known_members(node)
    arguments = {
        "chunks": chunks, "shards": shards, "codecs": codecs, "dtype": dtype, "scale_offset": scale_offset,
        "bitround": bitround,
    }  # fmt: skip
    layout = layout_of(fmt, node, {**arguments, "checksum": checksum}, consolidated)

    # the runner, and whether there is a ledger
    share, memory = share_of(part), memory_of(max_memory)
    recorded = resume is not None or part is not None
    if visible_early and fmt.new_draft is not None:
        raise UnsupportedError(f"{fmt.name} can't show an array before it is complete", field="visible_early")

    # the conversion
    if dry_run:
        runner = workers = None
    with opened_target(target, target_options, dry_run=dry_run) as store:
        refuse_overlap(node.store, node.path, store, path)
        if select is not None and not isinstance(node, Array):
            raise SelectionError("a selection applies to a single array, not to a group")
        with bounded(memory), running(runner, workers, node.store, store) as who:
            conversion = Conversion(
                node,
                select,
                store,
                path,
                layout,
                Run(
                    who,
                    visible_early=visible_early,
                    overwrite=overwrite,
                    dry_run=dry_run,
                    verify=verify,
                    progress=one_at_a_time(progress),
                    max_memory=memory,
                    temporary=temporary,
                    two_passes=part is None,
                ),
                said_of(format=format, **arguments, select=select),
            )
            if dry_run:
                report = outline_recorded(conversion, share) if resume or part is not None else conversion.walk()
            elif recorded:
                report = convert_recorded(conversion, resume=bool(resume), part=share)
            else:
                report = _at_once(conversion)
    report.source, report.target = node.location, location_of(store, path)
    report.seconds = time.perf_counter() - start
    return report


def _at_once(conversion: Conversion) -> ConvertReport:
    """Convert a node without a ledger; what it replaces stays until it is complete."""
    store, path, overwrite = conversion.store, conversion.path, conversion.run.overwrite
    with (
        claimed(store, path, overwrite=overwrite),
        replacing(store, path, conversion.layout.fmt, overwrite, "lazy", reserved=True) as new,
    ):
        changes: dict[str, Any] = {"overwrite": False, "in_group": True} if new.is_staged else {}
        return replace(conversion, store=new.store, path=new.path).walk(**changes)
