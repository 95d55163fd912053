"""`open`: opens or creates the array of a spec."""

from __future__ import annotations

from typing import Any

from tegula.tensorstore.context import Context
from tegula.tensorstore.errors import checked, invalid, type_error
from tegula.tensorstore.future import Batch, Future, immediate
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.kvstore.transaction import Transaction
from tegula.tensorstore.spec.interface import Opening
from tegula.tensorstore.spec.spec import OpenMode, Spec
from tegula.tensorstore.store import TensorStore

__all__ = ["open"]


def open(
    spec: Any,
    *,
    read: bool | None = None,
    write: bool | None = None,
    open_mode: OpenMode | None = None,
    open: bool | None = None,
    create: bool | None = None,
    delete_existing: bool | None = None,
    assume_metadata: bool | None = None,
    assume_cached_metadata: bool | None = None,
    context: Context | None = None,
    transaction: Transaction | None = None,
    batch: Batch | None = None,
    kvstore: Any = None,
    **constraints: Any,
) -> Future[TensorStore]:
    """Open or create an array.

    Parameters
    ----------
    spec : Spec, JSON or URL
        The array to open.
    read, write : bool, optional
        The access that is required; by default both.
    open_mode, open, create, delete_existing, assume_metadata, assume_cached_metadata : optional
        The actions that are allowed, instead of those of the spec; by default, only opening an existing array.
    context : Context, optional
        The source of shared resources; by default a new context.
    transaction : Transaction, optional
        The transaction for opening the array, and for all its reads and writes.
    batch : Batch, optional
        The batch that may delay reading the metadata.
    kvstore : KvStore or KvStore.Spec, optional
        The key-value store of the array, if the spec does not specify it.
    recheck_cached, recheck_cached_metadata, recheck_cached_data : bool, "open" or float, optional
        When to revalidate cached values: always, never, or if they are older than the opening or a given time.
    rank, dtype, domain, shape, chunk_layout, codec, fill_value, dimension_units, schema : optional
        Constraints on an existing or new array, as for `Schema`.

    Returns
    -------
    Future of TensorStore

    Raises
    ------
    ValueError, NotImplementedError
        If the arguments contradict each other. The future raises later errors.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> store = ts.open(
    ...     {"driver": "zarr", "kvstore": {"driver": "memory"}}, create=True, dtype=ts.uint16, shape=[1000, 2000, 3000]
    ... ).result()
    >>> store.chunk_layout.read_chunk.shape
    (101, 101, 101)
    """
    for name in ("minimal_spec", "unbind_context", "strip_context"):
        if name in constraints:
            raise type_error(f"open(): incompatible function arguments: unexpected keyword argument {name!r}")
    chosen = Spec(spec)
    if isinstance(kvstore, KvStore):
        if transaction is not None and kvstore.transaction not in (None, transaction):
            raise invalid("Invalid kvstore: Inconsistent transactions specified")
        transaction = transaction or kvstore.transaction
        kvstore = kvstore.spec(retain_context=True)
    for name, value, kind in (("transaction", transaction, Transaction), ("batch", batch, Batch)):
        if value is not None:
            checked(name, value, kind)
    context = Context() if context is None else context
    chosen.update(
        open_mode=open_mode,
        open=open,
        create=create,
        delete_existing=delete_existing,
        assume_metadata=assume_metadata,
        assume_cached_metadata=assume_cached_metadata,
        kvstore=kvstore,
        context=context,
        **constraints,
    )
    reads, writes = (bool(read), bool(write)) if read or write else (True, True)
    return immediate(_opened, chosen, Opening(context, transaction, reads, writes, batch))


def _opened(spec: Spec, request: Opening) -> TensorStore:
    return TensorStore._of(*spec._open(request), request.transaction)
