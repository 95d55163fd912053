"""`Spec`: the description of an array to open or create, as JSON or as a URL.

``file:///tmp/a|zarr3:`` is a pipeline of components from the store to the array.
"""

from __future__ import annotations

import marshal
import os
from dataclasses import replace
from functools import partial
from typing import Any

import numpy.typing as npt

from tegula.runtime.frozen import attribute, computed
from tegula.stores.names import ARCHIVES
from tegula.stores.targets.paths import path_text, scheme_of
from tegula.tensorstore.constraints import dtypes
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.codec_spec import CodecSpec
from tegula.tensorstore.constraints.schema import Schema, fill_through, layout_through, units_through
from tegula.tensorstore.constraints.unit import Unit
from tegula.tensorstore.context import Context, SpecBuilder
from tegula.tensorstore.errors import StatusError, checked, checked_or_none, invalid, stating, type_error, unhashable
from tegula.tensorstore.index.dim import Dim, affine_domain
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.transform import Indexable, IndexTransform, compose, identity
from tegula.tensorstore.json import (
    MAX_RANK,
    MISSING,
    dump,
    integer,
    member,
    obj,
    only_json,
    parse_pointer,
    pretty,
    read_member,
    sound_text,
    string,
    take,
    to_json_value,
)
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.kvstore.specs import pipeline, spec_of_pipeline
from tegula.tensorstore.spec.interface import (
    FLAGS,
    URL_SCHEMES,
    Driver,
    DriverSpec,
    Opening,
    OpenMode,
    find_driver,
    recheck,
)

__all__ = ["OpenMode", "Spec", "driver_json_of_url", "identity_view", "read_spec"]


_MODES = frozenset(("open_mode", *FLAGS))
_SCHEMA = ("rank", "dtype", "domain", "shape", "chunk_layout", "codec", "fill_value", "dimension_units", "schema")
_MAX_ENTRIES, _MAX_KEY_BYTES, _MARSHAL_VERSION = 256, 2**14, 2
_known: dict[bytes, tuple[DriverSpec, IndexTransform | None]] = {}  # immutable specs by their JSON
_SWITCHES = _MODES - {"open_mode"} | {"minimal_spec", "unbind_context", "strip_context"}
_RECHECKS = ("recheck_cached_metadata", "recheck_cached_data", "recheck_cached")


def merged_flags(flags: OpenMode, options: dict[str, Any]) -> OpenMode:
    """Return flags changed by ``open_mode``, ``open``, ``create`` and so on, and remove these from `options`.

    ``open`` and ``create`` replace all flags; other flags are added.
    """
    if options.keys().isdisjoint(_MODES):
        return flags
    mode = checked_or_none("open_mode", options.pop("open_mode", None), OpenMode)
    chosen = {name: bool(options.pop(name, None)) or getattr(mode, name, False) for name in FLAGS}
    if not (chosen["open"] or chosen["create"]):
        chosen = {name: value or getattr(flags, name) for name, value in chosen.items()}
    chosen["assume_cached_metadata"] &= not chosen["assume_metadata"]
    return OpenMode(**chosen)


def _of_domain(name: str, doc: str) -> Any:
    """Return the property for one of the domain."""
    return property(lambda self: getattr(self._transform().domain, name), doc=doc)


class Spec(Indexable):
    """The description of an array to open or create, from JSON or a URL.

    Examples
    --------
    >>> spec = Spec({"driver": "zarr", "kvstore": {"driver": "memory"}})
    >>> spec.update(shape=[3, 4])
    >>> spec
    Spec({
      'driver': 'zarr',
      'kvstore': {'driver': 'memory'},
      'schema': {'domain': {'exclusive_max': [3, 4], 'inclusive_min': [0, 0]}},
      'transform': {
        'input_exclusive_max': [[3], [4]],
        'input_inclusive_min': [0, 0],
      },
    })
    """

    __slots__ = ("__weakref__", "_driver", "_view")
    __hash__ = unhashable

    _driver: DriverSpec
    _view: IndexTransform | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        json = only_json("Spec", args, kwargs)
        if isinstance(json, Spec):
            self._driver, self._view = json._driver, json._view
            return
        if type(json) is not dict and isinstance(json, (str, os.PathLike)):
            self._driver, self._view = read_spec(obj(driver_json_of_url(json)))
            return
        members = obj(to_json_value(json))
        # specs are cached, as programs open the same arrays many times
        key = marshal.dumps(members, _MARSHAL_VERSION)  # unlike ==, it distinguishes 1, 1.0 and true
        known = _known.get(key)
        if known is None:
            known = read_spec(members)
            if known[0].is_plain and len(key) <= _MAX_KEY_BYTES and b"context" not in key:
                if len(_known) >= _MAX_ENTRIES:
                    _known.clear()
                _known[key] = known
        self._driver, self._view = known

    @classmethod
    def _of(cls, driver: DriverSpec, transform: IndexTransform | None) -> Spec:
        self = cls.__new__(cls)
        self._driver, self._view = driver, transform
        return self

    transform: IndexTransform | None = attribute(
        "_view", "The transform from the spec's domain to that of the stored array; None if the domain is unknown."
    )

    # --- properties

    @property
    def domain(self) -> IndexDomain | None:
        """The domain; None if it is unknown."""
        return None if self._view is None else self._view.domain

    @property
    def rank(self) -> int | None:
        """Number of dimensions; None if it is unknown."""
        return self._driver.get_rank() if self._view is None else self._view.input_rank

    ndim = rank
    origin: tuple[int, ...] = _of_domain("inclusive_min", "Lower bound of each dimension.")
    shape: tuple[int, ...] = _of_domain("shape", "Extent of each dimension.")
    size: int = _of_domain("size", "Number of elements.")
    dtype: dtypes.dtype | None = attribute("_driver.schema.dtype", "The data type; None if it is unknown.")

    @property
    def schema(self) -> Schema:
        """All constraints, including those from members of the driver."""
        schema = self._driver.get_schema()
        return schema if self._view is None else schema._through(self._view, self._view.domain)

    @property
    def chunk_layout(self) -> ChunkLayout:
        """Constraints on the chunks."""
        layout, view = self._driver.get("chunk_layout"), self._view
        return layout if view is None else layout_through(layout, view)

    codec: CodecSpec | None = computed(lambda spec: spec._driver.get("codec"), "Constraints on the codec.")

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """The fill value; None if it is unknown."""
        fill: npt.NDArray[Any] | None = self._driver.get("fill_value")
        view = self._view
        return fill if fill is None or view is None else fill_through(fill, self._driver.get_domain(), view)

    @property
    def dimension_units(self) -> tuple[Unit | None, ...] | None:
        """The physical unit of each dimension; None if the rank is unknown."""
        if self.rank is None:
            return None
        units, view = self._driver.get("dimension_units"), self._view
        return units if units is None or view is None else units_through(units, view)

    @property
    def open_mode(self) -> OpenMode:
        """The actions that are allowed on opening; a copy."""
        flags = self._driver.flags
        return OpenMode(open=True) if flags == OpenMode() else replace(flags)

    kvstore: KvStore.Spec | None = attribute("_driver.kvstore", "The key-value store of the array, if it has one.")
    base: Spec | None = attribute("_driver.base", "The spec of the array that the driver adapts, if it adapts another.")

    url: str = attribute("_driver.url", "The URL; raises NotImplementedError or ValueError if there is none.")

    # --- derived specs

    def copy(self) -> Spec:
        """Return a copy."""
        return Spec._of(self._driver, self._view)

    def update(self, **options: Any) -> None:
        """Add constraints, as for `Schema`, or change other members; if they contradict the spec, it remains unchanged.

        Of `open_mode` and the flags of `OpenMode`, ``open`` and ``create`` replace all existing ones, others are added.
        Resources are bound to the `context`, after bound ones were replaced by their specs (`unbind_context`) or
        removed (`strip_context`). `minimal_spec` drops members that only matter when the array is created.
        `recheck_cached`, `recheck_cached_metadata` and `recheck_cached_data` are a `RecheckCacheOption`; there may be
        one `kvstore`.
        """
        changed = _updated(self, options)
        self._driver, self._view = changed._driver, changed._view

    def _transform(self) -> IndexTransform:
        if self._view is None and self.rank is None:
            raise invalid("Cannot perform indexing operations on Spec with unspecified rank")
        return identity(IndexDomain(rank=self.rank)) if self._view is None else self._view

    def _with_transform(self, transform: IndexTransform) -> Spec:
        return Spec._of(self._driver, transform)

    def _open(self, request: Opening) -> tuple[Driver, IndexTransform | None]:
        """Open the array; return its driver, and the transform from the domain of the spec (None for the identity)."""
        with stating(f'Error opening "{self._driver.name}" driver'):
            driver, below = self._driver.open(request)
        if self._view is None:
            return driver, below
        full_view = identity(driver.domain) if below is None else below
        return driver, None if self._view == full_view else compose(full_view, self._view)

    def _bound(self, context: Context) -> Spec:
        return Spec._of(self._driver.bound(context), self._view)

    def _stripped(self) -> Spec:
        return Spec._of(self._driver.stripped(), self._view)

    def _merged(self, *, schema: Schema | None = None, **options: Any) -> Spec:
        """Return the spec with further constraints on the view; the other options are those of `DriverSpec.merge`."""
        view, wanted = self._view, schema
        if wanted is not None and wanted._is_empty:
            wanted = None
        if wanted is not None and view is not None:
            wanted = _schema_outward(wanted, view)
        driver = self._driver.merge(schema=wanted, **options)
        # with the constraints, the domain may be known
        return Spec._of(
            driver, identity_view(driver) if view is None and wanted is not None and wanted.domain else view
        )

    # --- JSON

    def to_json(self, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON representation."""
        return (builder := SpecBuilder()).finish(self._write(builder, include_defaults))

    def _write(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        """Return the JSON as part of a spec; `builder` finishes its resources."""
        json = self._driver.write(builder, include_defaults)
        if self._view is not None:
            json["transform"] = self._view.to_json()
        elif (rank := self._driver.schema.rank) is not None:
            json["rank"] = rank
        return dict(sorted(json.items()))

    def __repr__(self) -> str:
        try:
            return pretty((builder := SpecBuilder(marked=True)).finish(self._write(builder, False)), "Spec(", ")")
        except StatusError:  # some specs have no JSON
            return "Spec(...)"

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, Spec) else NotImplemented

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Spec:
        return self.copy()

    def __reduce__(self) -> Any:
        return Spec._of, (self._driver, self._view)


def read_spec(members: dict[str, Any]) -> tuple[DriverSpec, IndexTransform | None]:
    """Read the JSON of a spec and remove its members."""
    kind = find_driver(read_member(members, "driver", string))
    view = _take_view(members)
    driver = kind.from_json(members)
    return driver, identity_view(driver) if view is None else view


def _take_view(members: dict[str, Any]) -> IndexTransform | None:
    value = members.pop("transform", MISSING)
    if value is MISSING:
        return None
    with member("transform"):
        transform = IndexTransform(json=value)
    rank = take(members, "rank", partial(integer, least=0, most=MAX_RANK), transform.input_rank)
    if rank != transform.input_rank:
        raise invalid(f'Specified "rank" ({rank}) does not match input rank of transform ({transform.input_rank})')
    members["rank"] = transform.output_rank
    return transform


def _updated(spec: Spec, options: dict[str, Any]) -> Spec:
    """Return a spec with further constraints, given as in `Spec.update`."""
    options = {name: value for name, value in options.items() if value is not None}
    if len(options) == 1 and "context" in options:
        return spec._bound(checked("context", options["context"], Context))
    for name in options.keys() & _SWITCHES:
        if not hasattr(options[name], "__bool__"):  # texts and lists have none
            raise type_error(f"Invalid {name}")
    # changes of the driver's members
    flags = merged_flags(spec._driver.flags, options)
    changes = _take_rechecks(options)
    if (kvstore := options.pop("kvstore", None)) is not None:
        if not isinstance(kvstore, (KvStore, KvStore.Spec)):
            raise type_error("Invalid kvstore: expected a KvStore or KvStore.Spec")
        changes["kvstore"] = kvstore
    if options.pop("minimal_spec", False):
        changes["minimal"] = True
    if constraints := {name: options.pop(name) for name in _SCHEMA if name in options}:
        changes["schema"] = Schema(**constraints)
    # resources are bound last
    binding = {name: options.pop(name) for name in ("unbind_context", "strip_context", "context") if name in options}
    if options:
        raise type_error(f"incompatible function arguments: unexpected keyword argument {min(options)!r}")
    if changes or flags is not spec._driver.flags:
        spec = spec._merged(flags=flags, **changes)
    driver = spec._driver
    if "context" in binding:
        driver = driver.bound(checked("context", binding["context"], Context))
    if binding.get("unbind_context"):
        driver = driver.unbound()
    if binding.get("strip_context"):
        driver = driver.stripped()
    return Spec._of(driver, spec._view)


def _take_rechecks(options: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name in [name for name in _RECHECKS if name in options]:
        try:
            value = recheck(options.pop(name))
        except StatusError:
            raise type_error(f"Invalid {name}") from None
        changes.update(dict.fromkeys(_RECHECKS[:2], value) if name == "recheck_cached" else {name: value})
    return changes


def identity_view(driver: DriverSpec) -> IndexTransform | None:
    """Return the identity over the domain of an array, if the domain is known."""
    domain = driver.get_domain()
    return None if domain is None else identity(domain)


def _schema_outward(schema: Schema, transform: IndexTransform) -> Schema:
    """Convert constraints on a view to constraints on the array; raise if the transform is not invertible."""
    if schema.rank is None:
        return schema
    if schema.rank != transform.input_rank:
        raise invalid(f"A schema of rank {schema.rank} does not fit a view of rank {transform.input_rank}")
    domain = schema.domain
    back = _inverse(transform, transform.domain if domain is None else domain)
    return schema._through(back, None if domain is None else back.domain)


def _inverse(transform: IndexTransform, domain: IndexDomain) -> IndexTransform:
    """Return the inverse of a transform; its domain is the image of `domain`."""
    maps: dict[int, OutputIndexMap] = {}
    dims: list[Dim] = []
    for output, output_map in enumerate(transform.output):
        axis, stride = output_map.input_dimension, output_map.stride
        if axis is None or axis in maps or stride not in (1, -1):
            raise invalid(f"Transform is not invertible: output dimension {output}")
        maps[axis] = OutputIndexMap(input_dimension=output, offset=-output_map.offset * stride, stride=stride)
        bounds = domain._dims[axis]
        interval = affine_domain(bounds[:2], -output_map.offset * stride, stride)
        implicit_lower, implicit_upper = bounds[2:4][::stride]
        dims.append(Dim._make(*interval, implicit_lower, implicit_upper, bounds[4]))
    if len(maps) != transform.input_rank:
        raise invalid("Transform is not invertible")
    return IndexTransform(dims, output=[maps[axis] for axis in range(transform.input_rank)])


def driver_json_of_url(url: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON of the spec for a URL or a plain path.

    The ``auto`` driver detects the format if the URL does not specify it.
    """
    if isinstance(url, os.PathLike):
        return {"driver": "auto", "kvstore": KvStore.Spec(_of_path(url))}
    if not url:
        raise invalid("URL must be non-empty")
    sound_text(url)
    with stating(f"Parsing spec from url: {dump(url)}"):
        where, components = pipeline(url)
        is_path = "/" in where or os.sep in where or where in (".", "..") or os.path.lexists(where)
        if is_path and not scheme_of(where):
            store = KvStore.Spec(_of_path(where))
        else:
            store, components = spec_of_pipeline(where, components)
        json: dict[str, Any] = {"driver": "auto", "kvstore": store}
        for position, (scheme, text) in enumerate(components):
            json = _adapted(json, scheme, text, is_first=not position)
    return json


def _of_path(path: str | os.PathLike[str]) -> dict[str, Any]:
    text = path_text(path)
    absolute = os.path.abspath(text)
    where = {"driver": "file", "path": absolute.replace(os.sep, "/")}
    if text.endswith(ARCHIVES) or (os.path.isfile(absolute) and not text.endswith(".json")):  # the document of a view
        return {"driver": "zip", "base": where}
    return where


def _adapted(json: dict[str, Any], scheme: str, text: str, *, is_first: bool) -> dict[str, Any]:
    """Return the JSON of a spec with that of one more component of its URL."""
    if scheme == "cast":
        return {"driver": "cast", "base": json, "dtype": dtypes.from_json(text).name}
    if scheme not in URL_SCHEMES:
        raise invalid(f"unsupported URL scheme: {dump(scheme)}")
    if not is_first:
        raise invalid(f"{dump(scheme)} must come directly after the key-value store")
    if scheme == "json":
        parse_pointer(text)
    if scheme == "auto" and text:
        raise invalid("Path not supported")
    place = {"json_pointer" if scheme == "json" else "path": text} if text else {}
    return {**json, "driver": scheme, **place}
