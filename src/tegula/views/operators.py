"""Arrays as numbers and operands: which conversions and functions read their elements, and the errors of all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tegula.errors import UnsupportedError
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    import numpy.typing as npt

    from tegula.views import interop
else:
    interop = Later("tegula.views.interop")

__all__ = ["Operand", "OperationError", "not_computed"]

_TWO_SIDED: Final = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "divmod": "divmod",
    "pow": "**", "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_ONE_SIDED: Final = {
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neg": "-", "pos": "+", "abs": "abs", "invert": "~",
}  # fmt: skip


class OperationError(UnsupportedError, TypeError, ValueError):
    """An operation of Python or NumPy on an array whose elements have to be read explicitly first."""


def not_computed(node: Any, name: str) -> OperationError:
    """Return the error for an operator or function, which says how to read the elements first."""
    return OperationError(
        f"{name} does not read stored arrays: read the elements first, as in a[...] or a[:100], or compute chunk "
        "by chunk with dask.array.from_array(a)",
        path=node.location,
    )


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


def _operators() -> dict[str, Any]:
    """Return the methods of all operators, which refuse."""
    both, one = _TWO_SIDED.items(), _ONE_SIDED.items()
    return {
        **{f"__{side}{name}__": _refusing(not_computed, symbol) for name, symbol in both for side in ("", "r")},
        **{f"__i{name}__": _refusing(_not_in_place, symbol) for name, symbol in both},
        **{f"__{name}__": _refusing(not_computed, symbol) for name, symbol in one},
    }


class Operand:
    """A stored array as Python and NumPy take arrays: as a number, an operand, or a source of elements.

    What needs one element, or is a reduction, reads it; operators raise the error of `not_computed`, all but ``==``.
    These methods are unknown to type checkers, which then refuse the operators, too.

    Examples
    --------
    >>> import tegula
    >>> tegula.create_array({}, shape=2, dtype="u1") + 1
    Traceback (most recent call last):
    ...
    tegula.views.operators.OperationError: + does not read stored arrays: read the elements first, ...
    """

    __slots__ = ()
    location: Any
    shape: Any
    dtype: Any
    ndim: Any
    size: Any

    if TYPE_CHECKING:

        def __getitem__(self, selection: Any) -> Any: ...

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return int(self.shape[0])

    def __bool__(self) -> bool:
        if self.size != 1:
            raise OperationError(
                f"an array of {self.size} elements is neither true nor false; use a[...].any() or a[...].all(), or "
                "len(a) to find out whether it is empty",
                path=self.location,
            )
        return bool(np.asarray(self[...]).item())

    def __float__(self) -> float:
        return float(self._number("float"))

    def __int__(self) -> int:
        return int(self._number("int"))

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def _number(self, kind: str) -> Any:
        """Return the element of an array without dimensions, to be converted to a number."""
        if self.ndim:
            raise OperationError(
                f"only an array without dimensions is a number; {kind}(a[{', '.join(['0'] * self.ndim)}]) takes an "
                "element",
                path=self.location,
            )
        return self[()]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return interop.as_ndarray(self, dtype, copy)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        return interop.dlpack_capsule(self, copy, stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return interop.CPU

    if not TYPE_CHECKING:  # hidden from type checkers
        vars().update(_operators())  # to set them afterwards would take longer

        def __index__(self):
            if self.ndim or self.dtype.kind not in "iu":
                raise OperationError("only an array of integers without dimensions is an index", path=self.location)
            return int(self[()])

        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            if method == "__call__":
                raise not_computed(self, f"numpy.{ufunc.__name__}")
            values = [np.asarray(value) if isinstance(value, type(self)) else value for value in inputs]
            return getattr(ufunc, method)(*values, **options)
