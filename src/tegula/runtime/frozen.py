"""Frozen values: classes like frozen dataclasses with slots, which take a tenth of the time to define.

`dataclasses` generates and compiles Python code for each class, which takes a large part of the time to open the first
array of a process. The classes that every array needs use shared methods of `Frozen` instead; when many objects of a
class have been made or copied, functions are compiled for it.
`dataclasses.replace`, `fields` and `asdict` work with them as with any other dataclass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, dataclass_transform

__all__ = ["Field", "Frozen", "attribute", "computed", "field", "replace"]

T = TypeVar("T", bound="Frozen")
_MISSING: Final = object()
_OFTEN: Final = 20  # objects of a class, after which compiling functions for it pays off


def attribute(path: str, doc: str) -> Any:
    """Return a read-only property for an attribute, which takes no call of a Python function.

    Parameters
    ----------
    path : str
        The name of the attribute; dots lead to attributes of attributes.
    doc : str
        The docstring of the property.

    Examples
    --------
    >>> class Step:
    ...     number: int = attribute("_range.start", "The first number.")
    ...
    ...     def __init__(self) -> None:
    ...         self._range = range(3, 5)
    >>> Step().number
    3
    """
    return property(attrgetter(path), doc=doc)


def computed(get: Callable[[Any], Any], doc: str) -> Any:
    """Return a read-only property that a function of the object computes.

    Parameters
    ----------
    get : callable
        Takes the object and returns the value.
    doc : str
        The docstring of the property.

    Examples
    --------
    >>> class Steps(list):
    ...     count: int = computed(len, "How many steps there are.")
    >>> Steps("abc").count
    3
    """
    return property(get, doc=doc)


class Field:
    """The default and options of a field of a `Frozen` class; made by `field`."""

    __slots__ = ("compare", "default", "default_factory", "init", "repr")

    def __init__(self, default: Any, default_factory: Any, init: bool, repr: bool, compare: bool) -> None:
        self.default, self.default_factory = default, default_factory
        self.init, self.repr, self.compare = init, repr, compare


def field(
    *,
    default: Any = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    init: bool = True,
    repr: bool = True,
    compare: bool = True,
) -> Any:
    """Describe a field, as `dataclasses.field` does."""
    return Field(default, default_factory, init, repr, compare)


class _Fields:
    """The fields in the form of `dataclasses`, for its functions; made at the first use."""

    def __get__(self, instance: object, owner: type[Frozen]) -> Mapping[str, Any]:
        made: Mapping[str, Any] | None = owner.__dict__.get("_described")
        if made is None:
            library = import_module("dataclasses")
            rows: list[tuple[str, Any, Any]] = []
            for name, item in owner._fields.items():
                options = {"init": item.init, "repr": item.repr, "compare": item.compare, "kw_only": owner._kw_only}
                if item.default_factory is not None:
                    options["default_factory"] = item.default_factory
                elif item.default is not _MISSING:
                    options["default"] = item.default
                elif not owner._kw_only:
                    options["kw_only"] = bool(rows) and not item.init
                rows.append((name, owner.__annotations__[name], library.field(**options)))
            made = library.make_dataclass(owner.__name__, rows, eq=False, repr=False).__dataclass_fields__
            type.__setattr__(owner, "_described", made)
        return made


class _Maker(type):
    """Metaclass that turns the annotations of a class into slots."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], kw_only: bool = False) -> Any:
        fields = {}
        for field in namespace.get("__annotations__", ()) if bases else ():
            default = namespace.pop(field, _MISSING)
            fields[field] = default if isinstance(default, Field) else Field(default, None, True, True, True)
        made: Any = super().__new__(cls, name, bases, {**namespace, "__slots__": (*fields,)})
        made._fields, made._kw_only = fields, kw_only
        made._places = tuple((field, getattr(made, field).__set__, item) for field, item in fields.items())
        made._count, made._copies, made._copy = 0, 0, None
        made._checks = "__init__" in namespace
        made._compared = tuple(field for field, item in fields.items() if item.compare)
        return made


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen(metaclass=_Maker):
    """Base class of frozen values. A subclass declares its fields by annotations; its objects are compared by value.

    A subclass has no other base; with ``kw_only=True`` after the base, fields are given by keyword only.
    ``__post_init__`` is called as in dataclasses, and may set further fields by ``object.__setattr__``.

    Examples
    --------
    >>> class Span(Frozen):
    ...     start: int
    ...     stop: int = 0
    >>> Span(1, stop=2), Span(1) == Span(1, 0)
    (Span(start=1, stop=2), True)
    >>> Span(1).start = 2
    Traceback (most recent call last):
    AttributeError: cannot assign to field 'start'
    """

    __dataclass_fields__: Any = _Fields()

    if TYPE_CHECKING:
        _fields: ClassVar[Mapping[str, Field]]
        _kw_only: ClassVar[bool]
        _places: ClassVar[tuple[tuple[str, Callable[[Any, Any], None], Field], ...]]
        _compared: ClassVar[tuple[str, ...]]
        _count: ClassVar[int]
        _copies: ClassVar[int]
        _copy: ClassVar[Any]
        _checks: ClassVar[bool]  # whether the class has an __init__ of its own
        __post_init__: Callable[[], None]

    def __init__(self, *args: Any, **given: Any) -> None:
        cls = type(self)
        cls._count += 1
        if cls._count == _OFTEN and cls.__init__ is Frozen.__init__:
            cls.__init__ = _compiled(cls)  # type: ignore[method-assign]  # of this class alone
        if args:
            if cls._kw_only or len(args) > len(cls._places):
                raise TypeError(f"{cls.__name__} does not take {len(args)} values without names")
            given = dict(**dict(zip(cls._fields, args)), **given)
        used = 0
        for name, put, item in cls._places:
            if name in given and item.init:
                put(self, given[name])
                used += 1
            elif item.default is not _MISSING:
                put(self, item.default)
            elif item.default_factory is not None:
                put(self, item.default_factory())
            elif item.init:
                raise TypeError(f"{cls.__name__} needs the value {name!r}")
        if used < len(given):
            raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}, not {', '.join(given)}")
        if hasattr(cls, "__post_init__"):
            self.__post_init__()

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        # lists treat a value as equal to itself, even NaN
        names = self._compared
        return [*map(getattr, repeat(self), names)] == [*map(getattr, repeat(other), names)]

    def __hash__(self) -> int:
        return hash(tuple(map(getattr, repeat(self), self._compared)))

    def __repr__(self) -> str:
        values = (f"{name}={getattr(self, name)!r}" for name, item in self._fields.items() if item.repr)
        return f"{type(self).__qualname__}({', '.join(values)})"

    def __getstate__(self) -> list[Any]:
        return [getattr(self, name) for name in self._fields]

    def __setstate__(self, state: list[Any]) -> None:
        for (_, put, _), value in zip(self._places, state):
            put(self, value)


def _compiled(cls: type[Frozen]) -> Any:
    """Generate the ``__init__`` of a class as `dataclasses` would; it does the same as that of `Frozen`, but faster."""
    names: dict[str, Any] = {"_MISSING": _MISSING}
    parameters, lines = ["self", *["*"] * cls._kw_only], []
    for name, put, item in cls._places:
        names[f"put_{name}"], names[f"default_{name}"] = put, item.default
        value = name
        if item.default_factory is not None:
            names[f"make_{name}"] = item.default_factory
            value = f"make_{name}() if {name} is _MISSING else {name}" if item.init else f"make_{name}()"
        elif not item.init:
            if item.default is _MISSING:
                continue
            value = f"default_{name}"
        if item.init:
            optional = item.default_factory is not None or item.default is not _MISSING
            parameters.append(f"{name}=default_{name}" if optional else name)
        lines.append(f"    put_{name}(self, {value})")
    lines += ["    self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    text = f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines)
    # in `exec` of text, but not of compiled code, Python treats a Ctrl-C as one that ends the process
    exec(compile(text, f"<{cls.__qualname__}.__init__>", "exec"), names)
    return names["__init__"]


def _compiled_copy(cls: type[Frozen]) -> Any:
    """Generate a function that does the same as `replace` for one class, but faster."""
    names: dict[str, Any] = {"_MISSING": _MISSING, "_new": object.__new__, "_class": cls}
    parameters, lines = ["self"], ["    _made = _new(_class)"]
    for name, put, item in cls._places:
        names[f"put_{name}"], names[f"default_{name}"], names[f"make_{name}"] = put, item.default, item.default_factory
        value = f"self.{name} if {name} is _MISSING else {name}"
        if item.init:
            parameters += ["*"] * (len(parameters) == 1) + [f"{name}=_MISSING"]
        elif item.default_factory is not None:
            value = f"make_{name}()"
        elif item.default is not _MISSING:
            value = f"default_{name}"
        else:
            continue
        lines.append(f"    put_{name}(_made, {value})")
    lines += ["    _made.__post_init__()"] if hasattr(cls, "__post_init__") else []
    text = f"def copy({', '.join(parameters)}):\n" + "\n".join([*lines, "    return _made"])
    exec(compile(text, f"<replace of {cls.__qualname__}>", "exec"), names)  # compiled first, as above
    return names["copy"]


def replace(value: T, **changes: Any) -> T:
    """Return a value with some fields changed, as `dataclasses.replace` does for any dataclass."""
    cls = type(value)
    if cls._copy is not None:
        made: T = cls._copy(value, **changes)
        return made
    cls._copies += 1
    if cls._copies == _OFTEN and not cls._checks:
        cls._copy = _compiled_copy(cls)
    for name, _, item in cls._places:
        if item.init and name not in changes:
            changes[name] = getattr(value, name)
    return cls(**changes)
