"""Rules: which arrays of a hierarchy get which chunks, shards, codecs and precision.

A *plain* value applies to every array. A mapping holds rules: one integer for the name of a dimension is a *rule for
a dimension*, and changes the lengths along it; anything else is a *rule for arrays*, named by

- a name (``"tas"``): arrays of that name at any level,
- a path (``"/tas"``, ``"model/tas"``), which contains ``/``: the array there, counted from the top of the hierarchy,
- a pattern with ``*``, ``?`` or ``[…]`` in either.

Of several rules for one array, a path takes precedence over a name, a name over a pattern, and among equals the last
one wins; rules for dimensions apply to the arrays that no other rule names, but not to a dimension's coordinate that is
one chunk, since readers load it as a whole. `match_rules` finds out which names are
names of dimensions, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, Final, Literal

from tegula.arrays.array import Array
from tegula.codecs import codec_specs
from tegula.errors import MetadataError
from tegula.jobs.rewriting.precision import check_packing
from tegula.metadata.data_types import as_data_type
from tegula.reductions.dtypes import is_number

__all__ = ["Field", "Rule", "Rules", "match_rules", "rules_of"]

Field = Literal["chunks", "shards", "codecs", "dtype", "scale_offset", "bitround"]
Names = Sequence[str | None]
_MOST_NAMES: Final = 20  # maximum number of names in an error
_LENGTHS: Final = ("chunks", "shards")  # fields with rules for dimensions
_MOST_BITS: Final = 52


@dataclass(slots=True)
class Rule:
    """One member of a mapping of rules."""

    key: str  # the name, path or pattern
    value: Any  # the chunks, shards or codecs; ``None`` leaves an array as it is
    is_array: bool = False  # whether it matches an array, or a dimension; `match_rules` finds out
    is_dimension: bool = False

    @property
    def is_decided(self) -> bool:
        """``True`` if no further array can change what the rule matches."""
        return self.is_dimension or (self.is_array and not self.may_be_dimension)

    @property
    def may_be_dimension(self) -> bool:
        """``True`` if it is a rule for a dimension, should one have that name."""
        return _is_integer(self.value) and "/" not in self.key

    def names(self, path: str) -> bool:
        """Return whether the rule names the array at a path.

        Examples
        --------
        >>> [Rule(key, 8).names("model/tas") for key in ("tas", "/tas", "model/tas", "t*", "*/t??")]
        [True, False, True, True, True]
        """
        name = self.key.strip("/")
        if "/" in self.key:
            return path == name or (self.is_pattern and PurePosixPath("/", path).match(f"/{name}"))
        last = path.rpartition("/")[2]
        return last == name or (self.is_pattern and fnmatchcase(last, name))

    @property
    def is_pattern(self) -> bool:
        """``True`` if the key has wildcards."""
        return any(character in self.key for character in "*?[")

    @property
    def rank(self) -> tuple[bool, bool]:
        """The precedence among rules for one array: the greatest wins."""
        return not self.is_pattern, "/" in self.key

    def __str__(self) -> str:
        return f"{self.key}={_text(self.value)}"


@dataclass(slots=True)
class Rules:
    """An argument of a conversion, such as ``chunks``: a plain value, or rules."""

    field: Field  # the name of the argument
    plain: Any = None  # the value for every array; ``None`` leaves them as they are
    rules: tuple[Rule, ...] = ()  # in order
    single: bool = False  # whether there is only one array, which the value must fit

    def __bool__(self) -> bool:
        return self.plain is not None or bool(self.rules)

    @property
    def values(self) -> list[Any]:
        """The plain value, or the values of all rules."""
        return [self.plain] if self.plain is not None else [rule.value for rule in self.rules]

    def choose(
        self, path: str, names: Names | None, own: Sequence[Any], suits: bool = True, is_whole: bool = False
    ) -> tuple[Any, str | None, bool]:
        """Choose the value for an array, given its path below the source and the names of its dimensions.

        `own` are its lengths along each dimension, which it keeps unless a rule changes them, and `suits` says whether
        a plain value that is given for a whole hierarchy applies to it; `is_whole` says that one chunk is all of it.
        Return the value (as for `tegula.create_array`;
        ``None`` if the array is left as it is), the reason why a rule that names the array is not followed, and whether
        the plain value, or the rules for dimensions, fit the array.
        """
        if not self.rules:
            fits = self.single or self.plain is None or (suits and self._fits(self.plain, len(own)))
            return self.plain if fits else None, None, fits
        named = [rule for rule in self.rules if not rule.is_dimension and rule.names(path)]
        if named:
            rule = max(reversed(named), key=lambda rule: rule.rank)  # of equals the last
            if self.single or self._fits(rule.value, len(own)):
                return rule.value, None, True
            ndim = f"{len(own)} dimension{'s' * (len(own) != 1)}"
            return None, f"the {self.field} stay as they are: {rule} does not fit an array of {ndim}", True
        lengths = {rule.key: rule.value for rule in self.rules if rule.is_dimension}
        if not lengths or not any(name in lengths for name in names or ()):
            return None, None, not lengths
        if is_whole and not self.single and names == (path.rpartition("/")[2],):
            return None, None, True  # a coordinate in one chunk, which readers load as a whole
        return tuple(lengths.get(name or "", length) for name, length in zip(names or (), own)), None, True

    def misfit(self, count: int, some: Sequence[str]) -> str:
        """Return the note on arrays that a plain value, or rules for dimensions, do not fit."""
        more = ", …" if count > len(some) else ""
        listed = f"{', '.join(map(_name, some))}{more}"
        keep = "which keeps its own" if count == 1 else "which keep their own"
        arrays = "array" if count == 1 else "arrays"
        if not self.rules and self.field not in (*_LENGTHS, "codecs"):
            other = "not meant for dimension coordinates and other kinds of elements"
            return f"{self.field} {_text(self.plain)} is {other}: {count} {arrays}, {keep} ({listed})"
        if not self.rules:
            keeps = "array keeps its" if count == 1 else "arrays keep their"
            return (
                f"{self.field} {_text(self.plain)}: {count} {keeps} own, with another number of dimensions ({listed})"
            )
        rules = [str(rule) for rule in self.rules if rule.is_dimension]
        lacks = f"{'has' if count == 1 else 'have'} {'no such dimension' if len(rules) == 1 else 'none of these'}"
        return f"{self.field} {','.join(rules)}: {count} {arrays} {lacks}, {keep} ({listed})"

    def _fits(self, value: Any, ndim: int) -> bool:
        return self.field not in _LENGTHS or not isinstance(value, tuple) or len(value) == ndim


def rules_of(field: Field, value: Any, single: bool) -> Rules:
    """Read an argument of `tegula.convert`.

    Raises
    ------
    MetadataError
        If a value is not valid for any array.

    Examples
    --------
    >>> [str(rule) for rule in rules_of("chunks", {"time": 24, "tas": [24, -1]}, single=False).rules]
    ['time=24', 'tas=24,-1']
    """
    if value is None:
        return Rules(field, single=single)
    if not isinstance(value, Mapping) or (field == "codecs" and _is_codec(value)):
        return Rules(field, _checked(field, value, ""), single=single)
    rules = []
    for key, rule in value.items():
        if not isinstance(key, str) or not key.strip("/"):
            raise MetadataError(f"{key!r:.80} is not the name of a dimension or an array", field=field)
        rules.append(Rule(key, None if rule is None else _checked(field, rule, f"{key}: ")))
    return Rules(field, None, tuple(rules), single)


def match_rules(several: Sequence[Rules], arrays: Iterable[tuple[str, Array]]) -> None:
    """Find out which arrays and dimensions the rules match; stop at the first array after which all are decided.

    Raises
    ------
    MetadataError
        If a rule matches no array; the message lists dimensions and arrays.
    """
    pairs = [(rules, rule) for rules in several for rule in rules.rules]
    dimensions: dict[str, None] = {}
    paths: list[str] = []
    for path, array in arrays if pairs else ():
        names = array.dimension_names or ()
        for rules, rule in pairs:
            rule.is_array = rule.is_array or rule.names(path)
            if rules.field in _LENGTHS and rule.may_be_dimension and rule.key in names:
                rule.is_dimension = True
        # names for the error below, as many as it lists
        if len(paths) <= _MOST_NAMES:
            paths.append(path)
        if len(dimensions) <= _MOST_NAMES:
            dimensions.update(dict.fromkeys(name for name in names if name is not None))
        if all(rule.is_decided or (rule.is_array and rules.field not in _LENGTHS) for rules, rule in pairs):
            break
    for rules, rule in pairs:
        if not (rule.is_array or rule.is_dimension):
            known = f"arrays: {_listed(paths)}"
            if rules.field in _LENGTHS:
                known = f"dimensions: {_listed([*dimensions])}; {known}"
            raise MetadataError(f"the rule {rule} matches no array; {known}", field=rules.field)


def _is_codec(value: Mapping[str, Any]) -> bool:
    """Return whether a mapping is one codec: of numcodecs by its ``id``, or of Zarr v3 by its ``name``."""
    return any(isinstance(value.get(member), str) for member in ("id", "name"))


def _checked(field: Field, value: Any, where: str) -> Any:
    """Return a checked value: lengths of several dimensions as a tuple, codecs as specs."""
    if field in ("dtype", "scale_offset", "bitround"):
        return _checked_precision(field, value, where)
    if field == "codecs":
        return value if isinstance(value, str) and value == "auto" else codec_specs(value)
    if isinstance(value, bool) or (isinstance(value, str) and value == "auto"):
        return value
    wrong = MetadataError(f"{where}{value!r:.80} is not a valid value of {field}", field=field)
    if _is_integer(value):
        return _length(value, wrong)
    if isinstance(value, (str, Mapping)) or not hasattr(value, "__iter__"):
        raise wrong
    return tuple(_edges(item, field, wrong) for item in value)


def _checked_precision(field: Field, value: Any, where: str) -> Any:
    if field == "scale_offset":
        return check_packing(value)
    if field == "bitround":
        if not _is_integer(value) or not 0 <= int(value) <= _MOST_BITS:
            raise MetadataError(f"{where}{value!r:.80} is not a number of bits from 0 to {_MOST_BITS}", field=field)
        return int(value)
    data_type = as_data_type(value)
    if not is_number(data_type.numpy):
        raise MetadataError(f"{where}values can be converted to numbers only, not to {data_type}", field=field)
    return data_type


def _edges(lengths: Any, field: Field, wrong: MetadataError) -> Any:
    if lengths is None or _is_integer(lengths):
        return -1 if lengths is None else _length(lengths, wrong)
    if field == "shards" or isinstance(lengths, (str, Mapping)) or not hasattr(lengths, "__iter__"):
        raise wrong
    return tuple(_length(edge, wrong) for edge in lengths)


def _length(value: Any, wrong: MetadataError) -> int:
    length = int(value)
    if length < 1 and length != -1:
        raise wrong
    return length


def _is_integer(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and not getattr(value, "ndim", 0)


def _text(value: Any) -> str:
    """Return a value as it is written on the command line."""
    if value is None or value is False or value == []:
        return "none"
    if isinstance(value, tuple):
        return ",".join(str(item).replace(" ", "") for item in value) + ("," if len(value) == 1 else "")
    if isinstance(value, list):
        return ",".join(codec.name.removeprefix("numcodecs.") for codec in value)
    return "auto" if value is True else str(value)


def _name(path: str) -> str:
    return path or "/"


def _listed(names: Sequence[str]) -> str:
    shown = [*map(_name, names[:_MOST_NAMES])]
    return ", ".join(shown + ["…"] * (len(names) > _MOST_NAMES)) or "none"
