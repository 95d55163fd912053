"""`tegula.references.write`: references to the chunks of an array or hierarchy, in forms that other libraries read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Literal, get_args

from tegula.arrays.keywords import known_keywords
from tegula.errors import AlreadyExistsError, MetadataError
from tegula.formats import find_format
from tegula.hierarchy.opening import open_stored as open_any
from tegula.hierarchy.walking import Node
from tegula.metadata.chunk_keys import V2_KEYS, default_keys
from tegula.references.icechunk import write_icechunk, writing_session
from tegula.references.kerchunk import json_references, write_parquet
from tegula.references.locations import base_url
from tegula.references.planning import Unsupported, check_choice, check_chunks, check_least, planned
from tegula.references.report import ReferenceReport
from tegula.stores import LocalStore, Store
from tegula.stores.references.parquet import INDEX
from tegula.stores.targets.opening import options_of_both
from tegula.stores.targets.paths import clean, is_remote, local_path
from tegula.stores.targets.urls import split_url, store_of_url

__all__ = ["Form", "write"]

Form = Literal["kerchunk", "parquet", "icechunk"]
_FORMS: Final = get_args(Form)
_KEYS: Final = {"kerchunk": None, "parquet": V2_KEYS, "icechunk": default_keys()}


@known_keywords
def write(
    source: Any,
    target: Any = None,
    form: Form = "kerchunk",
    *,
    zarr_format: Literal[2, 3] | None = None,
    path: str = "",
    unsupported: Unsupported = "error",
    inline_threshold: int = 0,
    record_size: int = 100_000,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    target_storage_options: Mapping[str, Any] | None = None,
    container_options: Mapping[str, Any] | None = None,
) -> ReferenceReport:
    """Write references to the stored chunks of an array, or of a group or table with all its members.

    The chunks stay where they are. The references describe them as Zarr v2 or v3, whatever format the source has, and
    zarr-python, xarray, dask and others read them in place, without tegula. Values that can't be referenced are
    stored among the references: the last chunk of a bcolz array, which is shorter than Zarr's chunks, and chunks that
    zarr 1.1 wrote with an early zstd.

    Stored chunks are listed; the chunk grid is traversed only for bcolz, or if the storage can't be listed.

    Parameters
    ----------
    source : str, path, Store, Array, Group or Table
        The arrays, in a directory or a bucket, or on a web server.
    target : str, path or dict, optional
        Where to write: a JSON file, a directory for Parquet files, or a new repository of icechunk. Each may be a URL,
        except the repository. For JSON also a ``dict``, to which ``version`` and ``refs`` are added; for icechunk also
        its ``Storage``, ``Repository``, ``Session`` or ``IcechunkStore``; the last two are not committed.
    form : {"kerchunk", "parquet", "icechunk"}
        kerchunk's JSON, version 1; Parquet as fsspec reads it; icechunk's virtual chunks.
    zarr_format : {2, 3}, optional
        The format of the metadata: by default 3 for a source in Zarr v3 and for icechunk, else 2. Parquet has 2 only.
    path : str
        The path of the source in the references.
    unsupported : {"error", "skip", "inline"}
        What to do with arrays whose chunks can't be referenced: raise an error, leave them out, or store their chunks,
        encoded again, among the references.
    inline_threshold : int
        Chunks of fewer bytes are stored among the references.
    record_size : int
        Number of chunks in a Parquet file.
    overwrite : bool
        Replace existing references.
    storage_options, target_storage_options : mapping, optional
        Settings of the storage, if the source or the target is a URL; see `tegula.store_of`.
    container_options : mapping, optional
        Settings with which icechunk reads the chunks: arguments of its ``s3_store``, ``gcs_store`` or ``http_store``.

    Returns
    -------
    ReferenceReport

    Raises
    ------
    UnsupportedError
        If chunks of an array can't be referenced, or the source has no URL by which others reach it.
    AlreadyExistsError
        If the target exists.
    MetadataError
        If an argument is not valid.

    Notes
    -----
    References name chunks by URL, so they are valid as long as the chunks are: rewriting or appending to the source
    makes them stale. icechunk refuses chunks that have changed since.

    Examples
    --------
    >>> import tempfile, numpy as np, tegula, tegula.references
    >>> folder = tempfile.TemporaryDirectory()
    >>> tegula.create_array(f"{folder.name}/x.bcolz", shape=25, chunks=10, dtype="i8")[...] = np.arange(25)
    >>> print(tegula.references.write(f"{folder.name}/x.bcolz", f"{folder.name}/x.json", path="x"))
    1 array, 2 chunks referenced, 1 stored among the references
    >>> tegula.open(f"{folder.name}/x.json")["x"][-3:]
    array([22, 23, 24])
    >>> folder.cleanup()
    """
    # the arguments
    check_choice("form", form, _FORMS)
    check_chunks(unsupported, inline_threshold)
    check_least("record_size", record_size, 1)
    path = clean(path)
    remote = isinstance(target, str) and is_remote(target)
    options = options_of_both(
        source, target if remote else None, storage_options, target_storage_options if remote else None
    )

    # the source
    opened = not isinstance(source, Node)
    node = open_any(source, storage_options=storage_options) if opened else source
    base = base_url(node.store)
    if zarr_format is None:
        zarr_format = 3 if form == "icechunk" or (node.format == "zarr3" and form != "parquet") else 2
    check_choice("zarr_format", zarr_format, {"kerchunk": (2, 3), "parquet": (2,), "icechunk": (3,)}[form])

    # the references
    report = ReferenceReport()
    item = find_format(f"zarr{zarr_format}")
    nodes = planned(node, item, path, unsupported, report.skipped, keys=_KEYS[form])
    if form == "kerchunk":
        _write_json(target, options, overwrite, lambda: json_references(nodes, base, inline_threshold, report))
    elif form == "parquet":
        with closing(_directory(target, options, overwrite)) as store:
            write_parquet(store, nodes, base, inline_threshold, record_size, report)
    else:
        session, commits = writing_session(target, base, container_options or {})
        write_icechunk(session, nodes, base, inline_threshold, report)
        if commits:
            session.commit("Virtual references to chunks elsewhere")
    if opened:
        node.store.close()
    return report


def _write_json(target: Any, options: Mapping[str, Any] | None, overwrite: bool, make: Any) -> None:
    if isinstance(target, dict):
        target.update(make())
        return
    store, name = _file(target, options)
    with closing(store):
        if not overwrite and store.exists(name):
            raise AlreadyExistsError("the file exists; pass overwrite=True to replace it", path=str(target))
        store.set(name, json.dumps(make()).encode())


def _file(target: Any, options: Mapping[str, Any] | None) -> tuple[Store, str]:
    """Return the store for the directory of a file, and the file's name."""
    if isinstance(target, str) and is_remote(target):
        folder, name = split_url(target)
        return store_of_url(folder, options or {}, read_only=False, archives=False), name
    path = local_path(target)
    if path is None or not os.path.basename(path):
        raise MetadataError(f"{target!r:.80} is not the path of a file for references", field="target")
    whole = Path(path).absolute()
    return LocalStore(whole.parent), whole.name


def _directory(target: Any, options: Mapping[str, Any] | None, overwrite: bool) -> Store:
    """Return the empty store for the files of references."""
    if isinstance(target, str) and is_remote(target):
        store = store_of_url(target, options or {}, read_only=False, archives=False)
    elif (path := local_path(target)) is not None:
        store = LocalStore(path)
    else:
        raise MetadataError(f"{target!r:.80} is not the path of a directory for references", field="target")
    if next(iter(store.list_prefix("")), None) is not None:
        if not overwrite or not store.exists(INDEX):
            hint = "pass overwrite=True to replace them" if store.exists(INDEX) else "it holds something else"
            raise AlreadyExistsError(f"the directory is not empty: {hint}", path=str(target))
        store.delete_prefix("")
    return store
