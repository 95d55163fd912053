"""`TensorStore`: an open array, or a view of one; `open` opens or creates the array of a spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tegula.errors import TegulaError
from tegula.runtime.frozen import attribute, computed
from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.constraints.casting import convert, convertible, implicit
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.schema import Schema, fill_through, layout_through, units_through
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.context import Context
from tegula.tensorstore.drivers.adapting.cast import CastDriver
from tegula.tensorstore.errors import StatusError, checked, checked_or_none, invalid, status, type_error
from tegula.tensorstore.future import Batch, Future, WriteFutures, background, failed, immediate, written
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.operations import Subscript
from tegula.tensorstore.index.transform import (
    Indexable,
    IndexTransform,
    base_bounds,
    check_implicit,
    identity,
    resolved_transform,
)
from tegula.tensorstore.json import naming, pretty, read_indices
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.kvstore.transaction import Transaction
from tegula.tensorstore.spec.interface import Driver, DriverSpec, Opening, ResizeOptions
from tegula.tensorstore.spec.spec import OpenMode, Spec
from tegula.tensorstore.views import Selection, align, as_source, select, spread

__all__ = ["TensorStore", "open"]


T = TypeVar("T")
_SMALL = 2**20
"""Operations on up to this many bytes run in the calling thread; starting another one would take longer."""


class _Statistics(NamedTuple):
    """Storage statistics of an array; None for those not requested."""

    not_stored: bool | None = None
    fully_stored: bool | None = None

    def __repr__(self) -> str:
        return f"TensorStore.StorageStatistics(not_stored={self.not_stored}, fully_stored={self.fully_stored})"


_Statistics.__name__, _Statistics.__qualname__ = "StorageStatistics", "TensorStore.StorageStatistics"


class _WritableSubscript(Subscript["TensorStore"]):
    """``store.oindex`` and the like, which support assignment."""

    def __setitem__(self, argument: Any, source: Any) -> None:
        self[argument].write(source).result()


class TensorStore(Indexable):
    """An open array, or a view of one; indexing returns views and reads nothing.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> store = ts.array([[1, 2, 3], [4, 5, 6]], dtype=ts.uint32)
    >>> store[1:2].domain
    { [1, 2), [0, 3) }
    >>> store[:, 1:].read().result()
    array([[2, 3],
           [5, 6]], dtype=uint32)
    """

    __slots__ = ("__weakref__", "_driver", "_selection", "_transaction", "_view")
    StorageStatistics: ClassVar[type[_Statistics]] = _Statistics

    _driver: Driver
    _view: IndexTransform | None
    _selection: Selection | None
    _transaction: Transaction | None

    def __new__(cls) -> TensorStore:
        raise type_error("cannot create 'tensorstore.TensorStore' instances")

    @classmethod
    def _of(
        cls, driver: Driver, view: IndexTransform | None = None, transaction: Transaction | None = None
    ) -> TensorStore:
        """Return a view of a base array, by default of the whole array."""
        self = object.__new__(cls)
        self._driver, self._view, self._transaction, self._selection = driver, view, transaction, None
        return self

    # --- indexing

    def _transform(self) -> IndexTransform:
        if self._view is None:
            self._view = identity(self._driver.domain)
        return self._view

    def _with_transform(self, transform: IndexTransform) -> TensorStore:
        return TensorStore._of(self._driver, transform, self._transaction)

    def _subscript(self, name: str, apply: Callable[[Any], Any]) -> _WritableSubscript:
        return _WritableSubscript(self, name, apply)

    def __setitem__(self, key: Any, source: Any) -> None:
        self[key].write(source).result()

    # --- properties

    @property
    def domain(self) -> IndexDomain:
        """Domain of the view."""
        return self._driver.domain if self._view is None else self._view.domain

    rank: int = attribute("domain.rank", "Number of dimensions.")
    ndim = rank
    origin: tuple[int, ...] = attribute("domain.origin", "Lower bound of each dimension.")
    shape: tuple[int, ...] = attribute("domain.shape", "Extent of each dimension.")
    size: int = attribute("domain.size", "Number of elements.")
    dtype: dtypes.dtype = attribute("_driver.dtype", "Data type of the elements.")
    mode: Literal["r", "w", "rw"] = attribute(
        "_driver.mode", 'Whether the array can be read (``"r"``), written (``"w"``) or both (``"rw"``).'
    )

    readable: bool = computed(lambda store: "r" in store._driver.mode, "Whether the array can be read.")
    writable: bool = computed(lambda store: "w" in store._driver.mode, "Whether the array can be written.")
    transaction: Transaction | None = attribute(
        "_transaction", "The transaction for reads and writes; None if there is none."
    )
    kvstore: KvStore | None = attribute("_driver.kvstore", "The key-value store of the array; None if it has none.")
    codec: CodecSpec | None = attribute("_driver.codec", "The codec of the chunks; None if they are not encoded.")

    @property
    def chunk_layout(self) -> ChunkLayout:
        """The chunk layout, in the coordinates of this view."""
        layout = self._driver.chunk_layout
        return layout if self._view is None else layout_through(layout, self._view)

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """The value of elements that were never written; None if unknown."""
        fill = self._driver.fill_value
        return fill if fill is None or self._view is None else fill_through(fill, self._driver.domain, self._view)

    @property
    def dimension_units(self) -> tuple[Unit | None, ...]:
        """The physical unit of each dimension; None for a dimension without a unit."""
        units = self._driver.dimension_units
        if units is None:
            return (None,) * self.rank
        return tuple(units) if self._view is None else units_through(units, self._view)

    @property
    def schema(self) -> Schema:
        """The schema of the view; an array created with it has the same properties."""
        names = ("dtype", "domain", "chunk_layout", "codec", "fill_value", "dimension_units")
        return Schema(**{name: getattr(self, name) for name in names})

    @property
    def base(self) -> TensorStore | None:
        """The underlying array of a cast or downsampled one; None for other arrays, or if no view of it corresponds."""
        base_and_view = self._driver.base_view(self._transform())
        return None if base_and_view is None else TensorStore._of(base_and_view[0], base_and_view[1], self._transaction)

    @property
    def url(self) -> str:
        """A URL that opens the same array; raises NotImplementedError or ValueError if there is none."""
        return self.spec().url

    @property
    def attributes(self) -> Any:
        """The attributes stored with the array, as a mapping; changes to it are stored. Not all drivers have them."""
        attributes = getattr(self._driver, "attributes", None)
        if attributes is None:
            raise status("UNIMPLEMENTED", f'"{self._driver.name}" driver has no attributes')
        return attributes

    def spec(
        self,
        *,
        minimal_spec: bool | None = None,
        retain_context: bool | None = None,
        unbind_context: bool | None = None,
        **options: Any,
    ) -> Spec:
        """Return a spec that opens this view again; options are those of `Spec.update`."""
        driver = self._driver.latest(look=False)
        spec = Spec._of(*driver.spec_of_view(self._transform(), minimal=bool(minimal_spec)))
        if unbind_context:
            options["unbind_context"] = True
        elif not retain_context:
            options["strip_context"] = True
        if options:
            spec.update(**options)
        return spec

    def _latest(self) -> TensorStore:
        """Return the view with its implicit bounds taken from the latest known bounds of the array."""
        driver = self._driver
        latest = driver.latest()
        # implicit bounds of a view may differ from the array's even if the array has not changed
        view = self._view and resolved_transform(self._view, latest.domain)
        return self if latest is driver and view is self._view else TensorStore._of(latest, view, self._transaction)

    # --- reading

    def _selected(self) -> Selection:
        selection = self._selection
        if selection is None:
            self._selection = selection = select(self._view, self._driver.domain)
        return selection

    def read(self, *, order: Literal["C", "F"] = "C", batch: Batch | None = None) -> Future[npt.NDArray[Any]]:
        """Read all elements of the view into a NumPy array, in the memory order of C or of Fortran."""
        if order not in ("C", "F"):
            raise type_error("`order` must be specified as 'C' or 'F'")
        driver = self._driver
        if "r" not in driver.mode:
            return failed(invalid("Source does not support reading."))
        if batch is not None:
            self._load()
            return checked("batch", batch, Batch)._defer(self._read, order, requests=driver.requests)
        return self._start(self._read, order)

    def _start(self, function: Callable[..., T], *args: Any) -> Future[T]:
        """Call a function immediately if the view is small and its storage fast, otherwise in the thread pool."""
        selection, driver = self._selection, self._driver
        if selection is None:
            size = (driver.domain if self._view is None else self._view._domain).size
        else:
            size = selection.size
        if size * driver.dtype.numpy_dtype.itemsize <= _SMALL and not driver.slow and not driver.is_remote:
            return immediate(function, *args)
        self._load()
        return background(function, *args, requests=driver.requests)

    def _load(self) -> None:
        """Import the modules that reads and writes need: threads of the pool must not import any."""
        with suppress(TegulaError):
            self._driver.load(self._selected().transform)

    def _read(self, order: Literal["C", "F"]) -> npt.NDArray[Any]:
        return self._latest()._read_bounded(order)

    def _read_bounded(self, order: Literal["C", "F"]) -> npt.NDArray[Any]:
        """Read the view within its bounds, even if the bounds of the array have changed."""
        selection = self._selected()
        if 0 in selection.shape:
            return np.zeros(selection.shape, self._driver.dtype.numpy_dtype, order)
        values = self._driver.read(selection.transform)
        if values.shape != selection.shape:
            values = np.broadcast_to(values, selection.shape)
        values = np.asarray(values, order=order)
        return values if values.flags.writeable else values.copy(order)

    def __array__(self, dtype: Any = None, copy: bool | None = None, context: Any = None) -> npt.NDArray[Any]:
        values = self.read().result()
        return values if dtype is None else values.astype(dtype, copy=False)

    # --- writing

    def write(
        self, source: Any, *, batch: Batch | None = None, can_reference_source_data_indefinitely: bool | None = None
    ) -> WriteFutures:
        """Write all elements of the view; only those of a TensorStore can be written in a batch.

        Dimensions match by label, or in order from the last one; dimensions of size 1 broadcast.
        `can_reference_source_data_indefinitely` is accepted, but without effect.
        """
        if isinstance(source, TensorStore):
            self._load()
            source._load()
            requests = max(self._driver.requests, source._driver.requests)
            if batch is not None:
                return written(checked("batch", batch, Batch)._defer(self._write_from, source, requests=requests))
            if self._driver.is_remote or source._driver.is_remote:
                return written(background(self._write_from, source, requests=requests))
            start = background if source._driver.slow else self._start
            return written(start(self._write_from, source))
        if batch is not None:
            checked("batch", batch, Batch)
            raise invalid("Invalid batch: batch can only be specified when copying from a TensorStore source")
        return written(self._start(self._write, as_source(source, self._driver.dtype, self.domain.rank)))

    def _write(self, values: npt.NDArray[Any]) -> None:
        self._check_writable()
        self._latest()._write_bounded(values)

    def _write_bounded(self, values: npt.NDArray[Any], domain: IndexDomain | None = None) -> None:
        selection = self._selected()
        if values.ndim == 0:
            values = np.broadcast_to(values, selection.shape)
        elif domain is not None or values.shape != selection.shape:
            target = self.domain
            values = spread(values, align(domain or IndexDomain._of_shape(values.shape), target), target.shape)
        if 0 in selection.shape:
            return
        arranged = selection.arrange(values)
        if self._transaction is None:
            self._driver.write(selection.transform, arranged)
        else:  # the commit may write the values again, after the source has changed
            self._transaction._perform(self._driver.write, selection.transform, arranged.copy())

    def _write_from(self, source: TensorStore) -> None:
        self._check_writable()
        stored, wanted = source.dtype, self._driver.dtype
        if not source.readable:
            raise invalid("Source does not support reading.")
        if not convertible(stored.name, wanted.name):
            raise invalid(f"Cannot convert {stored.name} -> {wanted.name}")
        if not implicit(stored.name, wanted.name):
            raise invalid(f"Explicit conversion required: {stored.name} -> {wanted.name}")
        source, target = source._latest(), self._latest()
        align(source.domain, target.domain)
        values = convert(source._read_bounded("C"), stored.name, wanted.name, wanted.numpy_dtype)
        target._write_bounded(values, source.domain)

    def _check_writable(self) -> None:
        if "w" not in self._driver.mode:
            raise invalid("Destination does not support writing.")

    # --- bounds

    def resolve(self, fix_resizable_bounds: bool = False, batch: Batch | None = None) -> Future[TensorStore]:
        """Return the view with the current bounds of the stored array, if wanted as explicit ones."""

        def act() -> TensorStore:
            driver = self._driver.resolve(fix_resizable_bounds=fix_resizable_bounds, batch=batch)
            view = self._view and resolved_transform(self._view, driver.domain)
            resolved = TensorStore._of(driver, view, self._transaction)
            return resolved.mark_bounds_implicit[False] if fix_resizable_bounds and resolved.rank else resolved

        return immediate(act) if batch is None else checked("batch", batch, Batch)._defer(act)

    def resize(
        self,
        inclusive_min: Iterable[int | None] | None = None,
        exclusive_max: Iterable[int | None] | None = None,
        resize_metadata_only: bool = False,
        resize_tied_bounds: bool = False,
        expand_only: bool = False,
        shrink_only: bool = False,
    ) -> Future[TensorStore]:
        """Change the implicit bounds of the stored array (None keeps one), and return the view with the new bounds.

        A resize of the metadata only keeps chunks outside the new bounds. With `resize_tied_bounds`, it may add or
        remove elements outside this view.
        """
        lower, upper = _bounds("inclusive_min", inclusive_min), _bounds("exclusive_max", exclusive_max)

        def act() -> TensorStore:
            rank = self.rank
            if any(bounds is not None and len(bounds) != rank for bounds in (lower, upper)):
                raise invalid(f"inclusive_min and exclusive_max must have rank {rank}")
            self._check_writable()
            if not self._driver.resizes:
                raise status("UNIMPLEMENTED", "Resize not supported")
            new = lower or (None,) * rank, upper or (None,) * rank
            marked = self._transform()  # with bounds that are implicit in the view alone, until the base resolves them
            check_implicit(marked.domain, *new)
            latest = self._latest()
            driver = latest._driver
            low, high = base_bounds(latest._transform(), driver.domain, *new, tied=resize_tied_bounds)
            resized = driver.resize(
                ResizeOptions(low, high, resize_metadata_only, resize_tied_bounds, expand_only, shrink_only)
            )
            return TensorStore._of(resized, resolved_transform(marked, resized.domain), self._transaction)

        return immediate(act)

    # --- other views, statistics, pickling

    def astype(self, dtype: dtypes.DTypeLike) -> TensorStore:
        """Return a view with the elements converted to another data type."""
        return TensorStore._of(CastDriver(self._driver, dtypes.dtype(dtype)), self._transform(), self._transaction)

    def with_transaction(self, transaction: Transaction | None) -> TensorStore:
        """Return a view with another transaction, or none; raises before the commit of its own one has started."""
        checked_or_none("transaction", transaction, Transaction)
        if self._transaction is not None:
            self._transaction._refuse_leaving()
        return TensorStore._of(self._driver.with_transaction(transaction), self._view, transaction)

    def storage_statistics(
        self, *, query_not_stored: bool = False, query_fully_stored: bool = False
    ) -> Future[_Statistics]:
        """Return whether none, and whether all, of the elements of the view are stored, as far as it is asked for."""

        def act() -> _Statistics:
            none, every = self._driver.storage_statistics(self._selected().transform)
            return _Statistics(none if query_not_stored else None, every if query_fully_stored else None)

        return immediate(act)

    def __copy__(self) -> TensorStore:
        return self

    def __reduce__(self) -> Any:
        if self._transaction is not None:
            raise invalid("Cannot serialize TensorStore with bound transaction")
        spec = self.spec(retain_context=True)
        return _reopen, (spec._driver, spec.transform, self.readable, self.writable)

    def __repr__(self) -> str:
        try:
            return pretty(self.spec(retain_context=True).to_json(), "TensorStore(", ")")
        except StatusError:
            return "TensorStore(...)"


def _reopen(spec: DriverSpec, view: IndexTransform, read: bool, write: bool) -> TensorStore:
    driver, _ = spec.open(Opening(Context(), None, read, write))
    return TensorStore._of(driver, resolved_transform(view, driver.domain))


_UNCHANGED = -(2**63)


def _bounds(name: str, values: Iterable[int | None] | None) -> tuple[int | None, ...] | None:
    if values is None:
        return None
    with naming(name):
        return tuple([None if bound == _UNCHANGED else bound for bound in read_indices(values)])


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
    """Open or create an array; by default, an existing one for reading and writing.

    Flags of opening replace those of the spec. Other options are those of `Spec.update`; if they contradict the spec or
    each other, this function raises, and for all later errors the future.

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
