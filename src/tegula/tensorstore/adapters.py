"""Arrays made from NumPy arrays, from other arrays (converted, downsampled or combined), or from functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Literal, overload

import numpy as np

from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.context import Bindings, Context
from tegula.tensorstore.drivers.adapting.cast import CastSpec
from tegula.tensorstore.drivers.adapting.downsample import DownsampleDriver, DownsampleSpec
from tegula.tensorstore.drivers.adapting.stack import StackDriver, checked_layers
from tegula.tensorstore.drivers.array import ArrayDriver, ArraySpec
from tegula.tensorstore.drivers.virtual import default_context
from tegula.tensorstore.drivers.virtual_chunked import VirtualChunkedDriver
from tegula.tensorstore.errors import StatusError, checked_or_none, invalid, type_error
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.indexing import d, newaxis
from tegula.tensorstore.index.operations import resolve
from tegula.tensorstore.kvstore.transaction import Transaction
from tegula.tensorstore.spec.interface import mode_of
from tegula.tensorstore.spec.spec import Spec, identity_view
from tegula.tensorstore.store import TensorStore
from tegula.tensorstore.views import Viewed, as_source

__all__ = ["DownsampleMethod", "array", "cast", "concat", "downsample", "overlay", "stack", "virtual_chunked"]

DownsampleMethod = Literal["stride", "median", "mode", "mean", "min", "max"]


def array(
    array: Any,
    dtype: dtypes.DTypeLike | None = None,
    *,
    context: Context | None = None,
    copy: bool | None = None,
    write: bool | None = None,
) -> TensorStore:
    """Return an array in memory that shares the data of a NumPy array if possible; `copy` says always or never to copy.

    By default, it is writable if the NumPy array is.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> ts.array([[1, 2], [3, 4]], dtype=ts.uint32)[:, 1].read().result()
    array([2, 4], dtype=uint32)
    """
    checked_or_none("context", context, Context)
    wanted = None if dtype is None else dtypes.dtype(dtype)
    values = _as_values(array, wanted, copy)
    if wanted is None:
        wanted = _data_type(values)
    if write and not values.flags.writeable:
        if copy is False:
            raise invalid("Unable to avoid copy while creating an array that can be written")
        values = values.copy()
    driver = ArrayDriver(values, wanted, Bindings(ArraySpec.resources).bound(context or default_context()))
    driver.mode = "rw" if values.flags.writeable and write is not False else "r"
    return TensorStore._of(driver)


def _as_values(array: Any, wanted: dtypes.dtype | None, copy: bool | None) -> Any:
    if wanted is not None and wanted.numpy_dtype.kind == "O" and not isinstance(array, np.ndarray):
        return as_source(array, wanted, 32 if isinstance(array, (list, tuple)) else 0)
    if wanted is not None and wanted.name in ("string", "ustring") and array.dtype.kind != "O":
        return as_source(array.tolist(), wanted, array.ndim)
    numpy_dtype = None if wanted is None else wanted.numpy_dtype
    values = np.asarray(array, numpy_dtype) if copy is None else np.array(array, numpy_dtype, copy=copy)
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if values.dtype.kind in "SV" and values.dtype.names is None and values.dtype.itemsize > 1 and wanted is None:
        letter = "S1" if values.dtype.kind == "S" else "V1"
        if dtypes.dtype(values.dtype).numpy_dtype == np.dtype(letter):
            values = np.ascontiguousarray(values).reshape((*values.shape, 1)).view(letter)
    return values


def _data_type(values: Any) -> dtypes.dtype:
    if values.dtype.kind != "O":
        return dtypes.dtype(values.dtype)
    for kind, found in ((str, dtypes.ustring), (bytes, dtypes.string)):
        if values.size and all(isinstance(value, kind) for value in values.flat):
            return found
    return dtypes.json


@overload
def cast(base: TensorStore, dtype: dtypes.DTypeLike) -> TensorStore: ...
@overload
def cast(base: Spec, dtype: dtypes.DTypeLike) -> Spec: ...
def cast(base: TensorStore | Spec, dtype: dtypes.DTypeLike) -> TensorStore | Spec:
    """Return a view, or its spec, with the elements converted to another data type.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> ts.cast(ts.array([1.5, 2.5], dtype=ts.float32), ts.uint32).read().result()
    array([1, 2], dtype=uint32)
    """
    if isinstance(base, TensorStore):
        return base.astype(dtype)
    below = Spec._of(_checked(base)._driver, None)
    return Spec._of(CastSpec.of(below, dtypes.dtype(dtype)), base.transform)


@overload
def downsample(base: TensorStore, downsample_factors: Iterable[int], method: DownsampleMethod) -> TensorStore: ...
@overload
def downsample(base: Spec, downsample_factors: Iterable[int], method: DownsampleMethod) -> Spec: ...
def downsample(
    base: TensorStore | Spec, downsample_factors: Iterable[int], method: DownsampleMethod
) -> TensorStore | Spec:
    """Return a view, or its spec, with each block of elements reduced to one; blocks start at multiples of the factors.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> store = ts.array([1, 3, 5, 9, 10], dtype=ts.float32)
    >>> ts.downsample(store, [2], "mean").read().result()
    array([ 2.,  7., 10.], dtype=float32)
    """
    factors = tuple(int(factor) for factor in downsample_factors)
    if isinstance(base, TensorStore):
        driver = DownsampleDriver(base._driver, base._transform(), factors, method)
        return TensorStore._of(driver, None, base._transaction)
    spec = DownsampleSpec.of(_checked(base), factors, method)
    return Spec._of(spec, identity_view(spec))


def overlay(
    layers: Iterable[TensorStore | Spec],
    *,
    read: bool | None = None,
    write: bool | None = None,
    context: Context | None = None,
    transaction: Transaction | None = None,
    **constraints: Any,
) -> TensorStore:
    """Overlay arrays, or specs that are opened when first needed, at the positions of their domains.

    Later layers cover earlier ones. By default, the result allows all that a layer allows, and has the transaction of
    the arrays. Constraints are those of `Schema`.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> a, b = ts.array([1, 2, 3], dtype=ts.uint32), ts.array([7, 8, 9], dtype=ts.uint32)
    >>> ts.overlay([a, b[1:2]]).read().result()
    array([1, 8, 3], dtype=uint32)
    """
    return _stacked([*map(_checked, layers)], (read, write), context, transaction, constraints)


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
    """Stack arrays along a new dimension; the other arguments are those of `overlay`.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> a, b = ts.array([1, 2], dtype=ts.uint32), ts.array([7, 8], dtype=ts.uint32)
    >>> ts.stack([a, b], axis=-1).read().result()
    array([[1, 7],
           [2, 8]], dtype=uint32)
    """
    checked = [*map(_checked, layers)]
    rank = _domains(checked, "stack")[0].rank
    if not -rank - 1 <= axis <= rank:
        raise invalid(f"Dimension index {axis} is outside valid range [{-rank - 1}, {rank + 1})")
    new = d[axis][newaxis].mark_bounds_implicit[False]
    translated = [layer[new.translate_to[number]] for number, layer in enumerate(checked)]
    return _stacked(translated, (read, write), context, transaction, constraints)


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
    """Concatenate arrays along a dimension, a number or a label; the other arguments are those of `overlay`.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> a, b = ts.array([1, 2], dtype=ts.uint32), ts.array([7, 8, 9], dtype=ts.uint32)
    >>> ts.concat([a, b], axis=0).read().result()
    array([1, 2, 7, 8, 9], dtype=uint32)
    """
    checked = [*map(_checked, layers)]
    domains = _domains(checked, "concat")
    dim = _axis(axis, domains)
    start = domains[0].inclusive_min[dim]
    translated = []
    for layer, domain in zip(checked, domains):
        translated.append(layer if domain.inclusive_min[dim] == start else layer[d[dim].translate_to[start]])
        start += domain.shape[dim]
    return _stacked(translated, (read, write), context, transaction, constraints)


def _axis(axis: int | str, domains: list[IndexDomain]) -> int:
    rank = domains[0].rank
    labels = [next((d.labels[number] for d in domains if d.labels[number]), "") for number in range(rank)]
    try:
        return resolve((axis,), rank, labels)[0]
    except StatusError as error:
        raise invalid(error.sentence) from None


def _checked(array: Any) -> Any:
    if not isinstance(array, (TensorStore, Spec)):
        raise type_error(f"{array!r} is not a TensorStore or Spec")
    return array


def _domains(layers: list[Any], function: str) -> list[IndexDomain]:
    """Return the domains of layers; they must have the same number of dimensions."""
    if not layers:
        raise invalid(f"At least one layer must be specified for {function}")
    return [layer.domain for layer in checked_layers(_sources(layers), Schema())]


def _sources(layers: list[Any]) -> list[Any]:
    return [layer if isinstance(layer, Spec) else Viewed(layer._driver, layer._transform()) for layer in layers]


def _stacked(
    layers: list[Any],
    mode: tuple[bool | None, bool | None],
    context: Context | None,
    transaction: Transaction | None,
    constraints: dict[str, Any],
) -> TensorStore:
    checked_or_none("context", context, Context)
    checked_or_none("transaction", transaction, Transaction)
    schema = Schema(**constraints)
    stacked = checked_layers(_sources(layers), schema)
    shared = _shared_transaction(layers, transaction)
    driver = StackDriver(stacked, schema, context or default_context(), shared)
    read, write = mode
    allowed = set("".join("rw" if layer.opened is None else layer.opened.driver.mode for layer in stacked) or "rw")
    for wanted, letter, name in ((read, "r", "Read"), (write, "w", "Write")):
        if wanted and letter not in allowed:
            raise invalid(f"{name} mode not supported")
    driver.mode = mode_of(bool(read), bool(write)) if read or write else mode_of("r" in allowed, "w" in allowed)
    store = TensorStore._of(driver, None, shared)
    return store if transaction is None or transaction is shared else store.with_transaction(transaction)


def _shared_transaction(layers: list[Any], wanted: Transaction | None) -> Transaction | None:
    """Return the transaction that all arrays among the layers share; it must be `wanted` if both are given."""
    found = [layer._transaction for layer in layers if isinstance(layer, TensorStore)]
    shared = found[0] if found else wanted
    if any(each is not shared for each in found) or (None not in (shared, wanted) and shared is not wanted):
        raise invalid("Transaction mismatch")
    return shared


def virtual_chunked(
    read_function: Callable[..., Any] | None = None,
    write_function: Callable[..., Any] | None = None,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    context: Context | None = None,
    transaction: Transaction | None = None,
    **constraints: Any,
) -> TensorStore:
    """Return an array whose chunks are read and written by functions; constraints are those of `Schema`.

    They are called with the domain of a chunk, an array to fill or to store, and `VirtualChunkedReadParameters` or
    `VirtualChunkedWriteParameters`. Coroutines that they return run in the event loop, by default the caller's.

    Examples
    --------
    >>> import tegula.tensorstore as ts
    >>> def squares(domain, array, parameters):
    ...     array[...] = [index * index for index in domain[0]]
    >>> store = ts.virtual_chunked(squares, dtype=ts.int32, shape=[5])
    >>> store.read().result()
    array([ 0,  1,  4,  9, 16], dtype=int32)
    """
    checked_or_none("context", context, Context)
    checked_or_none("transaction", transaction, Transaction)
    schema = Schema(**constraints)
    return TensorStore._of(VirtualChunkedDriver(read_function, write_function, loop, schema), None, transaction)
