"""Expressions over columns and arrays, evaluated block by block."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import chain
from math import prod
from types import FrameType, ModuleType
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tegula.bcolz.carrays import NewRows, carray
from tegula.bcolz.daskexprs import blocks_of, dask_array, lazy_result
from tegula.bcolz.errors import NotImplementedHereError
from tegula.bcolz.parameters import checked_flavor, defaults
from tegula.chunking import whole_chunks
from tegula.errors import MetadataError, SelectionError, TegulaError
from tegula.expressions import REDUCTIONS, Expression, compile_expression, compile_tree

__all__ = ["eval", "evaluate", "mask_of", "scope_of_table"]

_BLOCK: Final = 4 * 2**20
"""Bytes of variables that are looked at together: enough for several chunks, few enough for the processor's cache."""

_COMBINE: Final[Mapping[str, np.ufunc]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "any": np.logical_or,
    "all": np.logical_and,
}

Machine = Literal["numexpr", "python", "dask"]
Scope = tuple[Mapping[str, Any], ...]


class UnknownNameError(TegulaError, NameError, KeyError):
    """A name in an expression is that of no variable."""


def eval(
    expression: str,
    vm: str | None = None,
    out_flavor: str | None = None,
    user_dict: Mapping[str, Any] | None = None,
    blen: int | None = None,
    **kwargs: Any,
) -> Any:
    """Evaluate an expression over carrays, NumPy arrays and scalars.

    Parameters
    ----------
    expression : str
        Such as ``"2 * a + 3 * b"``. Its names are looked up in `user_dict`, then where this function was called.
    vm : {"numexpr", "python", "dask"}, optional
        What computes; by default what ``defaults.vm`` says. ``"dask"`` computes as ``"python"`` does, many blocks at
        once, where and how dask is configured to; there dask arrays are variables, too, and functions may be called as
        ``da.sin``.
    out_flavor : {"bcolz", "carray", "numpy"}, optional
        What is returned, a carray or a NumPy array; by default what ``defaults.out_flavor`` says.
    user_dict : mapping, optional
        Values by name.
    blen : int, optional
        How many rows are computed at once.
    **kwargs
        Passed to the new carray.

    Returns
    -------
    carray, ndarray or scalar
        A scalar if there are only scalars in the expression, or if it sums everything up.

    Raises
    ------
    NameError
        If a name is not known.
    ValueError
        If arrays differ in length, or a variable is a sequence but not an array.

    Examples
    --------
    >>> import numpy as np
    >>> from tegula import bcolz
    >>> a = bcolz.carray(np.arange(5))
    >>> bcolz.eval("2 * a + 1", out_flavor="numpy").tolist()
    [1, 3, 5, 7, 9]
    """
    caller = sys._getframe(1)
    scope = (user_dict or {}, caller.f_locals, caller.f_globals)
    return evaluate(expression, scope, vm=vm, out_flavor=out_flavor, blen=blen, **kwargs)


def scope_of_table(caller: FrameType, columns: Mapping[str, Any], user_dict: Mapping[str, Any] | None) -> Scope:
    """Say where the names in a condition on a table are looked up."""
    return (columns, caller.f_locals, caller.f_globals, user_dict or {})


def evaluate(
    text: str,
    scope: Scope,
    *,
    vm: str | None = None,
    out_flavor: str | None = None,
    blen: int | None = None,
    **kwargs: Any,
) -> Any:
    """Do what `eval` does, with names looked up in `scope`."""
    machine = _machine(vm)
    flavor = checked_flavor(defaults.out_flavor if out_flavor is None else out_flavor)
    expression = compile_expression(text)
    variables = {name: _find(name, scope, machine) for name in expression.names}
    length = _common_length(variables)
    if length is None:
        return _unpacked(expression.evaluate(variables, vm="python" if machine == "dask" else machine))
    if machine != "numexpr" and expression.reduces and max(map(np.ndim, variables.values())) > 1:
        text = ast.unparse(_AlongFirstAxis().visit(ast.parse(text.strip(), mode="eval")))
        expression = compile_tree(ast.parse(text, mode="eval").body, text)
    rows = blen or _block_length(variables)
    if machine == "dask":
        result = lazy_result(expression, text, variables, rows)
        if np.ndim(result) == 0:
            return _unpacked(np.asarray(result))
        parts = blocks_of(result) if _is_lazy(result) else iter([result])
        return _as_array(parts, len(result)) if flavor == "numpy" else _as_carray(parts, len(result), kwargs)
    combine = _combining(expression, text)
    if expression.reduces and combine is None:
        return _unpacked(expression.evaluate({name: _part(v, 0, length) for name, v in variables.items()}, vm=machine))
    blocks = _blocks(expression, variables, length, rows, machine)
    if combine is not None:
        return _unpacked(reduce(combine, blocks))
    return _as_array(blocks, length) if flavor == "numpy" else _as_carray(blocks, length, kwargs)


def mask_of(condition: Any, scope: Scope, length: int, vm: str | None = None) -> npt.NDArray[np.bool_]:
    """Return which of a table's rows fulfil a condition, an expression or an array of booleans."""
    if isinstance(condition, (str, bytes)):
        text = condition if isinstance(condition, str) else condition.decode()
        condition = np.asarray(evaluate(text, scope, vm=vm, out_flavor="numpy"))
        if condition.dtype != bool:
            raise SelectionError(f"{text!r:.80} is not a boolean expression")
        if condition.ndim == 0:
            condition = np.broadcast_to(condition, (length,))
    if getattr(condition, "dtype", None) != np.bool_:
        raise MetadataError("rows are chosen by an expression or an array of booleans")
    if condition.ndim != 1:
        raise NotImplementedHereError("rows are chosen by one boolean each, not by several")
    if len(condition) != length:
        raise SelectionError(f"{len(condition)} booleans do not choose from {length} rows")
    return np.asarray(condition[:])


def _combining(expression: Expression, text: str) -> np.ufunc | None:
    """Return what makes one result of those of blocks, if the expression does nothing else than gather elements."""
    combine = _COMBINE.get(expression.reduction or "")
    if combine is None:
        return None
    calls = [node for node in ast.walk(ast.parse(text.strip(), mode="eval")) if isinstance(node, ast.Call)]
    gathering, *others = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] in REDUCTIONS]
    axes = [*gathering.args[1:], *(keyword.value for keyword in gathering.keywords)]
    rowwise = not all(isinstance(axis, ast.Constant) and axis.value in (None, 0) for axis in axes)
    return None if others or rowwise else combine


class _AlongFirstAxis(ast.NodeTransformer):
    """Makes ``sum`` what it is in Python, which goes along the first axis; ``np.sum`` gathers all elements."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "sum" and len(node.args) == 1 and not node.keywords:
            node.keywords = [ast.keyword("axis", ast.Constant(0))]
        return node


def _machine(vm: str | None) -> Machine:
    machine = defaults.vm if vm is None else vm
    if machine == "numexpr":
        return "numexpr"
    if machine == "python":
        return "python"
    if machine == "dask":
        dask_array()
        return "dask"
    raise MetadataError(f"vm must be 'numexpr', 'python' or 'dask', not {machine!r:.80}", field="vm")


def _find(name: str, scope: Scope, machine: Machine) -> Any:
    for values in scope:
        # functions and modules that happen to be called like a column are passed over
        if name in values and not callable(values[name]) and not isinstance(values[name], ModuleType):
            value = values[name]
            if machine == "dask" and _is_lazy(value):
                if any(np.isnan(length) for length in value.shape):
                    raise MetadataError(f"the shape of variable {name!r} is not known: call its compute_chunk_sizes()")
                return value
            return _checked(name, value)
    raise UnknownNameError(f"there is no variable {name!r:.80}", field="expression")


def _checked(name: str, value: Any) -> Any:
    if hasattr(value, "__len__") and not isinstance(value, (str, bytes)):
        if not isinstance(value, (np.ndarray, np.generic, carray)):
            raise MetadataError(f"variable {name!r} is a sequence but neither a NumPy array nor a carray")
        if value.dtype.names is not None:
            raise MetadataError(f"variable {name!r} has several columns")
    return value


def _is_lazy(value: Any) -> bool:
    """Return whether a value is an array of dask, which is not imported for that."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(value, module.Array)


def _is_array(value: Any) -> bool:
    return (isinstance(value, (np.ndarray, carray)) or _is_lazy(value)) and value.ndim > 0


def _common_length(variables: Mapping[str, Any]) -> int | None:
    """Return the number of rows, ``None`` if there are only scalars; arrays of one row go with any."""
    lengths = {len(value) for value in variables.values() if _is_array(value)}
    if len(lengths - {1}) > 1:
        raise MetadataError(f"the arrays differ in length: {sorted(lengths)}"[:400], field="expression")
    return max(lengths - {1}, default=1) if lengths else None


def _block_length(variables: Mapping[str, Any]) -> int:
    """Choose a number of rows that is a multiple of the longest chunk, so that each chunk is decoded once."""
    arrays = [value for value in variables.values() if _is_array(value)]
    nbytes: int = sum(value.dtype.itemsize * prod(value.shape[1:]) for value in arrays)
    chunk: int = max((value.chunklen for value in arrays if isinstance(value, carray)), default=1)
    return whole_chunks(chunk, nbytes, _BLOCK)


def _part(value: Any, start: int, stop: int) -> Any:
    if not _is_array(value):
        return value
    return value[:] if len(value) == 1 else value[start:stop]


def _blocks(
    expression: Expression, variables: Mapping[str, Any], length: int, size: int, vm: Literal["numexpr", "python"]
) -> Iterator[npt.NDArray[Any]]:
    for start in range(0, max(length, 1), size):
        stop = min(start + size, length)
        yield expression.evaluate({name: _part(value, start, stop) for name, value in variables.items()}, vm=vm)


def _as_array(blocks: Iterator[npt.NDArray[Any]], length: int) -> npt.NDArray[Any]:
    first = next(blocks)
    if len(first) == length:
        return first
    out = np.empty((length, *first.shape[1:]), first.dtype)
    out[: len(first)] = first
    stop = len(first)
    for block in blocks:
        start, stop = stop, stop + len(block)
        out[start:stop] = block
    return out


def _as_carray(blocks: Iterator[npt.NDArray[Any]], length: int, options: dict[str, Any]) -> carray:
    first = next(blocks)
    rows = NewRows(first[:0], chain([first], blocks))
    return carray(rows, **{"expectedlen": length, **options})


def _unpacked(value: Any) -> Any:
    """Give a result without axes as a scalar."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
