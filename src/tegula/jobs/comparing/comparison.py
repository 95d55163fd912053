"""The report of a comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tegula.display.info import shown

__all__ = ["Comparison", "Difference"]

What = Literal[
    "only in the first", "only in the second", "kind", "shape", "data type", "fill value", "dimension names", "columns",
    "attributes", "values",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two nodes.

    Parameters
    ----------
    path : str
        Path of the node below the two compared nodes; ``""`` for these themselves.
    what : str
        The kind: ``"only in the first"``, ``"only in the second"``, ``"kind"``, ``"shape"``, ``"data type"``,
        ``"fill value"``, ``"dimension names"``, ``"columns"`` (their order), ``"attributes"`` or ``"values"``.
    one, other : object
        What each side has: the differing attributes, or the values at `index`.
    count, size : int
        For values: how many differ, of how many.
    index : tuple of int or None
        For values: the index of the first difference in C order; ``None`` if they can't be compared.

    Examples
    --------
    >>> print(Difference("era/t", "values", 1.5, 2.5, count=3, size=600, index=(4, 19)))
    /era/t: 3 of 600 values differ, the first at [4, 19]: 1.5 and 2.5
    """

    path: str
    what: What
    one: Any = None
    other: Any = None
    count: int = 0
    size: int = 0
    index: tuple[int, ...] | None = None

    def __str__(self) -> str:
        place = f"/{self.path}"
        if self.what in ("only in the first", "only in the second"):
            return f"{place}: {self.what}"
        if self.what == "values":
            if self.index is None:
                return f"{place}: values of these types are not compared"
            at = f"[{', '.join(map(str, self.index))}]" if self.index else "[()]"
            share = f"{self.count:,} of {self.size:,} values differ"
            return f"{place}: {share}, the first at {at}: {_short(self.one)} and {_short(self.other)}"
        if self.what == "attributes":
            return f"{place}: attributes: {_short_pairs(self.one, self.other)}"
        plain = self.what in ("kind", "data type")
        one, other = (str(value) if plain else _short(value) for value in (self.one, self.other))
        return f"{place}: {self.what}: {one} and {other}"


def _short(value: Any, most: int = 100) -> str:
    """Return the repr of a value, shortened."""
    text = f"{shown(value)!r}"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _short_pairs(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Return the names of attributes with the values of both sides."""
    parts = []
    for name in {**one, **other}:
        sides = [_short(values[name], 40) if name in values else "nothing" for values in (one, other)]
        parts.append(f"{name} ({sides[0]} and {sides[1]})")
    return ", ".join(parts[:5]) + (f" and {len(parts) - 5} more" if len(parts) > 5 else "")


@dataclass(slots=True)
class Comparison:
    """The report of `tegula.compare`; true if both are equal.

    Parameters
    ----------
    first, second : str
        URLs of the compared nodes.
    exact : bool
        Whether the bits of values were compared.
    arrays, groups, tables : int
        Pairs of nodes that were compared; columns of tables count as arrays.
    elements : int
        Elements of the arrays whose values were compared.
    chunks_skipped : int
        Chunks that both store as the same bytes, which were not decoded.
    differences : list of Difference
        The differences, up to `max_differences`.
    counts : dict of str to int
        Number of differences of each kind, including those not kept in `differences`.
    failed : dict of str to str
        Path and reason of each node that could not be read, and so was not compared.
    seconds : float
        Duration.

    Examples
    --------
    >>> import tegula
    >>> one, other = tegula.create_group({}), tegula.create_group({}, format="zarr2")
    >>> one["x"], other["x"] = [1, 2, 3], [1, 2, 4]
    >>> report = tegula.compare(one, other)
    >>> report.equal, report.differences[0].index
    (False, (2,))
    """

    first: str
    second: str
    exact: bool = False
    arrays: int = 0
    groups: int = 0
    tables: int = 0
    elements: int = 0
    chunks_skipped: int = 0
    differences: list[Difference] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        """``True`` if everything could be read, and nothing differs."""
        return not self.counts and not self.failed

    def __bool__(self) -> bool:
        return self.equal

    @property
    def summary(self) -> str:
        """One line with the counts and the result.

        Examples
        --------
        >>> Comparison("a.zarr", "b.zarr", arrays=2, groups=1, elements=12).summary
        '1 group, 2 arrays, 12 elements: equal'
        """
        numbers = ((self.groups, "group"), (self.tables, "table"), (self.arrays, "array"), (self.elements, "element"))
        nodes = ", ".join(_counted(number, name) for number, name in numbers if number) or "nothing to compare"
        found = [_counted(sum(self.counts.values()), "difference")] if self.counts else []
        lost = [f"{_counted(len(self.failed), 'node')} not readable"] if self.failed else []
        return f"{nodes}: {', '.join([*found, *lost]) or 'equal'}"

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values.

        Examples
        --------
        >>> Comparison("a", "b").as_dict()["equal"]
        True
        """
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "differences"}
        names = Difference.__slots__
        found = [{name: getattr(item, name) for name in names} for item in self.differences]
        return {"equal": self.equal, **plain, "differences": found}

    def __str__(self) -> str:
        left_out = sum(self.counts.values()) - len(self.differences)
        failed = [f"/{path}: {reason}" for path, reason in self.failed.items()]
        more = [f"... and {left_out} more"] if left_out else []
        return "\n".join([self.summary, *map(str, self.differences), *more, *failed])

    def __repr__(self) -> str:
        return f"<tegula.Comparison of {self.first!r} and {self.second!r}: {self.summary}>"


def _counted(number: int, name: str) -> str:
    return f"{number:,} {name}{'s' * (number != 1)}"
