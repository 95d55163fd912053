"""`open`: from a spec to an open array."""

from __future__ import annotations

from typing import Any

from tegula.errors import TegulaError
from tegula.tensorstore.batch import Batch
from tegula.tensorstore.context import Context
from tegula.tensorstore.errors import annotate, type_error
from tegula.tensorstore.future import Future, immediate
from tegula.tensorstore.index.transform import IndexTransform, compose, identity
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.kvstore.transaction import Transaction
from tegula.tensorstore.spec.interface import Driver, Opening
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
        What to open.
    read, write : bool, optional
        What for; both if neither is true.
    open_mode, open, create, delete_existing, assume_metadata, assume_cached_metadata : optional
        What opening may do, instead of what the spec says; by default to open what exists.
    context : Context, optional
        Where shared resources come from; a new one by default.
    transaction : Transaction, optional
        What to do it in, and everything that is done with the array.
    batch : Batch, optional
        What reading metadata may wait for.
    kvstore : KvStore or KvStore.Spec, optional
        Where the array is stored, if the spec does not say it.
    recheck_cached, recheck_cached_metadata, recheck_cached_data : bool, "open" or float, optional
        From when on what is cached is fresh.
    rank, dtype, domain, shape, chunk_layout, codec, fill_value, dimension_units, schema : optional
        Constraints, as for `Schema`: an array that exists must be so, a new one will be.

    Returns
    -------
    Future of TensorStore

    Raises
    ------
    ValueError, NotImplementedError
        If the arguments contradict each other. What fails later, the future raises.

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
        transaction = transaction or kvstore.transaction
        kvstore = kvstore.spec(retain_context=True)
    for name, value, kind in (("transaction", transaction, Transaction), ("batch", batch, Batch)):
        if value is not None and not isinstance(value, kind):
            raise type_error(f"Invalid {name}")
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
    source = spec._driver
    try:
        driver = source.open(request)
    except TegulaError as error:
        raise annotate(error, f'Error opening "{source.name}" driver') from error
    return TensorStore._of(driver, _opened_view(spec, driver), request.transaction)


def _opened_view(spec: Spec, driver: Driver) -> IndexTransform | None:
    """Return the transform from the domain that a spec asks for to that of the array; None if they are the same."""
    view = spec._view
    if view is None:
        return None
    whole = identity(driver.domain)
    return None if view == whole else compose(whole, view)
