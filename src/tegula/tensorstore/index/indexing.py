"""NumPy-like indexing of a domain: from an index expression to the transform that applies it.

Integers drop a dimension, slices restrict it and (without a step) keep its indices, ``None`` adds a dimension, and
arrays replace dimensions. With the mode ``"default"``, all arrays broadcast together; the resulting dimensions replace
the first array, or come first if other terms separate the arrays. With ``"vindex"`` they always come first. With
``"oindex"``, each array stays in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from tegula.tensorstore.errors import index_error
from tegula.tensorstore.index.composition import Transform
from tegula.tensorstore.index.dim_selections import Selector, resolve, slice_text
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.numpy_terms import Expression, Term, dimension_count
from tegula.tensorstore.index.plan import NEW, NOTHING, Plan

__all__ = ["index_directly", "index_selected"]

_ALL = slice(None)


def index_directly(domain: IndexDomain, expression: Expression) -> Transform:
    """Return the transform that indexes all dimensions in order."""
    required = expression.dimensions
    rank = len(domain._lower)
    if required > rank:
        raise index_error(
            f"Indexing expression requires {required} dimensions, and cannot be applied to a domain of rank {rank}"
        )
    terms = _expanded(expression.terms, rank - required)
    plan = Plan(domain, expression, [])
    dims = iter(range(rank))
    for term in terms:
        count = dimension_count(term)
        at = len(plan.slots)
        plan.slots += [next(dims) for _ in range(count)] if count else [NEW if term is None else NOTHING]
        plan.add(term, list(range(at, len(plan.slots))))
    return plan.transform()


def index_selected(
    domain: IndexDomain, expression: Expression, selection: Sequence[Selector], dims: list[int] | None
) -> tuple[Transform, list[int]]:
    """Return the transform that indexes selected dimensions, and the dimensions selected after it.

    Parameters
    ----------
    selection : sequence of int, str or slice
        The dimensions in the order of the terms; for new dimensions, their positions in the result.
    dims : list of int, optional
        The numbers of the dimensions, for the second and later operations of a chain.
    """
    slots = list(range(domain.rank))
    if dims is None:
        dims, slots = _resolve_selection(domain, expression, selection)
    terms = _for_selection(expression, len(dims))
    plan = Plan(domain, expression, slots)
    remaining = iter(dims)
    for term in terms:
        plan.add(term, [next(remaining) for _ in range(1 if term is None else dimension_count(term))])
    return plan.transform(), plan.selected()


def _for_selection(expression: Expression, selected: int) -> tuple[Term, ...]:
    """Return one term for each selected dimension."""
    terms = expression.terms
    if expression.scalar:
        return terms * selected
    count = sum([1 if term is None else dimension_count(term) for term in terms])
    if count > selected or (count < selected and ... not in terms):
        raise index_error(f"Indexing expression requires {count} dimensions but selection has {selected} dimensions")
    return _expanded(terms, selected - count) if ... in terms else terms


def _expanded(terms: tuple[Term, ...], missing: int) -> tuple[Term, ...]:
    """Replace the ellipsis by full slices for the missing dimensions; without an ellipsis, append these."""
    for at, term in enumerate(terms):
        if term is ...:
            return (*terms[:at], *([_ALL] * missing), *terms[at + 1 :])
    return terms + (_ALL,) * missing if missing else terms


def _resolve_selection(
    domain: IndexDomain, expression: Expression, selection: Sequence[Selector]
) -> tuple[list[int], list[int]]:
    """Resolve the selection of the first operation, which may add dimensions.

    Numbers of dimensions include the new ones. Return the selected numbers, and for each number the old dimension or
    `NEW`.
    """
    # count the new dimensions: terms that are None; if None is the only term, all selected numbers
    new_only = expression.scalar and None in expression.terms
    if new_only:
        added = sum([_new_count(selector) for selector in selection if not isinstance(selector, str)])
        if any(isinstance(selector, str) for selector in selection):
            raise index_error("New dimensions cannot be specified by label")
    else:
        added = sum([term is None for term in expression.terms])
    rank = domain.rank + added
    # resolve numbers among all dimensions; resolve labels later, as their numbers depend on the new dimensions
    flat: list[int | str] = []
    for selector in selection:
        if isinstance(selector, str):
            resolve((selector,), domain.rank, domain._labels)
            flat.append(selector)
        else:
            flat += resolve((selector,), rank, ())
    twice = [number for at, number in enumerate(flat) for other in flat[:at] if type(number) is int and number == other]
    if twice:
        every = f"Input dimensions {{{', '.join(map(str, twice))}}}"
        raise index_error(f"{every if new_only else f'Dimension {twice[0]}'} specified more than once")
    # number the old dimensions around the new ones, and resolve the labels
    new = _new_numbers(_for_selection(expression, len(flat)), flat)
    old_dims = iter(range(domain.rank))
    slots = [NEW if number in new else next(old_dims, NOTHING) for number in range(rank)]
    numbers: list[int] = []
    for selector in flat:
        if not isinstance(selector, str):
            numbers.append(selector)
            continue
        number = slots.index(domain._labels.index(selector))
        if number in flat or number in numbers:
            raise index_error(f"Dimension {number} specified more than once")
        numbers.append(number)
    return numbers, slots


def _new_numbers(terms: Sequence[Term], flat: Sequence[int | str]) -> list[int]:
    """Return the numbers of the new dimensions."""
    new: list[int] = []
    at = 0
    for term in terms:
        if term is not None:
            at += dimension_count(term)
            continue
        if at < len(flat):
            number = flat[at]
            if isinstance(number, str):
                raise index_error("Dimensions specified by label cannot be used with newaxis")
            new.append(number)
        at += 1
    return new


def _new_count(selector: int | slice) -> int:
    """Return the number of new dimensions that a number or a range of numbers stands for."""
    if isinstance(selector, int):
        return 1
    step = 1 if selector.step is None else selector.step
    start, stop = selector.start, selector.stop
    if start is None and stop is not None and (stop < 0) == (step < 0):
        start = 0 if step > 0 else -1
    elif stop is None and start is not None and (start < 0) == (step > 0):
        stop = 0 if step > 0 else -1
    elif start is None or stop is None or (start < 0) != (stop < 0):
        raise index_error(f"`{slice_text(selector)}` is not a valid specification for new dimensions")
    return len(range(start, stop, step))
