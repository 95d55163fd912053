"""The view: a selection of an array that reads and writes when it is asked for elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.errors import MetadataError, SelectionError, brief
from tegula.indexing import Affine, Transform, split_fields, whole
from tegula.metadata.data_types import as_data_type
from tegula.runtime import optional
from tegula.runtime.deferred import Later
from tegula.views.base import Base
from tegula.views.operators import Operand, not_computed

if TYPE_CHECKING:
    import numpy.typing as npt

    from tegula import display
    from tegula.engine import Future
    from tegula.metadata.data_types import DataType
    from tegula.views import interop, store
    from tegula.views.store import ViewStore
else:
    display, interop, store = Later("tegula.display"), Later("tegula.views.interop"), Later("tegula.views.store")

__all__ = ["View", "part_of", "view_of"]

Field = str | list[str] | None
_NAMING = frozenset({str, np.str_, list})  # types of items that may name fields of records


class View(Operand):
    """A selection of an array that is read when its elements are asked for; made by `Array.lazy` and `concat`.

    Selecting from a view gives a view, reads nothing, and takes a few microseconds. ``view[...]``, `numpy.asarray` and
    `read` read its elements, with the requests of the same selection from the array. An assignment to a view or a
    selection of it writes to the array.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, data=[[1, 2, 3], [4, 5, 6]])
    >>> view = a.lazy[:, ::2].T
    >>> view
    <tegula.View (2, 2) int64 of <tegula.Array zarr3 (2, 3) int64 chunks (2, 3) ...>>
    >>> view[1][...]
    array([3, 6])
    >>> view[0] = 0
    >>> a[...]
    array([[0, 2, 3],
           [0, 5, 6]])
    """

    __slots__ = ("_base", "_field", "_transform", "_type")
    kind = "view"

    def __init__(self, base: Base, transform: Transform, field: Field, type: np.dtype[Any] | None) -> None:
        self._base, self._transform, self._field, self._type = base, transform, field, type

    def __reduce__(self) -> tuple[Any, ...]:
        return View, (self._base, self._transform, self._field, self._type)

    # --- description

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self._transform.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements that reading returns."""
        return self._stored_type if self._type is None else self._type

    @property
    def _stored_type(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self._base.dtype
        if self._field is not None:
            dtype = dtype[self._field]
        return dtype

    @property
    def _data_type(self) -> DataType:
        if self._type is not None or self._field is not None:
            return as_data_type(self.dtype)
        return self._base.data_type

    @property
    def _fill(self) -> npt.NDArray[Any] | None:
        fill = self._base.fill
        if fill is not None and self._field is not None:
            fill = np.asarray(fill[self._field])
        return fill if fill is None or self._type is None else fill.astype(self._type)

    @property
    def _attributes(self) -> Mapping[str, Any]:
        return store.attributes_of(self)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._transform.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self._transform.shape)

    @property
    def itemsize(self) -> int:
        """Bytes that one element takes in memory; for elements of variable length, those of a reference."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes that all elements take in memory."""
        return self.size * self.dtype.itemsize

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of the parts that lie in one chunk each; ``None`` where chunks do not divide the view evenly.

        Along an axis that an index array selects, and along a new axis, the length is that of the view.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=(100, 100), chunks=(10, 20), dtype="i4")
        >>> a.lazy[10::2].chunks, a.lazy[5:].chunks
        ((5, 20), None)
        """
        lengths = self._chunk_lengths()
        found = tuple([length for length in lengths if length is not None])
        return found if len(found) == len(lengths) else None

    def _chunk_lengths(self) -> tuple[int | None, ...]:
        lengths: list[int | None] = [max(1, size) for size in self.shape]
        for one, chunk in zip(self._transform.maps, self._base.chunks):
            if isinstance(one, Affine) and one.axis >= 0:
                lengths[one.axis] = _chunk_length(one, self.shape[one.axis], chunk)
        return tuple(lengths)

    def _part_lengths(self) -> tuple[int, ...]:
        """Return lengths to divide the axes by, each that of the chunks where these divide the view evenly."""
        known = self._chunk_lengths()
        lengths = [max(1, size) for size in self.shape]
        for one, part in zip(self._transform.maps, self._base.parts if None in known else ()):
            if isinstance(one, Affine) and one.axis >= 0:  # no larger than what is within a chunk
                lengths[one.axis] = min(lengths[one.axis], max(1, part // abs(one.step)))
        return tuple([length or part for length, part in zip(known, lengths)])

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """Names of the axes, if there are any; axes that index arrays or ``None`` have added have no names."""
        return self._transform.names

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes of the array."""
        return self._base.attrs

    @property
    def read_only(self) -> bool:
        """``True`` if writing raises `ReadOnlyError`."""
        return self._base.read_only

    @property
    def location(self) -> str:
        """Where the array is."""
        return self._base.location

    # --- selecting

    def __getitem__(self, selection: Any) -> Any:
        if selection is ... or (type(selection) is tuple and not selection):
            return self._read(None, selection is not ...)
        return self._selected(selection)

    def __setitem__(self, selection: Any, values: Any) -> None:
        self._selected(selection)._write(values)

    def _selected(self, selection: Any, outer: bool = False) -> View:
        field = self._field
        items = selection if type(selection) is tuple else (selection,)
        if not _NAMING.isdisjoint(map(type, items)) and self._type is None and (names := self._stored_type.names):
            field, selection = self._with_fields(names, selection)
        try:
            transform = self._transform.index(selection, outer=outer)
        except SelectionError as error:
            error.within(path=self.location)
            raise
        return View(self._base, transform, field, self._type)

    def _with_fields(self, names: tuple[str, ...], selection: Any) -> tuple[Field, Any]:
        """Separate the fields that a selection names from the rest."""
        fields, selection = split_fields(selection)
        if fields is None:
            return self._field, selection
        if isinstance(self._field, str):
            raise SelectionError("a field of a field can't be selected; read the field first", path=self.location)
        for name in [fields] if isinstance(fields, str) else fields:
            if name not in names:
                raise SelectionError(
                    f"there is no field {name!r}; the fields are {', '.join(names)}", path=self.location
                )
            if self._stored_type[name].subdtype is not None:
                raise SelectionError(f"the field {name!r} holds arrays; read it first, as in a[{name!r}]")
        return fields, selection

    @property
    def lazy(self) -> View:
        """The view itself, so that code takes arrays and views alike."""
        return self

    @property
    def oindex(self) -> Selector:
        """Orthogonal selection: one int, slice, integer array or 1-d mask per axis, combined as an outer product."""
        return Selector(self, True)

    @property
    def vindex(self) -> Selector:
        """Coordinate and mask selection: integer arrays, one per axis, broadcast together; or a mask of the view."""
        return Selector(self, False)

    def sel(self, **selections: Any) -> View:
        """Return the view of an orthogonal selection by position along axes that are given by name.

        Parameters
        ----------
        **selections : int, slice, or 1-d array_like of int or bool
            The selection along each named axis.

        Raises
        ------
        SelectionError
            If there is no axis of that name, or a selection does not fit it.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, data=[[1, 2], [3, 4]], dimension_names=["time", "x"])
        >>> a.lazy.sel(x=1, time=slice(0, 1))[...]
        array([2])
        """
        names = self.dimension_names or ()
        items: list[Any] = [slice(None)] * self.ndim
        for name, selection in selections.items():
            if name not in names:
                known = f"the names are {', '.join(map(str, names))}" if names else "its axes have no names"
                raise SelectionError(f"there is no axis {name!r}; {known}", path=self.location)
            items[names.index(name)] = selection
        return self._selected(tuple(items), True)

    def transpose(self, *axes: Any) -> View:
        """Return the view with its axes in another order, by default reversed.

        Parameters
        ----------
        *axes : int, or tuple of int
            The axes in their new order.

        Raises
        ------
        SelectionError
            If they are not all axes, each once.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_array({}, shape=(2, 3, 4), dtype="u1").lazy.transpose(2, 0, 1).shape
        (4, 2, 3)
        """
        order = None if axes in ((), (None,)) else axes[0] if len(axes) == 1 and np.iterable(axes[0]) else axes
        try:
            transform = self._transform.transpose(order)
        except SelectionError as error:
            error.within(path=self.location)
            raise
        return View(self._base, transform, self._field, self._type)

    @property
    def T(self) -> View:  # noqa: N802 - as NumPy has it
        """The view with its axes reversed."""
        return self.transpose()

    def astype(self, dtype: npt.DTypeLike) -> View:
        """Return the view with elements that are converted when they are read, by NumPy's rules.

        Raises
        ------
        MetadataError
            If `dtype` is not a data type.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_array({}, data=[1, 2]).lazy.astype("f4")[1:][...]
        array([2.], dtype=float32)
        """
        try:
            return View(self._base, self._transform, self._field, np.dtype(dtype))
        except (TypeError, ValueError, OverflowError) as error:
            raise MetadataError(f"{brief(dtype)} is not a data type of NumPy: {error}", field="dtype") from error

    # --- reading and writing

    def read(self, out: Any = None) -> Future[Any]:
        """Read the elements in the background.

        Parameters
        ----------
        out : ndarray, tensor or buffer, optional
            Receives the elements; see `Array.read`.

        Returns
        -------
        Future
            Its ``result()`` or ``await`` gives the array, or `out`, or raises the error of the read.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_array({}, data=[1, 2, 3]).lazy[1:].read().result()
        array([2, 3])
        """
        return self._base.start(self._read, out, False)

    def write(self, values: Any) -> Future[None]:
        """Write the elements in the background, as ``view[...] = values``.

        Parameters
        ----------
        values : array_like
            Values that can be broadcast to the view's shape; must not change until the future is done.

        Returns
        -------
        Future
            Its ``result()`` or ``await`` gives ``None``, or raises the error of the write, such as `ReadOnlyError` or
            `SelectionError`.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, data=[1, 2, 3])
        >>> a.lazy[1:].write(7).result()
        >>> a[...]
        array([1, 7, 7])
        """
        return self._base.start(self._write, values)

    def _read(self, out: Any, is_point: bool) -> Any:
        wanted = self._type
        if wanted is None or wanted == self._stored_type:
            return self._base.read(self._transform, self._field, out, is_point=is_point)
        values = self._base.read(self._transform, self._field, None, is_point=is_point)
        values = np.asarray(values).astype(wanted, copy=False)
        if out is None:
            return values[()] if is_point else values
        memory = interop.as_output(out)
        if memory.shape != values.shape:
            raise SelectionError(f"out has the shape {memory.shape}, the view {values.shape}", path=self.location)
        memory[...] = values
        return out

    def _write(self, values: Any) -> None:
        self._base.write(self._transform, self._field, values)

    # --- other libraries

    def as_store(self) -> ViewStore:
        """Return a read-only store with the view as a Zarr v3 array, for libraries and functions that take a store.

        Functions of tegula that take a store, such as `tegula.convert`, `tegula.serve` and `tegula.zarr.store`, also
        take the view itself.

        Raises
        ------
        UnsupportedError
            If Zarr v3 has no data type for the elements.

        Examples
        --------
        >>> import tegula
        >>> view = tegula.create_array({}, data=[1, 2, 3, 4]).lazy[::2]
        >>> tegula.open(view.as_store())
        <tegula.Array zarr3 (2,) int64 chunks (2,) ...>
        >>> tegula.convert(view, target := tegula.MemoryStore(), format="zarr2").arrays[0].shape
        (2,)
        """
        return store.ViewStore(self)

    def to_dask(self, chunks: Any = "auto", *, inline_array: bool = False, name: str | bool | None = None) -> Any:
        """Return a dask array over the view; see `Array.to_dask`.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=(6, 4), chunks=(2, 4), dtype="i4", fill_value=1)
        >>> int(a.lazy[2:, ::2].to_dask(chunks=None).sum().compute())
        8
        """
        return interop.dask_array(_ForDask(self), self.dtype, chunks, inline_array=inline_array, name=name)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        transform = self._transform
        return "tegula.View", self._base.token(), transform.shape, transform.maps, self._field, str(self.dtype)

    def view(self, *, height: int = 640) -> Any:
        """Show the elements and attributes in a notebook, in a frame served by a background server; see `Array.view`.

        Examples
        --------
        >>> import tegula
        >>> shown = tegula.create_array({}, data=[1, 2, 3]).lazy[1:].view()
        >>> shown.url.startswith("http://127.0.0.1:")
        True
        >>> shown.server.close()
        """
        return optional.library("tegula.server.notebook").view(self, height)  # by name: it is on a higher floor

    # --- conversions

    def __iter__(self) -> Iterator[View]:
        return (self._selected(index) for index in range(len(self)))

    def __contains__(self, value: object) -> bool:
        raise not_computed(self, "in")

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float, complex, np.generic, np.ndarray, View)) and other is not self:
            raise not_computed(self, "==")
        return self is other

    def __repr__(self) -> str:
        return f"<tegula.View {self.shape} {self.dtype} of {self._base!r}>"

    def _repr_html_(self) -> str:
        return display.view_html(self)


class Selector:
    """Another kind of selection from a view, for reading and writing: `View.oindex` and `View.vindex`."""

    __slots__ = ("_outer", "_view")

    def __init__(self, view: View, outer: bool) -> None:
        self._view, self._outer = view, outer

    def __getitem__(self, selection: Any) -> View:
        return self._view._selected(selection, self._outer)

    def __setitem__(self, selection: Any, values: Any) -> None:
        self[selection][...] = values


class _ForDask:
    """A view as dask takes arrays: a selection reads."""

    shards = None

    def __init__(self, view: View) -> None:
        self._view = view
        self.shape, self.dtype, self.ndim = view.shape, view.dtype, view.ndim
        self.chunks = view._part_lengths()

    def __getitem__(self, selection: Any) -> Any:
        return self._view._selected(selection)[...]

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return self._view.__dask_tokenize__()


def _chunk_length(one: Affine, size: int, chunk: int | None) -> int | None:
    """Return the length of the parts into which chunks divide an axis of a view; ``None`` if lengths differ."""
    if chunk is None:
        return None
    step = abs(one.step)
    inside = one.start % chunk  # the first element's index in its chunk
    first = (chunk - 1 - inside) // step + 1 if one.step > 0 else inside // step + 1
    if first >= size:
        return max(1, size)
    if step >= chunk:
        return 1
    return first if chunk % step == 0 and first == chunk // step else None


def part_of(view: View, inner: Transform, field: Field = None) -> View:
    """Return the view of elements of a view, which a transform gives."""
    own = view._field if field is None else field
    return View(view._base, view._transform.after(inner), own, view._type)


def view_of(base: Base) -> View:
    """Return the view of a whole base."""
    return View(base, whole(base.shape, base.names), None, None)
