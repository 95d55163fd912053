"""Expressions over columns, compiled from text: only listed operations are allowed, and ``eval`` is not used.

An expression is made of names, numbers, text and byte strings, ``+ - * / // % **``, ``< <= == != >= >``, ``in`` and
``not in`` with a list of constants, ``& | ^ ~ << >>``, ``and or not`` (element by element), and calls of the functions
in `FUNCTIONS` and `REDUCTIONS`, by name, as ``np.name``, or, as in dask, ``da.name``. Precedence is
Python's: ``&`` and ``|`` bind more tightly than comparisons, so that comparisons joined by them need parentheses.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import numpy as np

from tegula.errors import MetadataError, NotFoundError, TegulaError, UnsupportedError, brief
from tegula.runtime.parsing import parse_expression
from tegula.tables.precedence import check_precedence

__all__ = ["FUNCTIONS", "REDUCTIONS", "Expression", "compile_expression", "compile_tree"]

_MAX_LENGTH = 20_000
_MAX_DEPTH = 100
_MAX_TIME = 2**63 - 1
_MAX_BITS = 1024  # limit for a whole number computed from constants

_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_COMPARISONS: Mapping[type[ast.cmpop], np.ufunc] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.GtE: np.greater_equal,
    ast.Gt: np.greater,
}


def _complex(real: Any, imag: Any) -> Any:
    return np.add(real, np.multiply(imag, 1j))


def _text(values: Any) -> Any:
    """Convert strings of variable length, which are Python objects, to a type that NumPy has functions for."""
    array = np.asarray(values)
    return array.astype(str) if array.dtype.kind == "O" else array


def _contains(values: Any, part: Any) -> Any:
    return np.char.find(*_alike(_text(values), part)) >= 0


def _startswith(values: Any, part: Any) -> Any:
    return np.char.startswith(*_alike(_text(values), part))


def _endswith(values: Any, part: Any) -> Any:
    return np.char.endswith(*_alike(_text(values), part))


_OF_ONE = """
sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh sqrt cbrt square exp exp2 expm1 log log2 log10
log1p abs absolute fabs floor ceil trunc rint round sign signbit conj real imag angle deg2rad rad2deg isnan isinf
isfinite isnat logical_not ones_like zeros_like
""".split()
_OF_TWO = """
arctan2 hypot minimum maximum fmin fmax fmod power copysign nextafter logical_and logical_or logical_xor
""".split()

FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int]] = {
    **{name: (getattr(np, name), 1) for name in _OF_ONE},
    **{name: (getattr(np, name), 2) for name in _OF_TWO},
    "where": (np.where, 3),
    "complex": (_complex, 2),
    "contains": (_contains, 2),
    "startswith": (_startswith, 2),
    "endswith": (_endswith, 2),
}
"""The functions applied element by element, and their numbers of arguments."""

_OF_OBJECTS = frozenset(("where", "contains", "startswith", "endswith"))
REDUCTIONS: Mapping[str, Callable[..., Any]] = {
    "sum": np.sum,
    "prod": np.prod,
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
    "any": np.any,
    "all": np.all,
}
"""The functions that reduce an array; they also take ``axis``."""


def compile_expression(text: str) -> Expression:
    """Parse and check the text of an expression, so that it can be evaluated.

    Parameters
    ----------
    text : str
        The expression, in Python's syntax; the module says which operations are allowed.

    Raises
    ------
    MetadataError
        If it is not an expression, is too long or too deeply nested, its constants don't fit together, or comparisons
        joined by ``&`` or ``|`` lack parentheses.
    UnsupportedError
        If it holds an operation that is not allowed.

    Examples
    --------
    >>> compile_expression("(price > 10) & (np.log(volume) < limit)").names
    ('price', 'volume', 'limit')
    """
    if not isinstance(text, str):
        raise MetadataError(f"an expression must be text, not {brief(text)}", field="expression")
    if len(text) > _MAX_LENGTH:
        raise MetadataError(f"an expression may have {_MAX_LENGTH} characters, not {len(text)}", field="expression")
    try:
        tree = parse_expression(text.strip())
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise MetadataError(f"{text!r:.80} is not an expression: {reason}", field="expression") from None
    except (RecursionError, MemoryError):
        raise MetadataError("the expression is too deeply nested", field="expression") from None
    _check_depth(tree)
    check_precedence(tree, text.strip())
    return compile_tree(tree, text)


def compile_tree(tree: ast.expr, text: str) -> Expression:
    """Check an expression that has been parsed already; errors are those of `compile_expression`.

    Examples
    --------
    >>> compile_tree(parse_expression("2 * a"), "2 * a").names
    ('a',)
    """
    try:
        return Expression(_checked(tree), text)
    except TegulaError as error:
        error.within(field="expression")
        raise


class Expression:
    """A checked expression, made by `compile_expression`; `evaluate` may be called again and again.

    Examples
    --------
    >>> import numpy as np
    >>> expression = compile_expression("2 * a + b")
    >>> expression.evaluate({"a": np.arange(3), "b": 1})
    array([1, 3, 5])
    """

    __slots__ = ("_text", "_tree", "names", "reduces", "reduction")

    def __init__(self, tree: ast.expr, text: str) -> None:
        nodes = [*_in_order(tree)]
        called = [_function_name(node.func) for node in nodes if isinstance(node, ast.Call)]
        self._tree = tree
        self._text = text
        self.names: tuple[str, ...] = tuple(dict.fromkeys(node.id for node in nodes if isinstance(node, ast.Name)))
        """The variables it uses, in order of appearance."""
        self.reduces: bool = any(name in REDUCTIONS for name in called)
        """Whether it contains a reduction, so that it can't be evaluated block by block."""
        outermost = _function_name(tree.func) if isinstance(tree, ast.Call) else ""
        self.reduction: str | None = outermost if outermost in REDUCTIONS else None
        """The reduction that is the whole expression, if it is one."""

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """Compute the expression with NumPy, by its rules for dtypes.

        Parameters
        ----------
        variables : mapping of str to array_like
            Values of the names; others are ignored.

        Raises
        ------
        NotFoundError
            If a variable has no value.
        MetadataError
            If the values don't fit together.
        """
        values = {name: self._variable(name, variables) for name in self.names}
        try:
            with np.errstate(all="ignore"):
                return _value(self._tree, values)
        except TegulaError:
            raise
        except (TypeError, ValueError, ArithmeticError, IndexError, AttributeError) as error:
            raise MetadataError(f"{self._text!r:.80} can't be computed: {error}", field="expression") from error
        except RecursionError:
            raise MetadataError("the expression is too deeply nested", field="expression") from None

    def _variable(self, name: str, variables: Mapping[str, Any]) -> Any:
        try:
            value = variables[name]
        except KeyError:
            raise NotFoundError(f"there is no variable {name!r:.80}", field="expression") from None
        if type(value) in (np.ndarray, bool, int, float, complex, str, bytes) or isinstance(value, np.generic):
            return value
        try:
            array = np.asarray(value)
        except (ValueError, TypeError) as error:
            raise MetadataError(f"the variable {name!r:.80} is not an array: {error}", field="expression") from error
        return array if array.ndim else array[()]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"compile_expression({self._text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_expression, (self._text,)


# --- checking


def _terms_of(node: ast.BinOp) -> tuple[ast.expr, list[tuple[ast.operator, ast.expr]]]:
    """Return a chain of operators as its first operand, and each operator with the operand to the right of it.

    Python nests such a chain to the left, as deep as it is long.

    Examples
    --------
    >>> first, others = _terms_of(parse_expression("a + b - c * d"))
    >>> first.id, [ast.unparse(operand) for _, operand in others]
    ('a', ['b', 'c * d'])
    """
    others = [(node.op, node.right)]
    first = node.left
    while isinstance(first, ast.BinOp):
        others.append((first.op, first.right))
        first = first.left
    return first, others[::-1]


def _check_depth(tree: ast.expr) -> None:
    level: list[ast.AST] = [tree]
    for _ in range(_MAX_DEPTH):
        level = [child for node in level for child in _operands(node)]
        if not level:
            return
    raise MetadataError("the expression is too deeply nested", field="expression")


def _operands(node: ast.AST) -> list[ast.AST]:
    """Return the operands of a node; a chain of operators counts as one node: it may be long without being deep."""
    if not isinstance(node, ast.BinOp):
        return [*ast.iter_child_nodes(node)]
    first, others = _terms_of(node)
    return [first, *(operand for _, operand in others)]


def _in_order(tree: ast.expr) -> Iterator[ast.AST]:
    """Yield the nodes in the order of the text, without the names of functions."""
    yield tree
    for child in _operands(tree):
        if isinstance(tree, ast.Call) and child is tree.func:
            continue
        yield from _in_order(cast(ast.expr, child))


def _checked(node: ast.expr) -> ast.expr:
    """Return the node with its constant parts computed, or refuse it if it holds an operation that is not allowed."""
    check = _CHECKS.get(type(node))
    if check is None:
        what = ast.unparse(node) if isinstance(node, ast.Attribute) else type(node).__name__
        raise UnsupportedError(f"{what!r:.80} is not allowed in an expression")
    return check(node)


def _check_constant(node: ast.Constant) -> ast.expr:
    if type(node.value) not in (bool, int, float, complex, str, bytes):
        raise UnsupportedError(f"{node.value!r:.80} is not allowed in an expression")
    if type(node.value) is int and node.value.bit_length() > _MAX_BITS:
        raise MetadataError("a number is too large")
    return node


def _check_name(node: ast.Name) -> ast.expr:
    if node.id.startswith("__") and node.id.endswith("__"):
        raise UnsupportedError(f"{node.id!r:.80} is not allowed in an expression")
    return node


def _check_unary(node: ast.UnaryOp) -> ast.expr:
    return _folded(ast.UnaryOp(node.op, _checked(node.operand)), node.operand)


def _check_binary(node: ast.BinOp) -> ast.expr:
    first, others = _terms_of(node)
    left = _checked(first)
    for op, operand in others:
        if type(op) not in _ARITHMETIC:
            raise UnsupportedError(f"{type(op).__name__} is not allowed in an expression")
        right = _checked(operand)
        left = _folded(ast.BinOp(left, op, right), left, right)
    return left


def _folded(node: ast.expr, *operands: ast.expr) -> ast.expr:
    if not all(isinstance(operand, ast.Constant) for operand in operands):
        return node
    try:
        value = _value(node, {})
    except (TypeError, ValueError, ArithmeticError) as error:
        raise MetadataError(f"the constants don't fit together: {error}") from error
    return _check_constant(ast.Constant(value))


def _check_boolean(node: ast.BoolOp) -> ast.expr:
    return ast.BoolOp(node.op, [_checked(value) for value in node.values])


def _check_comparison(node: ast.Compare) -> ast.expr:
    others: list[ast.expr] = []
    for op, other in zip(node.ops, node.comparators):
        if isinstance(op, (ast.In, ast.NotIn)):
            if not isinstance(other, (ast.List, ast.Tuple, ast.Set)):
                raise UnsupportedError("'in' needs a list of constants")
            items = [_checked(item) for item in other.elts]
            if not all(isinstance(item, ast.Constant) for item in items):
                raise UnsupportedError("'in' needs a list of constants")
            others.append(ast.List(items, ast.Load()))
        elif type(op) in _COMPARISONS:
            others.append(_checked(other))
        else:
            raise UnsupportedError(f"{type(op).__name__} is not allowed in an expression")
    if any(isinstance(other, ast.List) for other in others) and len(others) > 1:
        raise UnsupportedError("'in' can't be part of a chain of comparisons")
    return ast.Compare(_checked(node.left), node.ops, others)


def _function_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy", "da"):
        return node.attr
    raise UnsupportedError(f"{ast.unparse(node)!r:.80} can't be called in an expression")


def _check_call(node: ast.Call) -> ast.expr:
    name = _function_name(node.func)
    if name in REDUCTIONS:
        wanted, axes = 1, [word.value for word in node.keywords if word.arg == "axis"]
        if len(node.args) == 2:
            axes.append(node.args[1])
        fits = bool(node.args) and len(axes) <= 1 and len(node.args) + len(node.keywords) == 1 + len(axes)
        keywords = [ast.keyword("axis", _axis(axis)) for axis in axes]
    elif name in FUNCTIONS:
        wanted, keywords = FUNCTIONS[name][1], []
        fits = len(node.args) == wanted and not node.keywords
    else:
        raise UnsupportedError(f"there is no function {name!r:.80} in expressions")
    if not fits:
        raise MetadataError(f"{name} takes {wanted} argument{'s' if wanted > 1 else ''}")
    return ast.Call(ast.Name(name, ast.Load()), [_checked(arg) for arg in node.args[:wanted]], keywords)


def _axis(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant) and node.value is None:
        return node
    checked = _checked(node)
    if isinstance(checked, ast.Constant) and type(checked.value) is int:
        return checked
    raise MetadataError("axis must be a whole number")


_CHECKS: Mapping[type[ast.AST], Callable[[Any], ast.expr]] = {
    ast.Constant: _check_constant,
    ast.Name: _check_name,
    ast.UnaryOp: _check_unary,
    ast.BinOp: _check_binary,
    ast.BoolOp: _check_boolean,
    ast.Compare: _check_comparison,
    ast.Call: _check_call,
}


# --- computing


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    return _VALUES[type(node)](node, values)


def _constant(node: ast.Constant, _: Mapping[str, Any]) -> Any:
    return node.value


def _name(node: ast.Name, values: Mapping[str, Any]) -> Any:
    return values[node.id]


def _unary(node: ast.UnaryOp, values: Mapping[str, Any]) -> Any:
    value = _value(node.operand, values)
    if isinstance(node.op, ast.Not):
        return np.logical_not(value) if hasattr(value, "dtype") else not value
    _check_number(value)
    if isinstance(node.op, ast.Invert):
        return not value if isinstance(value, bool) else ~value
    return -value if isinstance(node.op, ast.USub) else +value


def _binary(node: ast.BinOp, values: Mapping[str, Any]) -> Any:
    first, others = _terms_of(node)
    result = _value(first, values)
    for op, operand in others:
        result = _operated(op, result, _value(operand, values))
    return result


def _operated(op: ast.operator, left: Any, right: Any) -> Any:
    _check_number(left)
    _check_number(right)
    if type(left) is int and type(right) is int and isinstance(op, (ast.Pow, ast.LShift)):
        is_power = isinstance(op, ast.Pow)
        bits = max(right, 0) * (left.bit_length() if is_power else 1)
        if bits > _MAX_BITS and left not in ((-1, 0, 1) if is_power else (0,)):
            raise MetadataError("a number is too large")
    return _ARITHMETIC[type(op)](left, right)


def _check_number(value: Any) -> None:
    """Refuse text and objects: arithmetic with them may take any amount of memory, or call any code."""
    if isinstance(value, (str, bytes)) or (hasattr(value, "dtype") and value.dtype.kind in "OSUVT"):
        raise UnsupportedError("there is no arithmetic with text or objects", field="expression")


def _boolean(node: ast.BoolOp, values: Mapping[str, Any]) -> Any:
    combine = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
    result = _value(node.values[0], values)
    for other in node.values[1:]:
        result = combine(result, _value(other, values))
    return result


def _comparison(node: ast.Compare, values: Mapping[str, Any]) -> Any:
    left = _value(node.left, values)
    result = None
    for op, other in zip(node.ops, node.comparators):
        if isinstance(other, ast.List):
            matches = _isin(left, [cast(ast.Constant, item).value for item in other.elts])
            return np.logical_not(matches) if isinstance(op, ast.NotIn) else matches
        right = _value(other, values)
        part = _compared(_COMPARISONS[type(op)], left, right)
        result = part if result is None else np.logical_and(result, part)
        left = right
    return result


def _compared(compare: np.ufunc, left: Any, right: Any) -> Any:
    left, right = _alike(left, right)
    kinds = [value.dtype.kind if isinstance(value, (np.ndarray, np.generic)) else "" for value in (left, right)]
    if kinds in (["M", "M"], ["m", "m"]) and left.dtype != right.dtype:
        return _compared_times(compare, left, right)
    return compare(left, right)


def _compared_times(compare: np.ufunc, left: Any, right: Any) -> Any:
    """Compare times of different units exactly; NumPy converts to the finer unit, and large times overflow there."""
    both = [_in_days(left), _in_days(right)]
    if any(np.datetime_data(values.dtype)[0] == "generic" for values in both):
        return compare(left, right)
    common = _tick(np.promote_types(both[0].dtype, both[1].dtype))
    factors = [int(_tick(values.dtype) // common) for values in both]
    if all(factor == 1 or _fits(values, _MAX_TIME // factor) for values, factor in zip(both, factors)):
        return compare(*both)
    if min(factors) > 1:
        raise MetadataError("times are out of range of the unit in which they can be compared", field="expression")
    coarse = factors.index(max(factors))
    if both[coarse].ndim == 0:  # before or after all times of the finer unit
        sides = [0, 0]
        sides[coarse] = int(both[coarse].astype(np.int64))
        result = compare(*sides)
    else:  # compare in the coarser unit, and where these are equal, the remaining ticks of the finer one
        steps = [max(factors) // factor for factor in factors]
        days = [values.astype(np.int64) // step for values, step in zip(both, steps)]
        parts_of_day = [values.astype(np.int64) % step for values, step in zip(both, steps)]
        result = np.where(days[0] != days[1], compare(*days), compare(*parts_of_day))
    return np.where(np.isnat(left) | np.isnat(right), compare is np.not_equal, result)


def _in_days(values: Any) -> Any:
    """Convert months and years, whose length varies, to days."""
    return values.astype("M8[D]") if values.dtype.kind == "M" and np.datetime_data(values.dtype)[0] in "YM" else values


def _tick(dtype: np.dtype[Any]) -> np.timedelta64:
    unit, count = np.datetime_data(dtype)
    return np.timedelta64(count, unit)  # type: ignore[call-overload, no-any-return]


def _fits(values: Any, limit: int) -> bool:
    numbers = values.astype(np.int64)
    return bool(np.all(((numbers >= -limit) & (numbers <= limit)) | np.isnat(values)))


def _isin(values: Any, items: list[Any]) -> Any:
    result = np.zeros(np.shape(values), bool)
    for item in items:
        result |= _compared(np.equal, values, item)
    return result if result.ndim else result[()]


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Convert a text constant that is compared with bytes or times to their type."""
    if isinstance(right, (str, bytes)) and hasattr(left, "dtype"):
        return left, _as_kind(right, left.dtype)
    if isinstance(left, (str, bytes)) and hasattr(right, "dtype"):
        return _as_kind(left, right.dtype), right
    return left, right


def _as_kind(value: str | bytes, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "S" and isinstance(value, str):
        return value.encode()
    if dtype.kind == "U" and isinstance(value, bytes):
        return value.decode()
    if dtype.kind == "M" and isinstance(value, str):
        return np.datetime64(value)
    return value


def _call(node: ast.Call, values: Mapping[str, Any]) -> Any:
    name = _function_name(node.func)
    arguments = [_value(argument, values) for argument in node.args]
    if name in REDUCTIONS:
        _check_number(arguments[0])
        options = {str(word.arg): cast(ast.Constant, word.value).value for word in node.keywords}
        return REDUCTIONS[name](arguments[0], **options)
    if name not in _OF_OBJECTS:
        for argument in arguments:
            if type(argument) is int and argument.bit_length() > 64:
                raise MetadataError("a number is too large", field="expression")
            if hasattr(argument, "dtype") and argument.dtype.hasobject:
                raise UnsupportedError(f"there is no {name} of objects", field="expression")
    return FUNCTIONS[name][0](*arguments)


_VALUES: Mapping[type[ast.AST], Callable[[Any, Mapping[str, Any]], Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Compare: _comparison,
    ast.Call: _call,
}
