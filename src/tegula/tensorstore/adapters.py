"""Arrays made of arrays: of NumPy's, of other arrays converted, downsampled or put together, or of functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Literal, overload

import numpy as np

from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.context import Bindings, Context
from tegula.tensorstore.drivers.array import ArrayDriver, ArraySpec
from tegula.tensorstore.drivers.cast import CastSpec
from tegula.tensorstore.drivers.downsample import downsample_driver, downsample_spec
from tegula.tensorstore.drivers.stack import Layer, StackDriver, checked_layers
from tegula.tensorstore.drivers.virtual import default_context
from tegula.tensorstore.drivers.virtual_chunked import virtual_driver
from tegula.tensorstore.errors import StatusError, annotate, status, type_error
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.transform import IndexTransform
from tegula.tensorstore.json.binding import invalid
from tegula.tensorstore.kvstore.transaction import Transaction
from tegula.tensorstore.sources import as_source
from tegula.tensorstore.spec.interface import mode_of
from tegula.tensorstore.spec.spec import Spec
from tegula.tensorstore.store import TensorStore

__all__ = ["DownsampleMethod", "array", "cast", "concat", "downsample", "overlay", "stack", "virtual_chunked"]

DownsampleMethod = Literal["stride", "median", "mode", "mean", "min", "max"]
_LAYER_MISMATCH = "Layer dtype of {} does not match existing dtype of {}"


def array(
    array: Any,
    dtype: dtypes.DTypeLike | None = None,
    *,
    context: Context | None = None,
    copy: bool | None = None,
    write: bool | None = None,
) -> TensorStore:
    """Return an array in memory, which reads and writes a NumPy array if it can.

    Parameters
    ----------
    array : array_like
        The elements.
    dtype : dtype, optional
        Their data type.
    context : Context, optional
        Where shared resources come from.
    copy : bool, optional
        Copy the array always, or never; by default, if it has to be.
    write : bool, optional
        Whether it must be possible to write, or must not.

    Raises
    ------
    ValueError
        If there is no such data type, or it would have to be copied.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> ts.array([1, 2], dtype=ts.uint32)
    TensorStore({
      'array': [1, 2],
      'context': {'data_copy_concurrency': {}},
      'driver': 'array',
      'dtype': 'uint32',
      'transform': {'input_exclusive_max': [2], 'input_inclusive_min': [0]},
    })
    """
    wanted = None if dtype is None else dtypes.dtype(dtype)
    values = _as_values(array, wanted, copy)
    if wanted is None:
        wanted = _data_type(values)
    if write and not values.flags.writeable:
        if copy is False:
            raise invalid("Unable to avoid copy while creating an array that can be written")
        values = values.copy()
    driver = ArrayDriver(values, wanted)
    if context is not None:
        driver.bindings = Bindings(ArraySpec.resource_kinds).bound(context)
    driver.mode = "rw" if values.flags.writeable and write is not False else "r"
    return TensorStore._of(driver)


def _as_values(array: Any, wanted: dtypes.dtype | None, copy: bool | None) -> Any:
    if wanted is not None and wanted.numpy_dtype.kind == "O" and not isinstance(array, np.ndarray):
        rank = 32 if isinstance(array, (list, tuple)) else 0
        return as_source(array, wanted, rank)
    if wanted is not None and wanted.name in ("string", "ustring") and array.dtype.kind != "O":
        return as_source(array.tolist(), wanted, array.ndim)
    numpy_dtype = None if wanted is None else wanted.numpy_dtype
    if copy is False:
        values = np.array(array, numpy_dtype, copy=False)
    elif copy:
        values = np.array(array, numpy_dtype)
    else:
        values = np.asarray(array, numpy_dtype)
    if values.dtype.byteorder == ">" or not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if values.dtype.kind in "SV" and values.dtype.names is None and values.dtype.itemsize > 1 and wanted is None:
        letter = "S1" if values.dtype.kind == "S" else "V1"
        if dtypes.dtype(values.dtype).numpy_dtype == np.dtype(letter):
            values = np.ascontiguousarray(values).reshape((*values.shape, 1)).view(letter)
    return values


def _data_type(values: Any) -> dtypes.dtype:
    if values.dtype.kind != "O":
        return dtypes.dtype(values.dtype)
    if values.size and all(isinstance(value, str) for value in values.flat):
        return dtypes.ustring
    if values.size and all(isinstance(value, bytes) for value in values.flat):
        return dtypes.string
    return dtypes.json


@overload
def cast(base: TensorStore, dtype: dtypes.DTypeLike) -> TensorStore: ...
@overload
def cast(base: Spec, dtype: dtypes.DTypeLike) -> Spec: ...
def cast(base: TensorStore | Spec, dtype: dtypes.DTypeLike) -> TensorStore | Spec:
    """Return a view, or the spec of one, with the elements converted to another data type.

    Parameters
    ----------
    base : TensorStore or Spec
        What to convert.
    dtype : dtype
        To what.

    Raises
    ------
    ValueError
        If nothing converts from one type to the other.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> ts.cast(ts.array([1.5, 2.5], dtype=ts.float32), ts.uint32).read().result()
    array([1, 2], dtype=uint32)
    """
    if isinstance(base, TensorStore):
        return base.astype(dtype)
    if not isinstance(base, Spec):
        raise type_error(f"cast(): incompatible function arguments: {base!r} is no TensorStore or Spec")
    below = Spec._of(base._driver, None)
    return Spec._of(CastSpec.of(below, dtypes.dtype(dtype)), base.transform)


@overload
def downsample(base: TensorStore, downsample_factors: Iterable[int], method: DownsampleMethod) -> TensorStore: ...
@overload
def downsample(base: Spec, downsample_factors: Iterable[int], method: DownsampleMethod) -> Spec: ...
def downsample(
    base: TensorStore | Spec, downsample_factors: Iterable[int], method: DownsampleMethod
) -> TensorStore | Spec:
    """Return a view, or the spec of one, with every block of elements reduced to one.

    Parameters
    ----------
    base : TensorStore or Spec
        What to downsample.
    downsample_factors : sequence of int
        The shape of a block; blocks begin at multiples of it.
    method : {"stride", "mean", "min", "max", "median", "mode"}
        How.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> store = ts.array([1, 3, 5, 9, 10], dtype=ts.float32)
    >>> ts.downsample(store, [2], "mean").read().result()
    array([ 2.,  7., 10.], dtype=float32)
    """
    factors = tuple(int(factor) for factor in downsample_factors)
    if isinstance(base, TensorStore):
        driver = downsample_driver(base._driver, base._transform(), factors, method)
        return TensorStore._of(driver, None, base._transaction)
    if not isinstance(base, Spec):
        raise type_error(f"downsample(): incompatible function arguments: {base!r} is no TensorStore or Spec")
    return downsample_spec(base, factors, method)


def overlay(
    layers: Iterable[TensorStore | Spec],
    *,
    read: bool | None = None,
    write: bool | None = None,
    context: Context | None = None,
    transaction: Transaction | None = None,
    **constraints: Any,
) -> TensorStore:
    """Lay arrays over each other, each where its domain is; later ones cover earlier ones.

    Parameters
    ----------
    layers : sequence of (TensorStore or Spec)
        The arrays. Specs must say their domain, and are opened when they are needed.
    read, write : bool, optional
        What for; both if neither is true.
    context : Context, optional
        Where shared resources come from.
    transaction : Transaction, optional
        What reads and writes are part of.
    rank, dtype, domain, shape, dimension_units, schema : optional
        Constraints, as for `Schema`.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> a, b = ts.array([1, 2, 3], dtype=ts.uint32), ts.array([7, 8, 9], dtype=ts.uint32)
    >>> ts.overlay([a, b[1:2]]).read().result()
    array([1, 8, 3], dtype=uint32)
    """
    return _stacked(_layers(layers, "overlay"), (read, write), context, transaction, constraints)


def stack(
    layers: Iterable[TensorStore | Spec],
    axis: int = 0,
    *,
    read: bool | None = None,
    write: bool | None = None,
    context: Context | None = None,
    transaction: Transaction | None = None,
    **constraints: Any,
) -> TensorStore:
    """Put arrays beside each other along a new dimension.

    Parameters
    ----------
    layers : sequence of (TensorStore or Spec)
        The arrays.
    axis : int
        The new dimension; negative ones count from the end.
    read, write, context, transaction, **constraints
        As for `overlay`.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> a, b = ts.array([1, 2], dtype=ts.uint32), ts.array([7, 8], dtype=ts.uint32)
    >>> ts.stack([a, b], axis=-1).read().result()
    array([[1, 7],
           [2, 8]], dtype=uint32)
    """
    given = _layers(layers, "stack")
    if not given:
        raise invalid("At least one layer must be specified for stack")
    rank = _domain(given[0], 0).rank
    if not -rank - 1 <= axis <= rank:
        raise invalid(f"Dimension index {axis} is outside valid range [{-rank - 1}, {rank + 1})")
    axis %= rank + 1
    placed = []
    for number, layer in enumerate(given):
        domain = _domain(layer, number)
        if domain.rank != rank:
            raise invalid(
                f"Layer {number}: Layer domain {domain} of rank {domain.rank} does not match layer 0 rank of {rank}"
            )
        placed.append(layer[_inserted(domain, axis, number)])
    return _stacked(placed, (read, write), context, transaction, constraints)


def concat(
    layers: Iterable[TensorStore | Spec],
    axis: int | str,
    *,
    read: bool | None = None,
    write: bool | None = None,
    context: Context | None = None,
    transaction: Transaction | None = None,
    **constraints: Any,
) -> TensorStore:
    """Put arrays one after another along one of their dimensions.

    Parameters
    ----------
    layers : sequence of (TensorStore or Spec)
        The arrays.
    axis : int or str
        The dimension, or its label.
    read, write, context, transaction, **constraints
        As for `overlay`.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> a, b = ts.array([1, 2], dtype=ts.uint32), ts.array([7, 8, 9], dtype=ts.uint32)
    >>> ts.concat([a, b], axis=0).read().result()
    array([1, 2, 7, 8, 9], dtype=uint32)
    """
    given = _layers(layers, "concat")
    if not given:
        raise invalid("At least one layer must be specified for concat")
    domains = [_domain(layer, number) for number, layer in enumerate(given)]
    first = domains[0]
    for number, domain in enumerate(domains):
        if domain.rank != first.rank:
            raise invalid(
                f"Layer {number}: Layer domain {domain} of rank {domain.rank} does not match layer 0 rank of "
                f"{first.rank}"
            )
    at = _axis(axis, domains)
    start = first.inclusive_min[at]
    placed = []
    for layer, domain in zip(given, domains):
        offsets = [0] * first.rank
        offsets[at] = start - domain.inclusive_min[at]
        placed.append(layer.translate_by[tuple(offsets)] if offsets[at] else layer)
        start += domain.shape[at]
    return _stacked(placed, (read, write), context, transaction, constraints)


def _axis(axis: int | str, domains: list[IndexDomain]) -> int:
    rank = domains[0].rank
    if isinstance(axis, str):
        labels = [next((d.labels[number] for d in domains if d.labels[number]), "") for number in range(rank)]
        if axis and axis in labels:
            return labels.index(axis)
        shown = ", ".join(f'"{label}"' for label in labels)
        raise invalid(f'Label "{axis}" does not match one of {{{shown}}}')
    if not -rank <= axis < rank:
        raise invalid(f"Dimension index {axis} is outside valid range [{-rank}, {rank})")
    return axis % rank


def _inserted(domain: IndexDomain, axis: int, index: int) -> IndexTransform:
    """Return the transform that adds a dimension in which there is one index only."""
    lower, upper, labels = list(domain.inclusive_min), list(domain.exclusive_max), list(domain.labels)
    implicit_lower, implicit_upper = list(domain.implicit_lower_bounds), list(domain.implicit_upper_bounds)
    lower.insert(axis, index)
    upper.insert(axis, index + 1)
    labels.insert(axis, "")
    implicit_lower.insert(axis, False)
    implicit_upper.insert(axis, False)
    return IndexTransform(
        input_inclusive_min=lower,
        input_exclusive_max=upper,
        implicit_lower_bounds=implicit_lower,
        implicit_upper_bounds=implicit_upper,
        input_labels=labels,
        output=[OutputIndexMap(input_dimension=number + (number >= axis)) for number in range(domain.rank)],
    )


def _layers(layers: Iterable[Any], function: str) -> list[Any]:
    given = list(layers)
    for layer in given:
        if not isinstance(layer, (TensorStore, Spec)):
            raise type_error(f"{function}(): incompatible function arguments: {layer!r} is no TensorStore or Spec")
    return given


def _domain(layer: TensorStore | Spec, number: int) -> IndexDomain:
    domain = layer.domain
    if domain is None:
        raise invalid(f"Layer {number}: Domain must be specified")
    return domain


def _stacked(
    layers: list[Any],
    mode: tuple[bool | None, bool | None],
    context: Context | None,
    transaction: Transaction | None,
    constraints: dict[str, Any],
) -> TensorStore:
    schema = Schema(**{name: value for name, value in constraints.items() if value is not None})
    made = []
    for number, layer in enumerate(layers):
        try:
            if isinstance(layer, Spec):
                made.append(Layer.of_spec(layer))
            else:
                made.append(Layer.of_view(layer._driver, layer._transform()))
        except StatusError as error:
            raise annotate(error, f"Layer {number}") from error
    if not made and schema.dtype is None:
        raise invalid("dtype must be specified")
    driver = StackDriver(
        checked_layers(made, schema, _LAYER_MISMATCH), schema, context or default_context(), transaction
    )
    read, write = mode
    reads, writes = (bool(read), bool(write)) if read or write else (True, True)
    for layer in made:
        if layer._opened is not None:
            _check_mode(layer._opened.driver.mode, bool(read), bool(write))
    driver.mode = mode_of(reads, writes)
    return TensorStore._of(driver, None, transaction)


def _check_mode(mode: str, read: bool, write: bool) -> None:
    if (read and "r" not in mode) or (write and "w" not in mode):
        raise status("INVALID_ARGUMENT", "a layer can't be " + ("read" if read and "r" not in mode else "written"))


def virtual_chunked(
    read_function: Callable[..., Any] | None = None,
    write_function: Callable[..., Any] | None = None,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    context: Context | None = None,
    transaction: Transaction | None = None,
    **constraints: Any,
) -> TensorStore:
    """Return an array whose chunks functions compute, or take.

    Parameters
    ----------
    read_function : callable, optional
        Called with the domain of a chunk, an array to fill, and `VirtualChunkedReadParameters`.
    write_function : callable, optional
        Called with the domain of a chunk, an array to store, and `VirtualChunkedWriteParameters`.
    loop : asyncio.AbstractEventLoop, optional
        What runs the coroutines they return; by default the loop of the caller, if it has one.
    context : Context, optional
        Where shared resources come from.
    transaction : Transaction, optional
        What reads and writes are part of.
    rank, dtype, domain, shape, chunk_layout, dimension_units, schema : optional
        The array, as for `Schema`.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> def squares(domain, array, parameters):
    ...     array[...] = [index * index for index in domain[0]]
    >>> store = ts.virtual_chunked(squares, dtype=ts.int32, shape=[5])
    >>> store.read().result()
    array([ 0,  1,  4,  9, 16], dtype=int32)
    """
    schema = Schema(**{name: value for name, value in constraints.items() if value is not None})
    return TensorStore._of(virtual_driver(read_function, write_function, loop, schema), None, transaction)
