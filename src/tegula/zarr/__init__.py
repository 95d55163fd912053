"""Arrays of any format for programs that use zarr-python 3.

`store` shows any node as Zarr v3, through the interface of zarr-python's stores:

>>> import tegula.zarr
>>> import zarr
>>> old = tegula.create_array({}, shape=3, dtype="i2", format="bcolz")
>>> old[:] = [1, 2, 3]
>>> zarr.open_array(tegula.zarr.store(old), mode="r")[:]
array([1, 2, 3], dtype=int16)

`Pipeline` lets arrays of zarr-python be read and written by tegula, wherever they are stored:

>>> with zarr.config.set({"codec_pipeline.path": "tegula.zarr.Pipeline"}):
...     a = zarr.create_array({}, shape=4, dtype="i2", chunks=2)
...     a[:] = 7
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tegula.runtime.optional import library

library("zarr.abc.store")  # raises if it is missing, and says how to install it

from tegula.arrays.keywords import known_keywords  # noqa: E402
from tegula.zarr.pipeline import Pipeline  # noqa: E402
from tegula.zarr.zarr_store import TegulaStore  # noqa: E402
from tegula.zarr3_view import shown  # noqa: E402

__all__ = ["Pipeline", "TegulaStore", "store"]


@known_keywords
def store(
    target: Any,
    *,
    path: str = "",
    read_only: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> TegulaStore:
    """Return a node of any format as a store of zarr-python 3, which shows it as Zarr v3.

    Nodes in Zarr v3 are passed on byte for byte. For other formats, new documents are generated. Chunks are passed
    on as they are stored if Zarr v3 can describe their codecs; otherwise they are decoded and encoded again. Arrays in
    Zarr v2 and N5 can be written, too; those in Zarr v1 and bcolz are read-only.

    Parameters
    ----------
    target : str, path, mapping, Store, Array, Group or Table
        The node to show: anything that `tegula.open` opens, or an open node. At an empty place, new nodes are created
        in Zarr v3.
    path : str
        Path of the node in `target`.
    read_only : bool
        Whether to refuse writing.
    storage_options : mapping, optional
        Settings of the storage that a URL names; see `tegula.store_of`.

    Returns
    -------
    TegulaStore
        The store. Its root is the node.

    Raises
    ------
    MetadataError, StoreError
        If `target` can't be opened, or its documents can't be read.

    Examples
    --------
    >>> import tegula.zarr
    >>> import zarr
    >>> group = tegula.create_group({}, format="zarr2")
    >>> group["t"] = [280.0, 281.5]
    >>> shown = zarr.open_group(tegula.zarr.store(group), mode="r")
    >>> shown.metadata.zarr_format, shown["t"][:].tolist()
    (3, [280.0, 281.5])
    """
    if isinstance(target, TegulaStore) and not path and not storage_options:
        return target.with_read_only(read_only or target.read_only)
    inner, prefix = shown(target, path, read_only, storage_options)
    return TegulaStore(inner, prefix, read_only=read_only or inner.read_only)
