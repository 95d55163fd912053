"""Contexts: resources that arrays and key-value stores share, such as the contents of a store in memory.

A spec refers to its resources by identifier (``cache_pool``, ``cache_pool#a``) or describes them; *binding* it to a
context replaces each by a `Context.Resource`. `Bindings` holds the resources of one spec, bound or not. `SpecBuilder`
converts the resources of nested specs back to JSON; shared resources remain shared.
"""

from __future__ import annotations

import itertools
import operator
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar, Final

from tegula.errors import StoreError
from tegula.runtime.frozen import attribute
from tegula.stores.arguments import Generation, split_children
from tegula.stores.memory import MemoryStore, next_generation
from tegula.tensorstore.errors import checked_or_none, invalid, status, type_error
from tegula.tensorstore.json import (
    MISSING,
    MemberTable,
    boolean,
    expected,
    integer,
    known_only,
    obj,
    one_of,
    pretty,
    take,
    take_members,
    to_json_value,
    with_defaults,
)

__all__ = ["Bindings", "Context", "MemoryKeys", "SpecBuilder"]


def _any_text(key: Any) -> str:
    """Return a key or prefix if it is text."""
    if not isinstance(key, str):
        raise StoreError(f"a key must be text, not {type(key).__name__}")
    return key


class MemoryKeys(MemoryStore):
    """A `MemoryStore` whose keys and prefixes may be any text, and in which several keys can change in one step."""

    _check_key = staticmethod(_any_text)

    def change(self, changes: Mapping[str, tuple[bytes | None, Generation | None]]) -> None:
        """Set or delete several keys, if each has its expected generation; a reader sees all changes or none."""
        with self._lock:
            for key, (_, expected) in changes.items():
                self._check_generation(key, expected)
            values = dict(self._values)
            for key, (value, _) in changes.items():
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = (value, next_generation())
            self._values = values

    def list_prefix(self, prefix: str) -> Iterator[str]:
        start = _any_text(prefix)
        with self._lock:
            keys = [*self._values]
        return (key for key in keys if key.startswith(start))

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        return split_children(self.list_prefix(prefix), prefix)


Reader = Callable[[Any], Any]


@dataclass(frozen=True)
class Kind:
    """A kind of context resource."""

    name: str  # the first part of its identifiers
    members: MemberTable | None = field(default_factory=dict)  # of its JSON object; `None` if it is a boolean instead
    private: bool = False  # whether the resource is only a setting and never shared
    opaque: bool = False  # whether any members are accepted, without validation

    def read(self, json: Any) -> Any:
        """Validate JSON and return it without members that have their default value."""
        if self.members is None:
            return boolean(json)
        members = obj(json)
        if self.opaque:
            return members
        description = take_members(members, self.members)
        known_only(members)
        return dict(sorted(description.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return kind_of, (self.name,)

    @property
    def default(self) -> Any:
        """The description of a default resource."""
        return True if self.members is None else {}

    def to_json(self, description: Any, include_defaults: bool = False) -> Any:
        """Return the JSON of a description, if wanted with all defaults but ``None``; references have no members."""
        if not isinstance(description, dict):
            return description
        return dict(sorted(with_defaults(description, self.members or {}).items()) if include_defaults else description)


_DURATION = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|ms|s|m|h))+").fullmatch
_PARTS = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|ms|s|m|h)").findall
_UNITS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def _duration(value: Any) -> str:
    """Read a duration and return its shortest form: ``90s`` is ``1m30s``."""
    if not isinstance(value, str) or not (value == "0" or _DURATION(value)):
        raise expected('Duration formatted as a string using time units "ns", "us" "ms", "s", "m", or "h".', value)
    rest = sum(round(float(number) * _UNITS[unit]) for number, unit in _PARTS(value))
    if not rest:
        return "0"
    last = next(unit for unit in ("s", "ms", "us", "ns") if rest >= _UNITS[unit])
    text = "-" if value.startswith("-") else ""
    for unit in ("h", "m"):
        number, rest = divmod(rest, _UNITS[unit])
        text += f"{number}{unit}" if number else ""
    return f"{text}{Decimal(rest) / _UNITS[last]:f}{last}" if rest else text


def _locking_timeout(value: Any) -> str | None:
    timeout = _duration(value)
    return None if timeout == "1m" else timeout


def _mode(*names: str) -> Reader:
    return lambda value: None if one_of(value, names) == names[0] else value


def _retries(most: int) -> dict[str, tuple[Reader, Any]]:
    return {
        "max_retries": (lambda value: integer(value, 0, 2**63 - 1), most),
        "initial_delay": (_duration, "1s"),
        "max_delay": (_duration, "32s"),
    }


_CONCURRENCY: Final[dict[str, tuple[Reader, Any]]] = {
    "limit": (lambda value: value if value == "shared" else integer(value, 1, 2**64 - 1), "shared")
}
_BYTES: Final[tuple[Reader, int]] = (lambda value: integer(value, 0, 2**64 - 1, "64-bit unsigned integer"), 0)

_OPAQUE: Final = (
    "aws_credentials experimental_gcs_grpc_credentials experimental_gcs_rate_limiter experimental_s3_rate_limiter"
    " gcs_user_project grpc_client_credentials ocdbt_coordinator"
).split()
KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("cache_pool", {"total_bytes_limit": _BYTES}),
        Kind("data_copy_concurrency", _CONCURRENCY),
        Kind("file_io_concurrency", _CONCURRENCY),
        Kind("file_io_sync", None, private=True),
        Kind(
            "file_io_locking",
            {
                "mode": (_mode("os", "lockfile", "none", "non_atomic"), None),
                "acquire_timeout": (_locking_timeout, None),
            },
            private=True,
        ),
        Kind("file_io_mode", {"mode": (_mode("default", "memmap", "direct"), None)}, private=True),
        Kind("file_io_retries", _retries(0), private=True),
        Kind("memory_key_value_store"),
        *(Kind(f"{name}_request_concurrency", _CONCURRENCY) for name in ("gcs", "http", "s3")),
        *(Kind(f"{name}_request_retries", _retries(32), private=True) for name in ("gcs", "http", "s3", "tsgrpc")),
        *(Kind(name, opaque=True) for name in _OPAQUE),
    )
}
"""Every kind by name, including kinds for storage without a driver here."""


def kind_of(identifier: str) -> Kind:
    """Return the kind of a resource by its identifier, ``kind`` or ``kind#id``."""
    kind = KINDS.get(identifier.partition("#")[0])
    if kind is None:
        raise invalid(f'Invalid context resource identifier: "{identifier}"')
    return kind


def split_reference(kind: Kind, json: Any) -> Any:
    """Return a reference unchanged; read any other JSON value as a description."""
    if not isinstance(json, str):
        return kind.read(json)
    if json.partition("#")[0] == kind.name:
        return json
    raise invalid(f'"{json}" is no reference to a resource "{kind.name}"')


_creating = threading.RLock()
_MEMORY = "memory_key_value_store"


def _unbound(kind: Kind, json: Any) -> Any:
    """Read an unbound resource: a reference to one of a context, or the description of a new one."""
    if json is None:
        raise invalid("Expected non-null value, but received: null")
    # reprs show a bound resource as a list of one element
    return split_reference(kind, json[0] if isinstance(json, list) and len(json) == 1 else json)


class _Resource:
    """A resource, shared by everything that uses the same context.

    Its key is its identifier in the context that created it; it is empty if a spec describes the resource.
    """

    __slots__ = ("__weakref__", "_description", "_home", "_key", "_kind", "_store")

    def __init__(self, kind: Kind, key: str, description: Any, home: Context | None) -> None:
        self._kind = kind
        self._key = key
        self._description = description
        self._home = home
        self._store = MemoryKeys() if kind.name == _MEMORY else None

    @property
    def _value(self) -> Any:
        """The store of ``memory_key_value_store``; the JSON of other resources."""
        return self.to_json(include_defaults=True) if self._store is None else self._store

    def to_json(self, include_defaults: bool = False) -> Any:
        """Return the JSON representation, if wanted with the members that have their default value."""
        return self._kind.to_json(self._description, include_defaults)

    def __repr__(self) -> str:
        return pretty(self.to_json(), "Context.Resource(", ")")

    def __reduce__(self) -> tuple[Any, ...]:
        if self._home is None:
            return _Resource, (self._kind, self._key, self._description, None)
        return operator.getitem, (self._home, self._key)


class _Spec:
    """The spec of a context: descriptions of resources, or references to others, by identifier."""

    __slots__ = ("_entries",)

    def __init__(self, json: Any) -> None:
        self._entries: dict[str, Any] = {}
        for key, value in sorted(obj(to_json_value(json)).items()):
            kind = kind_of(key)
            self._entries[key] = None if value is None else split_reference(kind, value)

    def to_json(self, include_defaults: bool = False) -> Any:
        """Return the JSON representation, if wanted with the members that have their default value."""
        return {key: kind_of(key).to_json(value, include_defaults) for key, value in self._entries.items()}

    def __repr__(self) -> str:
        return pretty(self.to_json(), "Context.Spec(", ")")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._entries,)


class Context:
    """A set of shared resources, each created when it is first used.

    Kinds that the spec does not name come from the parent, or have their defaults.

    Examples
    --------
    >>> context = Context({"cache_pool": {"total_bytes_limit": 1000}})
    >>> context["cache_pool"]
    Context.Resource({'total_bytes_limit': 1000})
    >>> child = Context({"cache_pool#a": "cache_pool"}, parent=context)
    >>> child["cache_pool#a"] is context["cache_pool"]
    True
    """

    Spec: ClassVar[type[_Spec]] = _Spec
    Resource: ClassVar[type[_Resource]] = _Resource

    __slots__ = ("__weakref__", "_parent", "_resources", "_spec")

    def __init__(self, spec: Any = MISSING, parent: Context | None = None, *, json: Any = MISSING) -> None:
        checked_or_none("parent", parent, Context)
        source = json if spec is MISSING else spec
        if source is MISSING and parent is not None:
            raise type_error("a context with a parent needs a spec")
        self._spec = None if source is MISSING else source if isinstance(source, _Spec) else _Spec(source)
        self._parent = parent
        self._resources: dict[str, _Resource] = {}

    parent: Context | None = attribute("_parent", "The context that provides resources not named by the spec.")
    spec: _Spec | None = attribute(
        "_spec", "The spec that the context was created from; ``None`` for a default context."
    )

    def __getitem__(self, key: str) -> _Resource:
        if not isinstance(key, str):
            raise type_error(f"a resource identifier must be a string, not {type(key).__name__}")
        resource = self._resources.get(key)
        if resource is None:
            with _creating:
                resource = self._find(key, ())
        return resource

    def _find(self, key: str, path: tuple[tuple[Context, str], ...]) -> _Resource:
        resource = self._resources.get(key)
        if resource is not None:
            return resource
        entries: Mapping[str, Any] = {} if self._spec is None else self._spec._entries
        if key not in entries and self._parent is not None:
            return self._parent._find(key, path)
        kind = kind_of(key)
        if key not in entries and "#" in key:
            raise invalid(f'Resource not defined: "{key}"')
        entry = entries.get(key)
        if isinstance(entry, str):
            path = (*path, (self, key))
            if (self, entry) in path:
                raise invalid(f"Context resource reference cycle: {' -> '.join(name for _, name in path)}")
            resource = self._find(entry, path)
        elif entry is None and self._parent is not None:
            resource = self._parent._find(kind.name, path)
        else:
            resource = _Resource(kind, key, kind.default if entry is None else entry, self)
        self._resources[key] = resource
        return resource

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), () if self._spec is None else (self._spec, self._parent)


for _inner, _name in ((_Resource, "Resource"), (_Spec, "Spec")):
    _inner.__name__, _inner.__qualname__ = _name, f"Context.{_name}"


class Bindings:
    """The resources of one spec, bound or not, by member name; and the spec's own context, if it has one."""

    __slots__ = ("_explicit", "_home", "_kinds", "context")

    def __init__(self, names: Iterable[str]) -> None:
        self._kinds = {name: name.removeprefix("metadata_") for name in names}
        self._explicit: dict[str, Any] = {}  # bound resources, or the JSON of others
        self._home: Context | None = None  # once bound: the context that provides the resources not given
        self.context: _Spec | None = None

    @property
    def resources(self) -> dict[str, Any]:
        """The resources by member name."""
        home = self._home
        if home is not None:
            self._explicit = {name: self._explicit.get(name) or home[kind] for name, kind in self._kinds.items()}
        return self._explicit

    def take(self, members: dict[str, Any], *, only_if_given: Set[str] = frozenset()) -> None:
        """Remove ``context`` and the resource members from JSON, and read them.

        The members in `only_if_given` are resources of the spec only if they are given.
        """
        if "context" in members:
            self.context = take(members, "context", _Spec)
        for name, kind in self._kinds.items():
            if name in members:
                binding = take(members, name, partial(_unbound, KINDS[kind]))
                if binding != kind:
                    self._explicit[name] = binding
        if only_if_given and not only_if_given <= self._explicit.keys():
            self._kinds = {
                name: self._kinds[name] for name in self._kinds if name not in only_if_given or name in self._explicit
            }

    def take_over(self, other: Bindings) -> None:
        """Use the resources of other bindings for the members that both have."""
        self._explicit.update({name: value for name, value in other.resources.items() if name in self._kinds})

    def _kind(self, name: str) -> Kind:
        return KINDS[self._kinds[name]]

    def home(self, context: Context) -> Context:
        """Return the context that resources are bound to, or will be: the spec's own below `context`, or `context`."""
        if self._home is not None:
            return self._home
        return context if self.context is None else Context(self.context, parent=context)

    def bound(self, home: Context) -> Bindings:
        """Return the resources bound to a context that the method `home` has returned."""
        if self._home is not None:
            return self
        bindings = Bindings(self._kinds)
        for name, given in self._explicit.items():
            made = home[given] if isinstance(given, str) else given
            is_bound = isinstance(made, _Resource)
            bindings._explicit[name] = made if is_bound else _Resource(self._kind(name), "", made, None)
        bindings._home = home
        if home._spec is not None:  # find wrong references of its spec now; a default context has none
            _ = bindings.resources
        return bindings

    def resource(self, name: str) -> _Resource:
        """Return a bound resource."""
        binding = self._explicit.get(name)
        if binding is None and self._home is not None:
            return self._home[self._kinds[name]]
        if not isinstance(binding, _Resource):
            raise status("INTERNAL", f'Context resource "{name}" is not bound')
        return binding

    def value(self, name: str) -> Any:
        """Return the value of a bound resource, without creating a default resource."""
        if self._home is not None and name not in self._explicit:
            kind = self._kind(name)
            if kind.name != _MEMORY:
                return kind.to_json(kind.default, include_defaults=True)
        return self.resource(name)._value

    def write(self, json: dict[str, Any], builder: SpecBuilder, include_defaults: bool = False) -> None:
        """Add the resource members to the JSON of a spec; `builder` finishes them."""
        for name, kind in self._kinds.items():
            binding = self.resources.get(name)
            if isinstance(binding, _Resource):
                json[name] = builder.add(name, binding, include_defaults)
            elif binding is not None:
                json[name] = self._kind(name).to_json(binding, include_defaults)
            elif include_defaults:
                json[name] = kind
        context = {} if self.context is None else self.context.to_json(include_defaults)
        if context or include_defaults:
            json["context"] = context

    def identity(self) -> tuple[Any, ...]:
        """Return the values by which specs are compared: descriptions of resources, and identities of bound ones."""
        entries = [
            (name, id(binding) if isinstance(binding, _Resource) else binding)
            for name, binding in sorted(self.resources.items())
        ]
        return entries, {} if self.context is None else self.context.to_json()


class SpecBuilder:
    """Converter of bound resources to JSON, for a spec and all specs nested in it.

    If `marked`, each bound resource is shown as a list of one element, as in reprs.
    """

    def __init__(self, *, marked: bool = False) -> None:
        self._marked = marked
        self._uses: dict[_Resource, list[_Use]] = {}

    def add(self, name: str, resource: _Resource, include_defaults: bool = False) -> Any:
        """Return a placeholder for a resource member; `finish` replaces it."""
        use = _Use(name, include_defaults)
        self._uses.setdefault(resource, []).append(use)
        return use

    def finish(self, json: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON of the outermost spec: placeholders replaced, shared resources in its context."""
        context: dict[str, Any] = {}
        for resource, uses in self._uses.items():
            named = not resource._kind.private and (bool(resource._key) or len(uses) > 1)
            target = resource.to_json(uses[0].include_defaults)
            if named:
                own = [resource._key] if resource._key else []
                names = itertools.chain(own, (f"{resource._kind.name}#{number}" for number in itertools.count()))
                key = next(name for name in names if name not in context)
                context[key], target = target, key
            for use in uses:
                omitted = named and target == use.name and not self._marked and not use.include_defaults
                use.json = MISSING if omitted else [target] if self._marked else target
        finished: dict[str, Any] = _resolve(json)
        if context:
            finished["context"] = {**context, **finished.get("context", {})}
            finished = dict(sorted(finished.items()))
        return finished


@dataclass(slots=True)
class _Use:
    name: str
    include_defaults: bool
    json: Any = MISSING


def _resolve(json: Any) -> Any:
    if isinstance(json, dict):
        resolved = ((name, _resolve(value)) for name, value in json.items())
        return {name: value for name, value in resolved if value is not MISSING}
    if isinstance(json, list):
        return [_resolve(value) for value in json]
    return json.json if isinstance(json, _Use) else json
