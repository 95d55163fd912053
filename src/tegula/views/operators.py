"""Arrays as numbers and operands: which conversions and functions read their elements, and the errors of all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from tegula.errors import UnsupportedError

__all__ = [
    "OperationError", "index_of", "not_computed", "number_of", "reduction", "refusing_operators", "truth_of",
]  # fmt: skip

T = TypeVar("T", bound=type[Any])
_TWO_SIDED: Final = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "divmod": "divmod",
    "pow": "**", "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_ONE_SIDED: Final = {
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neg": "-", "pos": "+", "abs": "abs", "invert": "~",
}  # fmt: skip


class OperationError(UnsupportedError, TypeError, ValueError):
    """An operation of Python or NumPy on an array whose elements have to be read explicitly first."""


def truth_of(array: Any) -> bool:
    """Return whether the only element of an array is true.

    Raises
    ------
    OperationError
        If it does not have exactly one element.
    """
    if array.size != 1:
        raise OperationError(
            f"an array of {array.size} elements is neither true nor false; use a[...].any() or a[...].all(), or "
            "len(a) to find out whether it is empty",
            path=array.location,
        )
    return bool(np.asarray(array[...]).item())


def number_of(array: Any, kind: str) -> Any:
    """Return the element of an array without dimensions, to be converted to a number.

    Raises
    ------
    OperationError
        If it has dimensions.
    """
    if array.ndim:
        raise OperationError(
            f"only an array without dimensions is a number; {kind}(a[{', '.join(['0'] * array.ndim)}]) takes an "
            "element",
            path=array.location,
        )
    return array[()]


def index_of(array: Any) -> int:
    """Return the element of an array as an index.

    Raises
    ------
    OperationError
        If it has dimensions, or is no integer.
    """
    if array.ndim or array.dtype.kind not in "iu":
        raise OperationError("only an array of integers without dimensions is an index", path=array.location)
    return int(array[()])


def reduction(array: Any, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """Return a reduction by NumPy, such as `numpy.sum`, of arrays that are read as a whole.

    Raises
    ------
    OperationError
        If the function is no reduction.
    """
    if method == "__call__":
        raise not_computed(array, f"numpy.{ufunc.__name__}")
    values = [np.asarray(value) if isinstance(value, type(array)) else value for value in inputs]
    return getattr(ufunc, method)(*values, **options)


def not_computed(node: Any, name: str) -> OperationError:
    """Return the error for an operator or function, which says how to read the elements first."""
    return OperationError(
        f"{name} does not read stored arrays: read the elements first, as in a[...] or a[:100], or compute chunk "
        "by chunk with dask.array.from_array(a)",
        path=node.location,
    )


def refusing_operators(cls: T) -> T:
    """Decorate a class, so that its operators raise the error of `not_computed`; ``==`` is left as it is.

    The methods are unknown to type checkers, which then refuse the operators, too.

    Examples
    --------
    >>> import tegula
    >>> tegula.create_array({}, shape=2, dtype="u1") + 1
    Traceback (most recent call last):
    ...
    tegula.views.operators.OperationError: + does not read stored arrays: read the elements first, ...
    """
    for name, symbol in _TWO_SIDED.items():
        for form in ("__{}__", "__r{}__"):
            setattr(cls, form.format(name), _refusing(not_computed, symbol))
        setattr(cls, f"__i{name}__", _refusing(_not_in_place, symbol))
    for name, symbol in _ONE_SIDED.items():
        setattr(cls, f"__{name}__", _refusing(not_computed, symbol))
    return cls


def _not_in_place(node: Any, symbol: str) -> OperationError:
    return OperationError(
        f"{symbol}= does not change stored arrays: assign what is computed, as in a[...] = a[...] {symbol} x, which "
        "reads and writes all elements",
        path=node.location,
    )


def _refusing(error: Callable[[Any, str], OperationError], symbol: str) -> Callable[..., Any]:
    def refuse(self: Any, *_: object) -> Any:
        raise error(self, symbol)

    return refuse
