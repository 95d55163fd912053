"""Evaluation of expressions with dask: graphs of blocks of rows, which dask's scheduler computes in parallel."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import chain, count
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.bcolz.errors import NotInstalledError
from tegula.errors import MetadataError, TegulaError, UnsupportedError
from tegula.runtime.optional import library
from tegula.runtime.parsing import parse_expression
from tegula.tables.expressions import REDUCTIONS, Expression, compile_tree

__all__ = ["blocks_of", "dask_array", "lazy_result"]

_BLOCKS_AT_ONCE: Final = 16
"""Blocks that are computed together: enough for the cores of a machine, few enough for its memory."""


def dask_array() -> Any:
    """Return the module ``dask.array``.

    Raises
    ------
    NotInstalledError
        If dask is not installed, or can't be imported.
    """
    try:
        return library("dask.array")
    except UnsupportedError as error:
        raise NotInstalledError(error.message, field="vm") from error.__cause__


def lazy_result(expression: Expression, text: str, variables: Mapping[str, Any], rows: int) -> Any:
    """Return the dask graph of an expression.

    A reduction over all rows (``sum(a)``, or ``mean(a, axis=0)``) is computed immediately, since every block of the
    result depends on it; the rest is computed later, block by block.

    Parameters
    ----------
    expression : Expression
        The parsed expression.
    text : str
        The text of the expression.
    variables : mapping of str to object
        Values by name: carrays, NumPy and dask arrays, and scalars.
    rows : int
        Rows of a block.

    Returns
    -------
    dask.array.Array, ndarray or scalar
        A dask array, unless reductions leave no rows to compute.

    Raises
    ------
    MetadataError
        If the values don't fit together.
    UnsupportedError
        If dask is not installed, or a reduction is applied to text or objects.
    """
    da = dask_array()
    try:
        operands = {name: _operand(da, value, rows) for name, value in variables.items()}
        if not expression.reduces:
            return _by_blocks(da, expression, operands)
        replacer = _ReductionReplacer(da, operands)
        tree = replacer.visit(parse_expression(text.strip()))
        return _by_blocks(da, _compiled(tree), replacer.operands)
    except TegulaError:
        raise
    except (TypeError, ValueError, ArithmeticError, IndexError, NotImplementedError) as error:
        raise MetadataError(f"{text!r:.80} can't be computed: {error}", field="expression") from error
    except RecursionError:
        raise MetadataError("the expression is too deeply nested", field="expression") from None


def blocks_of(result: Any) -> Iterator[npt.NDArray[Any]]:
    """Compute the rows of a dask array in order, some blocks at a time."""
    number = result.numblocks[0]
    for start in range(0, max(number, 1), _BLOCKS_AT_ONCE):
        yield np.asarray(result.blocks[start : start + _BLOCKS_AT_ONCE].compute())


def _compiled(tree: ast.expr) -> Expression:
    # each part of an expression has its own text, since dask names the parts of a graph by their content
    return compile_tree(tree, ast.unparse(tree))


def _operand(da: Any, value: Any, rows: int) -> Any:
    """Convert an array to a dask array of blocks of rows; return values without rows unchanged."""
    if isinstance(value, da.Array):
        return value.rechunk({0: rows, **dict.fromkeys(range(1, value.ndim), -1)}) if value.ndim else value
    if isinstance(value, np.generic) or not getattr(value, "ndim", 0):
        return value
    meta = np.empty((0,) * value.ndim, value.dtype)
    # with name=None, dask would read all elements to compute a name
    return da.from_array(value, chunks=(rows, *value.shape[1:]), name=False, meta=meta)


def _by_blocks(da: Any, expression: Expression, operands: Mapping[str, Any]) -> Any:
    """Evaluate an expression without reductions in each block."""
    values = {name: operands[name] for name in expression.names}
    arrays = {name: value for name, value in values.items() if isinstance(value, da.Array)}
    constants = {name: value for name, value in values.items() if name not in arrays}
    if not arrays:
        return expression.evaluate(constants)
    nothing = [np.empty((0, *array.shape[1:])[: array.ndim], array.dtype) for array in arrays.values()]
    meta = np.asarray(_in_block(*nothing, expression=expression, names=(*arrays,), constants=constants))
    ndim = max(np.ndim(value) for value in values.values())
    return da.blockwise(
        _in_block,
        (*range(ndim),),
        *chain.from_iterable((array, (*range(ndim - array.ndim, ndim),)) for array in arrays.values()),
        expression=expression,
        names=(*arrays,),
        constants=constants,
        dtype=meta.dtype,
        meta=np.empty((0,) * ndim, meta.dtype),
    )


def _in_block(*blocks: Any, expression: Expression, names: tuple[str, ...], constants: Mapping[str, Any]) -> Any:
    return expression.evaluate({**constants, **dict(zip(names, blocks))})


class _ReductionReplacer(ast.NodeTransformer):
    """Replaces each reduction by a variable, and adds the value of the reduction to the operands."""

    def __init__(self, da: Any, operands: Mapping[str, Any]) -> None:
        self.operands = {**operands}
        self._da = da
        self._numbers = count()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = ast.unparse(node.func).rpartition(".")[2]
        if function not in REDUCTIONS:
            # visit the arguments only: the name of a function is not a variable
            return ast.Call(node.func, [self.visit(argument) for argument in node.args], node.keywords)
        axes = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
        axis = _compiled(axes[0]).evaluate({}) if axes and ast.unparse(axes[0]) != "None" else None
        values = self._da.asarray(_by_blocks(self._da, _compiled(self.visit(node.args[0])), self.operands))
        if values.dtype.kind in "OSUVT":
            raise UnsupportedError("text and objects can't be reduced", field="expression")
        reduced = getattr(self._da, function)(values, axis=axis)
        name = next(name for number in self._numbers if (name := f"{function}_{number}") not in self.operands)
        self.operands[name] = reduced.compute() if axis in (None, 0, -values.ndim) else reduced
        return ast.Name(name, ast.Load())
