"""Evaluation of expressions over columns and arrays, block by block."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache, reduce
from itertools import chain
from math import prod
from types import FrameType, ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.chunking import whole_chunks
from tegula.bcolz.carrays.carray import carray
from tegula.bcolz.carrays.creating import RowBlocks
from tegula.bcolz.errors import NotImplementedHereError
from tegula.bcolz.evaluating.dask import blocks_of, dask_array, lazy_result
from tegula.bcolz.parameters import Engine, checked_flavor, checked_vm, defaults
from tegula.errors import MetadataError, SelectionError, TegulaError
from tegula.runtime.parsing import parse_expression
from tegula.tables.expressions import REDUCTIONS, Expression, compile_expression, compile_tree

__all__ = ["eval", "evaluate", "mask_of", "scope_of_table"]

_BLOCK_BYTES: Final = 4 * 2**20
"""Bytes of variables that are evaluated together: enough for several chunks, few enough for the processor's cache."""

_COMBINE: Final[Mapping[str, np.ufunc]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "any": np.logical_or,
    "all": np.logical_and,
}

Scope = tuple[Mapping[str, Any], ...]


class UnknownNameError(TegulaError, NameError, KeyError):
    """An expression names an unknown variable."""


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
        For example ``"2 * a + 3 * b"``. Names are looked up in `user_dict`, then in the scope of the caller.
    vm : {"numexpr", "python", "dask"}, optional
        The engine that evaluates the expression; ``defaults.vm`` by default. ``"python"`` is NumPy. ``"numexpr"`` is
        NumPy with the types of numexpr: integers have 32 bits or more, and floats in the text are float64. ``"dask"``
        gives the results of ``"python"``, but computes many blocks in parallel with the configured scheduler of dask.
        With it, variables can be dask arrays, and functions can be written as ``da.sin``.
    out_flavor : {"bcolz", "carray", "numpy"}, optional
        The type of the result, a carray or a NumPy array; ``defaults.out_flavor`` by default.
    user_dict : mapping, optional
        Variables by name.
    blen : int, optional
        Number of rows to evaluate at once.
    **kwargs
        Passed to the new carray.

    Returns
    -------
    carray, ndarray or scalar
        A scalar if the expression has only scalars, or reduces all elements.

    Raises
    ------
    NameError
        If a variable is unknown.
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
    """Return the scope of a condition on a table: columns come before variables of the caller, `user_dict` last."""
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
    """Evaluate an expression as `eval` does, with names looked up in `scope`.

    Parameters
    ----------
    text : str
        The expression.
    scope : tuple of mapping
        Variables by name; the first mapping that has a name wins.
    vm, out_flavor, blen, **kwargs
        As for `eval`.
    """
    engine = _engine(vm)
    flavor = checked_flavor(defaults.out_flavor if out_flavor is None else out_flavor)
    expression = compile_expression(text)
    variables = {name: _find(name, scope, engine) for name in expression.names}
    # scalars only: nothing to divide into blocks
    length = _common_length(variables)
    if length is None:
        return _unpacked(_computed(expression, variables, engine))
    # Python's sum of a 2-d array adds up rows, unlike that of NumPy
    if engine != "numexpr" and expression.reduces and max(map(np.ndim, variables.values())) > 1:
        text = ast.unparse(_AlongFirstAxis().visit(parse_expression(text.strip())))
        expression = compile_tree(parse_expression(text), text)
    # with dask: a graph of blocks, computed some at a time
    rows = blen or _block_length(variables)
    if engine == "dask":
        result = lazy_result(expression, text, variables, rows)
        if np.ndim(result) == 0:
            return _unpacked(np.asarray(result))
        parts = blocks_of(result) if _is_lazy(result) else iter([result])
        return _as_array(parts, len(result)) if flavor == "numpy" else _as_carray(parts, len(result), kwargs)
    # reductions: combine those of the blocks, or evaluate all rows at once if that is not possible
    combine = _combining(expression, text)
    if expression.reduces and combine is None:
        return _unpacked(_computed(expression, {name: _part(v, 0, length) for name, v in variables.items()}, engine))
    blocks = _blocks(expression, variables, length, rows, engine)
    if combine is not None:
        return _unpacked(reduce(combine, blocks))
    # otherwise the blocks are the rows of the result
    return _as_array(blocks, length) if flavor == "numpy" else _as_carray(blocks, length, kwargs)


def mask_of(condition: Any, scope: Scope, length: int, vm: str | None = None) -> npt.NDArray[np.bool_]:
    """Return a boolean mask of the rows of a table that fulfil a condition, an expression or a boolean array."""
    if isinstance(condition, (str, bytes)):
        text = condition if isinstance(condition, str) else condition.decode()
        condition = np.asarray(evaluate(text, scope, vm=vm, out_flavor="numpy"))
        if condition.dtype != bool:
            raise SelectionError(f"{text!r:.80} is not a boolean expression")
        if condition.ndim == 0:
            condition = np.broadcast_to(condition, (length,))
    if getattr(condition, "dtype", None) != np.bool_:
        raise MetadataError("rows are selected by an expression or a boolean array")
    if condition.ndim != 1:
        raise NotImplementedHereError("a boolean array that selects rows must have one axis")
    if len(condition) != length:
        raise SelectionError(f"a mask of {len(condition)} rows does not fit {length} rows")
    return np.asarray(condition[:])


def _computed(expression: Expression, values: Mapping[str, Any], engine: Engine) -> Any:
    return expression.evaluate(_widened(expression, values) if engine == "numexpr" else values)


def _widened(expression: Expression, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give arrays the types in which numexpr computes, in native byte order.

    These are int32, int64, float32, complex128 and, also beside a float of Python, float64.

    numexpr has no uint64, so expressions with it follow the rules of NumPy.
    """
    kinds = {name: value.dtype.str[1:] for name, value in values.items() if isinstance(value, (np.ndarray, np.generic))}
    if "u8" in kinds.values():
        return values
    numbers = [*_numbers(str(expression)), *(value for name, value in values.items() if name not in kinds)]
    wide = any(type(number) is int and abs(number) >= 2**31 for number in numbers)
    types = dict.fromkeys(["i1", "u1", "i2", "u2", "i4"], "i8" if wide else "i4") | {"u4": "i8"}
    real = "f8" if any(type(number) is float for number in numbers) else "f4"
    types |= {"f2": real, "f4": real, "c8": "c16"} | {kind: kind for kind in ("i8", "f8", "c16")}
    return {
        name: value.astype(types[kinds[name]], copy=False) if kinds.get(name) in types else value
        for name, value in values.items()
    }


@lru_cache(maxsize=64)
def _numbers(text: str) -> list[Any]:
    nodes = ast.walk(parse_expression(text.strip()))
    return [node.value for node in nodes if isinstance(node, ast.Constant)]


def _combining(expression: Expression, text: str) -> np.ufunc | None:
    """Return the function that combines reductions of blocks, if the expression is one reduction over all rows."""
    combine = _COMBINE.get(expression.reduction or "")
    if combine is None:
        return None
    calls = [node for node in ast.walk(parse_expression(text.strip())) if isinstance(node, ast.Call)]
    reduction, *others = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] in REDUCTIONS]
    axes = [*reduction.args[1:], *(keyword.value for keyword in reduction.keywords)]
    rowwise = not all(isinstance(axis, ast.Constant) and axis.value in (None, 0) for axis in axes)
    return None if others or rowwise else combine


class _AlongFirstAxis(ast.NodeTransformer):
    """Gives ``sum`` the axis of Python's function, which adds up rows; ``np.sum`` stays a sum of all elements."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "sum" and len(node.args) == 1 and not node.keywords:
            node.keywords = [ast.keyword("axis", ast.Constant(0))]
        return node


def _engine(vm: str | None) -> Engine:
    engine = checked_vm(defaults.vm if vm is None else vm)
    if engine == "dask":
        dask_array()  # raises an error if dask is not installed
    return engine


def _find(name: str, scope: Scope, engine: Engine) -> Any:
    for values in scope:
        # functions and modules with the name of a column are ignored
        if name in values and not callable(values[name]) and not isinstance(values[name], ModuleType):
            value = values[name]
            if engine == "dask" and _is_lazy(value):
                if any(np.isnan(length) for length in value.shape):
                    raise MetadataError(f"the shape of variable {name!r} is unknown: call its compute_chunk_sizes()")
                return value
            return _checked(name, value)
    raise UnknownNameError(f"there is no variable {name!r:.80}", field="expression")


def _checked(name: str, value: Any) -> Any:
    if hasattr(value, "__len__") and not isinstance(value, (str, bytes)):
        if not isinstance(value, (np.ndarray, np.generic, carray)):
            raise MetadataError(f"variable {name!r} is a sequence but neither a NumPy array nor a carray")
        if value.dtype.names is not None:
            raise MetadataError(f"variable {name!r} has a structured data type")
    return value


def _is_lazy(value: Any) -> bool:
    """Return whether a value is a dask array, without importing dask."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(value, module.Array)


def _is_array(value: Any) -> bool:
    return (isinstance(value, (np.ndarray, carray)) or _is_lazy(value)) and value.ndim > 0


def _common_length(variables: Mapping[str, Any]) -> int | None:
    """Return the number of rows, ``None`` if there are only scalars; an array of one row fits any number."""
    lengths = {len(value) for value in variables.values() if _is_array(value)}
    if len(lengths - {1}) > 1:
        raise MetadataError(f"the arrays differ in length: {sorted(lengths)}"[:400], field="expression")
    return max(lengths - {1}, default=1) if lengths else None


def _block_length(variables: Mapping[str, Any]) -> int:
    """Return the rows of a block: a multiple of the longest chunk, so that each chunk is decoded once."""
    arrays = [value for value in variables.values() if _is_array(value)]
    nbytes: int = sum(value.dtype.itemsize * prod(value.shape[1:]) for value in arrays)
    chunk: int = max((value.chunklen for value in arrays if isinstance(value, carray)), default=1)
    return whole_chunks(chunk, nbytes, _BLOCK_BYTES)


def _part(value: Any, start: int, stop: int) -> Any:
    if not _is_array(value):
        return value
    return value[:] if len(value) == 1 else value[start:stop]


def _blocks(
    expression: Expression, variables: Mapping[str, Any], length: int, size: int, engine: Engine
) -> Iterator[npt.NDArray[Any]]:
    for start in range(0, max(length, 1), size):
        stop = min(start + size, length)
        yield _computed(expression, {name: _part(value, start, stop) for name, value in variables.items()}, engine)


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
    rows = RowBlocks(first[:0], chain([first], blocks))
    return carray(rows, **{"expectedlen": length, **options})


def _unpacked(value: Any) -> Any:
    """Convert a 0-d array to a scalar."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
