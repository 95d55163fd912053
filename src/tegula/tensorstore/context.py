"""Contexts: where the things come from that arrays and stores share, such as the values that are kept in memory.

A spec names its resources (``cache_pool``, ``cache_pool#a``) or describes them; *binding* it to a context makes each a
`Context.Resource`. `Bindings` are the resources of one spec, bound or not, and a `SpecBuilder` turns those of a whole
tree of specs back into JSON in which what was shared is shared still.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping, Set
from typing import Any, ClassVar, TypeAlias

from tegula.stores.memory_keys import MemoryKeys
from tegula.tensorstore.context_resources import KINDS, Kind, kind_of, split_reference
from tegula.tensorstore.errors import status, type_error
from tegula.tensorstore.json.binding import MISSING, invalid, member, obj
from tegula.tensorstore.json.values import pretty, to_json_value

__all__ = ["Bindings", "Context", "ResourceSpec", "SpecBuilder"]

_making = threading.RLock()
_MEMORY = "memory_key_value_store"


class ResourceSpec:
    """A resource that is not there yet: a reference to one of a context, or the description of a new one.

    Attributes
    ----------
    kind : Kind
        What it is.
    json : str or JSON value
        The reference, or the description without its defaults.
    """

    __slots__ = ("json", "kind")

    def __init__(self, kind: Kind, json: Any) -> None:
        self.kind = kind
        if json is None:
            raise invalid("Expected non-null value, but received: null")
        # a list of one item is how reprs show what is bound
        self.json = split_reference(kind, json[0] if isinstance(json, list) and len(json) == 1 else json)

    def bind(self, context: Context) -> _Resource:
        """Return the resource that this means in a context."""
        if isinstance(self.json, str):
            return context[self.json]
        return _Resource(self.kind, "", self.json, None)

    def to_json(self, include_defaults: bool = False) -> Any:
        """Return the reference or the description."""
        return self.kind.with_defaults(self.json) if include_defaults and not isinstance(self.json, str) else self.json

    def __reduce__(self) -> tuple[Any, ...]:
        return _resource_spec, (self.kind.name, self.json)


class _Resource:
    """A resource, shared by all that use the same context.

    Attributes
    ----------
    kind : Kind
        What it is.
    key : str
        Its identifier in the context that made it; empty for a resource of one spec alone.
    """

    __slots__ = ("__weakref__", "_home", "_said", "_store", "key", "kind")

    def __init__(self, kind: Kind, key: str, said: Any, home: Context | None) -> None:
        self.kind = kind
        self.key = key
        self._said = said
        self._home = home
        self._store = MemoryKeys() if kind.name == _MEMORY else None

    @property
    def value(self) -> Any:
        """What it is good for: the store of ``memory_key_value_store``, and of all others what their JSON says."""
        return self.to_json(include_defaults=True) if self._store is None else self._store

    def to_json(self, include_defaults: bool = False) -> Any:
        """Return its description.

        Parameters
        ----------
        include_defaults : bool
            Whether it says what goes without saying too.
        """
        shown = self.kind.with_defaults(self._said) if include_defaults else self._said
        return dict(shown) if isinstance(shown, dict) else shown

    def __repr__(self) -> str:
        return pretty(self.to_json(), "Context.Resource(", ")")

    def __reduce__(self) -> tuple[Any, ...]:
        if self._home is None:
            return _lone_resource, (self.kind.name, self._said)
        return _resource_of, (self._home, self.key)


class _Spec:
    """What a context is made from: descriptions of resources, and references, by identifier.

    Parameters
    ----------
    json : mapping
        Its JSON.

    Raises
    ------
    ValueError
        If an identifier is of no known kind, or a description is not valid.
    """

    __slots__ = ("_entries",)

    def __init__(self, json: Any) -> None:
        self._entries: dict[str, Any] = {}
        for key, value in sorted(obj(to_json_value(json)).items()):
            kind = kind_of(key)
            self._entries[key] = None if value is None else split_reference(kind, value)

    def to_json(self, include_defaults: bool = False) -> Any:
        """Return its JSON.

        Parameters
        ----------
        include_defaults : bool
            Whether it says what goes without saying too.
        """
        if not include_defaults:
            return dict(self._entries)
        return {
            key: value if value is None or isinstance(value, str) else kind_of(key).with_defaults(value)
            for key, value in self._entries.items()
        }

    def __repr__(self) -> str:
        return pretty(self.to_json(), "Context.Spec(", ")")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._entries,)


class Context:
    """A set of shared resources, each made when it is first asked for.

    Parameters
    ----------
    spec : Context.Spec or JSON, optional
        Which resources there are; any kind that it does not name is there with its defaults.
    parent : Context, optional
        Where resources are looked for that the spec does not name.

    Raises
    ------
    ValueError
        If the JSON is not valid.

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

    __slots__ = ("__weakref__", "_made", "_parent", "_spec")

    def __init__(self, spec: Any = MISSING, parent: Context | None = None, *, json: Any = MISSING) -> None:
        if parent is not None and not isinstance(parent, Context):
            raise type_error(f"parent must be a Context, not {type(parent).__name__}")
        given = json if spec is MISSING else spec
        if given is MISSING and parent is not None:
            raise type_error("a context with a parent needs a spec")
        self._spec: _Spec | None = None
        if given is not MISSING:
            self._spec = given if isinstance(given, _Spec) else _Spec(given)
        self._parent = parent
        self._made: dict[str, _Resource] = {}

    @property
    def parent(self) -> Context | None:
        """Where resources are looked for that the spec does not name."""
        return self._parent

    @property
    def spec(self) -> _Spec | None:
        """What the context was made from; ``None`` for a default one."""
        return self._spec

    def __getitem__(self, key: str) -> _Resource:
        if not isinstance(key, str):
            raise type_error(f"the identifier of a resource is text, not {type(key).__name__}")
        found = self._made.get(key)
        if found is None:
            with _making:
                found = self._find(key, ())
        return found

    def _find(self, key: str, path: tuple[tuple[Context, str, str], ...]) -> _Resource:
        found = self._made.get(key)
        if found is not None:
            return found
        entries: Mapping[str, Any] = {} if self._spec is None else self._spec._entries
        if key not in entries and self._parent is not None:
            return self._parent._find(key, path)
        kind = kind_of(key)
        if key not in entries and "#" in key:
            raise invalid(f'Resource not defined: "{key}"')
        said = entries.get(key)
        if isinstance(said, str):
            path = (*path, (self, key, said))
            first = next((at for at, step in enumerate(path) if step[:2] == (self, said)), None)
            if first is not None:
                loop = [path[-1], *path[first:-1]]
                cycle = " -> ".join(f'"{name}":"{target}"' for _, name, target in loop)
                raise invalid(f"Context resource reference cycle: {cycle}")
            found = self._find(said, path)
        elif said is None and self._parent is not None:
            found = self._parent._find(kind.name, path)
        else:
            found = _Resource(kind, key, kind.default if said is None else said, self)
        self._made[key] = found
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), () if self._spec is None else (self._spec, self._parent)


for _inner, _name in ((_Resource, "Resource"), (_Spec, "Spec")):
    _inner.__name__, _inner.__qualname__ = _name, f"Context.{_name}"

Binding: TypeAlias = ResourceSpec | _Resource


class Bindings:
    """The resources of one spec by the names of its members, each bound or not, and its own context if it has one.

    Parameters
    ----------
    kinds : mapping of str to str
        The kind of resource that each member is.
    """

    __slots__ = ("_given", "_home", "_kinds", "context")

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = kinds
        self._given: dict[str, Binding] = {}
        self._home: Context | None = None  # where those that are not given are found, once they are bound
        self.context: _Spec | None = None

    @property
    def resources(self) -> dict[str, Binding]:
        """The resources by the names of their members."""
        home = self._home
        if home is not None:
            self._given = {name: self._given.get(name) or home[kind] for name, kind in self._kinds.items()}
            self._home = None
        return self._given

    def take(self, members: dict[str, Any], *, but: Set[str] = frozenset()) -> None:
        """Take ``context`` and the members that are resources out of JSON.

        Parameters
        ----------
        members : dict
            The JSON.
        but : set of str
            Members that are not resources of the spec unless they are given.

        Raises
        ------
        ValueError
            If one is not valid.
        """
        if "context" in members:
            with member("context"):
                self.context = _Spec(members.pop("context"))
        for name, kind in self._kinds.items():
            if name in members:
                with member(name):
                    found = ResourceSpec(KINDS[kind], members.pop(name))
                if found.json != kind:
                    self._given[name] = found
        if but and not but <= self._given.keys():
            self._kinds = {name: self._kinds[name] for name in self._kinds if name not in but or name in self._given}

    def home(self, context: Context) -> Context:
        """Return where the resources are found: in the spec's own context, if it has one, inside of the given one."""
        return context if self.context is None else Context(self.context, parent=context)

    def bound(self, home: Context) -> Bindings:
        """Return them bound: each to a resource of what `home` has returned."""
        if self._home is not None:
            return self
        other = Bindings(self._kinds)
        for name, found in self._given.items():
            other._given[name] = found.bind(home) if isinstance(found, ResourceSpec) else found
        other._home = home
        if home._spec is not None:  # which may be wrong; a default context has everything, and makes it on demand
            _ = other.resources
        return other

    def stripped(self) -> Bindings:
        """Return what remains when every resource is left to the context the spec is opened with."""
        return Bindings(self._kinds)

    def resource(self, name: str) -> _Resource:
        """Return a resource that is bound."""
        found = self._given.get(name)
        if found is None and self._home is not None:
            return self._home[self._kinds[name]]
        if found is None or isinstance(found, ResourceSpec):
            raise status("INTERNAL", f'Context resource "{name}" is not bound')
        return found

    @property
    def is_bound(self) -> bool:
        """Whether the resources were bound to a default context."""
        return self._home is not None

    def value(self, name: str) -> Any:
        """Return the value of a bound resource, without making the resource where the default is all it holds."""
        if self._home is not None and name not in self._given:
            kind = KINDS[self._kinds[name]]
            if kind.name != _MEMORY:
                return kind.with_defaults(kind.default)
        return self.resource(name).value

    def write(self, json: dict[str, Any], builder: SpecBuilder, include_defaults: bool = False) -> None:
        """Put the members into the JSON of a spec that `builder` will finish."""
        for name, kind in self._kinds.items():
            found = self.resources.get(name)
            if isinstance(found, _Resource):
                json[name] = builder.add(name, found, include_defaults)
            elif found is not None:
                json[name] = found.to_json(include_defaults)
            elif include_defaults:
                json[name] = kind
        if self.context is not None or include_defaults:
            json["context"] = {} if self.context is None else self.context.to_json(include_defaults)

    def identity(self) -> tuple[Any, ...]:
        """Return what two equal specs have in common: descriptions, and the bound resources themselves."""
        each = [
            (name, id(found) if isinstance(found, _Resource) else found.to_json())
            for name, found in sorted(self.resources.items())
        ]
        return each, None if self.context is None else self.context.to_json()


class SpecBuilder:
    """Turns bound resources back into JSON, for one spec and all those within it.

    Parameters
    ----------
    marked : bool
        Whether bound resources are shown in a list of one item, as reprs do.
    """

    def __init__(self, *, marked: bool = False) -> None:
        self._marked = marked
        self._uses: dict[_Resource, list[_Use]] = {}

    def add(self, name: str, resource: _Resource, include_defaults: bool = False) -> Any:
        """Return what stands for a member of that name until `finish` is called."""
        use = _Use(name, include_defaults)
        self._uses.setdefault(resource, []).append(use)
        return use

    def finish(self, json: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON of the outermost spec with everything in its place, and the context that is needed."""
        context: dict[str, Any] = {}
        for resource, uses in self._uses.items():
            named = not resource.kind.private and (bool(resource.key) or len(uses) > 1)
            target = resource.to_json(uses[0].include_defaults)
            if named:
                key = _free_key(resource, context)
                context[key], target = target, key
            for use in uses:
                omitted = named and target == use.name and not self._marked and not use.include_defaults
                use.json = MISSING if omitted else [target] if self._marked else target
        finished: dict[str, Any] = _resolve(json)
        if context:
            finished["context"] = {**context, **finished.get("context", {})}
            finished = dict(sorted(finished.items()))
        return finished


class _Use:
    __slots__ = ("include_defaults", "json", "name")

    def __init__(self, name: str, include_defaults: bool) -> None:
        self.name = name
        self.include_defaults = include_defaults
        self.json: Any = MISSING


def _free_key(resource: _Resource, taken: Iterable[str]) -> str:
    names = (f"{resource.kind.name}#{number}" for number in itertools.count())
    return next(key for key in itertools.chain([resource.key] if resource.key else [], names) if key not in taken)


def _resolve(json: Any) -> Any:
    if isinstance(json, dict):
        resolved = ((name, _resolve(value)) for name, value in json.items())
        return {name: value for name, value in resolved if value is not MISSING}
    if isinstance(json, list):
        return [_resolve(value) for value in json]
    return json.json if isinstance(json, _Use) else json


def _resource_spec(kind: str, json: Any) -> ResourceSpec:
    return ResourceSpec(KINDS[kind], json)


def _resource_of(home: Context, key: str) -> _Resource:
    return home[key]


def _lone_resource(kind: str, said: Any) -> _Resource:
    return _Resource(KINDS[kind], "", said, None)
