"""Names of dimensions: given by the caller, stored with the arrays, or made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tegula.arrays.array import Array
from tegula.errors import MetadataError

__all__ = ["check_dims", "dimensions_of"]

Given = Mapping[str, Sequence[str]] | Sequence[str] | None


def check_dims(given: Any) -> Given:
    """Check the argument ``dims`` and return it, with its lists as tuples.

    Raises
    ------
    MetadataError
        If it is neither a list of names nor a mapping to such lists.

    Examples
    --------
    >>> check_dims({"t": ["y", "x"]}), check_dims(None)
    ({'t': ('y', 'x')}, None)
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {name: _names(value) for name, value in given.items()}
    return _names(given)


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):  # the only dimension of an array
        return (value,)
    if not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise MetadataError(
            f"dims is a list of names, or a mapping of variables to such lists; not {value!r:.80}", field="dims"
        )
    return tuple(value)


def dimensions_of(
    arrays: Mapping[str, Array], given: Given = None, first: str = "", above: Mapping[str, int] | None = None
) -> dict[str, tuple[str, ...]]:
    """Return the dimensions of each array of a data set.

    Parameters
    ----------
    arrays : mapping of str to Array
        The arrays by the names of their variables.
    given : mapping, sequence or None
        What `check_dims` has returned.
    first : str
        Name of a first axis that has none: ``"row"`` in tables. By default all axes are named after their number.
    above : mapping of str to int, optional
        The lengths of the dimensions of groups above, in a tree, in which a name stands for one length.

    Raises
    ------
    MetadataError
        If the number of names for a variable is not that of its axes.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> g["a"], g["b"] = [[1, 2]], [3]
    >>> dimensions_of(dict(g.arrays()))
    {'a': ('dim_0', 'dim_1'), 'b': ('dim_0',)}
    >>> dimensions_of(dict(g.arrays()), {"b": ["x"]})
    {'a': ('dim_0', 'dim_1'), 'b': ('x',)}

    An array of one axis without a name is the coordinate of the dimension that has the array's name:

    >>> dimensions_of(dict(g.arrays()), {"a": ["b", "y"]})
    {'a': ('b', 'y'), 'b': ('b',)}
    """
    named = {name: _given_or_stored(name, array, given) for name, array in arrays.items()}
    stated = {pair for name, array in arrays.items() for pair in zip(named[name], array.shape)}
    for name, array in arrays.items():
        if named[name] == (None,) and (name, array.shape[0]) in stated:  # the coordinate of a dimension
            named[name] = (name,)
    usual = [first or "dim_0", *(f"dim_{axis}" for axis in range(1, 33))]

    # a made-up name stands for one length, as any name does
    lengths = {dim: {size} for dim, size in (above or {}).items()}
    for name, array in arrays.items():
        for axis, (dim, size) in enumerate(zip(named[name], array.shape)):
            lengths.setdefault(usual[axis] if dim is None else dim, set()).add(size)

    def made_up(name: str, axis: int) -> str:
        own = f"{name}_dim_{axis}"
        numbered = (f"{own}_{number}" for number in range(2, len(lengths) + 3))
        size = arrays[name].shape[axis]
        return next(dim for dim in (usual[axis], own, *numbered) if lengths.get(dim, {size}) == {size})

    return {
        name: tuple(made_up(name, axis) if dim is None else dim for axis, dim in enumerate(names))
        for name, names in named.items()
    }


def check_used(given: Given, arrays: Mapping[str, Array]) -> None:
    """Check that there is a variable for each of the names that `check_dims` has returned.

    Raises
    ------
    MetadataError
        If there is none.

    Examples
    --------
    >>> check_used({"u": ("x",)}, {})
    Traceback (most recent call last):
    tegula.errors.MetadataError: dims names 'u', but there is no such variable (field 'dims')
    """
    if isinstance(given, Mapping):
        for name in given:
            if name not in arrays:
                raise MetadataError(f"dims names {name!r:.80}, but there is no such variable", field="dims")
    elif given and all(len(given) != array.ndim or array.dimension_names for array in arrays.values()):
        raise MetadataError(
            f"there is no array of {len(given)} axes without names; dims may be a mapping of variables to names, too",
            field="dims",
        )


def _given_or_stored(name: str, array: Array, given: Given) -> tuple[str | None, ...]:
    """Return the names of an array's axes, ``None`` for an axis without a name."""
    if isinstance(given, Mapping) and name in given:
        if len(given[name]) != array.ndim:
            raise MetadataError(
                f"{given[name]!r:.80} are not names for the {array.ndim} axes of {name!r:.80}", field="dims"
            )
        return tuple(given[name])
    stored = array.dimension_names
    if stored is None and given and not isinstance(given, Mapping) and len(given) == array.ndim:
        return tuple(given)
    return stored or (None,) * array.ndim
