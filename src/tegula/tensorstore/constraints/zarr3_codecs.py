"""Zarr v3 codec chains as constraints: reading, merging and completing them, and the layout that they determine.

A chain has array→array codecs, at most one array→bytes codec (none means the default) and bytes→bytes codecs. Each
codec keeps the options that were given, which `tegula.codecs` checks; `complete_chain` chooses the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tegula.codecs import build_chain
from tegula.formats.zarr3_codecs import ARRAY_TO_ARRAY, ARRAY_TO_BYTES
from tegula.metadata.data_types import DataType, as_data_type
from tegula.metadata.nodes import CodecSpec
from tegula.tensorstore.errors import StatusError, annotate, status
from tegula.tensorstore.json.binding import (
    MAX_RANK,
    MISSING,
    array_of,
    dump,
    integer,
    invalid,
    known_only,
    member,
    obj,
    one_of,
    string,
    take,
)

__all__ = [
    "Chain",
    "Codec",
    "Layout",
    "chain_from_json",
    "check_codec",
    "complete_chain",
    "decoded_layout",
    "merge_chains",
    "merge_options",
    "sound_options",
]

_SHARDING: Final = "sharding_indexed"


@dataclass(frozen=True, slots=True)
class Codec:
    """The name of a codec and its given options; inner chains are `Chain` objects."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self, *, stored: bool = False) -> dict[str, Any]:
        """Return the JSON of the codec; the stored form omits a default that old readers do not know."""
        configuration: dict[str, Any] = {}
        for name, value in sorted(self.options.items()):
            if name == "index_location" and stored and value == "end":
                continue
            if name == "typesize" and self.options.get("shuffle") == "noshuffle":
                continue
            configuration[name] = value.to_json(stored=stored) if isinstance(value, Chain) else value
        return {"configuration": configuration, "name": self.name} if configuration else {"name": self.name}


@dataclass(frozen=True, slots=True)
class Chain:
    """A codec chain, which may be incomplete."""

    arrays: tuple[Codec, ...] = ()
    serializer: Codec | None = None
    buffers: tuple[Codec, ...] = ()

    def to_json(self, *, stored: bool = False) -> list[dict[str, Any]]:
        """Return the JSON of the chain."""
        middle = () if self.serializer is None else (self.serializer,)
        return [codec.to_json(stored=stored) for codec in (*self.arrays, *middle, *self.buffers)]

    @property
    def sharding_height(self) -> int:
        """The number of levels of nested shards; 0 without shards."""
        if self.serializer is None or self.serializer.name != _SHARDING:
            return 0
        inner = self.serializer.options.get("codecs")
        return 1 + (inner.sharding_height if inner is not None else 0)


@dataclass(frozen=True, slots=True)
class Layout:
    """The known or required layout of chunks; ``None`` means any."""

    inner_order: tuple[int, ...] | None = None
    read_shape: tuple[int, ...] | None = None


# --- reading


def chain_from_json(value: Any) -> Chain:
    """Read a list of codecs, of which options and the array→bytes codec may be missing.

    Examples
    --------
    >>> chain_from_json(["gzip"]).to_json()
    [{'name': 'gzip'}]
    """
    codecs = array_of(value, _codec_from_json)
    kinds = [_kind(codec.name) for codec in codecs]
    first = next((i for i, kind in enumerate(kinds) if kind != 0), len(codecs))
    serializer = codecs[first] if first < len(codecs) and kinds[first] == 1 else None
    buffers = codecs[first + (serializer is not None) :]
    for codec in buffers:
        if _kind(codec.name) != 2:
            raise invalid(f"{dump(codec.to_json(stored=True))} is not a bytes -> bytes codec")
    return Chain(tuple(codecs[:first]), serializer, tuple(buffers))


def _kind(name: str) -> int:
    return 0 if name in ARRAY_TO_ARRAY else 1 if name in ARRAY_TO_BYTES else 2


def _codec_from_json(value: Any) -> Codec:
    members = obj({"name": value} if isinstance(value, str) else value)
    with member("name"):
        name = string(members.pop("name", MISSING))
    options = sound_options(take(members, "configuration", obj, {}))
    known_only(members)
    with member("configuration"):
        if name == _SHARDING:
            parts = {part: take(options, part, read) for part, read in _SHARDING_OPTIONS.items() if part in options}
            known_only(options)
            return Codec(name, parts)
        if name == "transpose":
            with member("order"):
                options["order"] = _order(options.get("order", MISSING))
        check_codec(name, options)
    return Codec(name, options)


def sound_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a codec with floats of integral value as integers."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in options.items()
    }


def check_codec(name: str, options: dict[str, Any]) -> None:
    """Raise unless a codec is known and has these options; codecs that depend on the elements are not checked."""
    spec, plain, ndim = CodecSpec(name, options), CodecSpec("bytes"), 1
    if name == "transpose":
        specs, ndim = [spec, plain], len(options["order"])
    elif name == "bytes":
        specs = [spec]
    elif _kind(name) == 2:
        specs = [plain, spec]
    else:
        return
    with member(name):
        build_chain(specs, as_data_type("u2"), None, ndim=ndim)


def _order(value: Any) -> list[int] | str:
    if value in ("C", "F"):
        return str(value)
    order = array_of(value, lambda axis: integer(axis, 0, MAX_RANK - 1))
    if sorted(order) != list(range(len(order))):
        raise invalid(f"{order} is not a permutation")
    return order


def _lengths(value: Any) -> list[int]:
    return array_of(value, lambda length: integer(length, 1, 2**63 - 1))


_SHARDING_OPTIONS: Final[dict[str, Any]] = {
    "chunk_shape": _lengths,
    "index_codecs": chain_from_json,
    "codecs": chain_from_json,
    "index_location": lambda value: one_of(value, ("start", "end")),
}
"""The options of shards, in the order in which they are read."""


# --- merging


def merge_chains(first: Chain | None, second: Chain | None, *, strict: bool = False) -> Chain | None:
    """Merge two chains; ``None`` stands for any.

    If `strict`, a chain without shards does not move into the shards of the other chain, and a transposition that only
    one chain has is not added.

    Examples
    --------
    >>> merge_chains(chain_from_json(["sharding_indexed"]), chain_from_json(["gzip"])).to_json()
    [{'configuration': {'codecs': [{'name': 'gzip'}]}, 'name': 'sharding_indexed'}]
    """
    if first is None or second is None:
        return second if first is None else first
    if not strict:
        outer, inner = first.sharding_height, second.sharding_height
        if outer > inner and first.serializer is not None and not first.arrays and not first.buffers:
            return Chain(serializer=_into_shards(first.serializer, second))
        if outer < inner and second.serializer is not None and not second.arrays and not second.buffers:
            return Chain(serializer=_into_shards(second.serializer, first))
    serializer = second.serializer if first.serializer is None else first.serializer
    if first.serializer is not None and second.serializer is not None:
        serializer = _merge_two(first.serializer, second.serializer, strict)
    return Chain(
        _merge_several(first.arrays, second.arrays, strict, "array -> array"),
        serializer,
        _merge_several(first.buffers, second.buffers, strict, "bytes -> bytes"),
    )


def _into_shards(sharding: Codec, inner: Chain) -> Codec:
    merged = merge_chains(sharding.options.get("codecs"), inner)
    return replace(sharding, options={**sharding.options, "codecs": merged})


def _merge_several(first: tuple[Codec, ...], second: tuple[Codec, ...], strict: bool, kind: str) -> tuple[Codec, ...]:
    count = min(len(first), len(second))
    rest = (*first[count:], *second[count:])
    if rest and (strict or kind != "array -> array" or [codec.name for codec in rest] != ["transpose"]):
        shown = " and ".join(dump([codec.to_json(stored=True) for codec in codecs]) for codecs in (first, second))
        raise status("FAILED_PRECONDITION", f"Cannot merge different numbers of {kind} codecs: {shown}")
    return (*(_merge_two(a, b, strict) for a, b in zip(first, second)), *rest)


def _merge_two(first: Codec, second: Codec, strict: bool) -> Codec:
    try:
        if first.name != second.name:
            raise status("FAILED_PRECONDITION", "they have different names")
        return Codec(first.name, merge_options(first.options, second.options, "FAILED_PRECONDITION", strict))
    except StatusError as error:
        shown = " and ".join(dump(codec.to_json(stored=True)) for codec in (first, second))
        raise annotate(error, f"Cannot merge codecs {shown}") from None


def merge_options(
    first: Mapping[str, Any], second: Mapping[str, Any], code: str, strict: bool = False
) -> dict[str, Any]:
    """Merge the options of two codecs; `code` is that of the error for options that do not match."""
    return {**first, **{name: _merged(name, first.get(name, MISSING), second[name], code, strict) for name in second}}


def _merged(name: str, first: Any, second: Any, code: str, strict: bool) -> Any:
    if first is MISSING or first == second:
        return second
    if isinstance(first, Chain):
        return merge_chains(first, second, strict=strict)
    for value, other in ((first, second), (second, first)):
        if name == "filters" and value is None:  # unconstrained filters are null in JSON, too
            return other
        if name == "order" and isinstance(value, str) and isinstance(other, list) and _fits(value, other):
            return other
    raise status(code, f"{dump(name)} does not match: {dump(first)} and {dump(second)}")


def _fits(order: str, axes: list[int]) -> bool:
    return _order_as_list(order, len(axes)) == axes


def _order_as_list(order: list[int] | str, rank: int) -> list[int]:
    """Return an order of dimensions, given as a list or as ``"C"`` or ``"F"``, as a list."""
    axes = list(range(rank))[:: -1 if order == "F" else 1] if isinstance(order, str) else order
    if len(axes) != rank:
        raise invalid(f'the "order" {axes} does not fit {rank} dimensions')
    return axes


# --- completion


_INDEX: Final = Chain(serializer=Codec("bytes", {"endian": "little"}), buffers=(Codec("crc32c"),))
_DEFAULTS: Final[dict[str, dict[str, Any]]] = {"gzip": {"level": 6}, "zstd": {"checksum": False, "level": 3}}


def complete_chain(chain: Chain, data_type: DataType, rank: int, wanted: Layout = Layout()) -> Chain:
    """Return the complete chain that meets the constraints of `chain`.

    `wanted` is the order of the dimensions in a chunk, and the shape of inner chunks if there are shards.

    Examples
    --------
    >>> chain = complete_chain(chain_from_json(["gzip"]), as_data_type("u2"), 2, Layout((1, 0)))
    >>> [codec["name"] for codec in chain.to_json()]
    ['transpose', 'bytes', 'gzip']
    """
    # array -> array codecs, with a transposition added if another order of the dimensions is required
    arrays = []
    for codec in chain.arrays:
        arrays.append(codec)
        if codec.name == "transpose":
            arrays[-1], wanted = _transposed(codec, rank, wanted)
    usual = {"string": "vlen-utf8", "bytes": "vlen-bytes"}.get(data_type.variable, "bytes")
    serializer = chain.serializer or Codec(usual)
    order = wanted.inner_order
    if order is not None and serializer.name != _SHARDING and list(order) != sorted(order):
        codec, wanted = _transposed(Codec("transpose", {"order": list(order)}), rank, wanted)
        arrays.append(codec)
    # the array -> bytes codec, and bytes -> bytes codecs, of which only the first one encodes the bytes of elements
    itemsize = 0
    if serializer.name == _SHARDING:
        if chain.buffers:
            shown = " and ".join(dump(codec.to_json(stored=True)) for codec in (serializer, *chain.buffers))
            raise invalid(f"The codec of shards can't be followed by others, which belong inside of them: {shown}")
        serializer = _complete_shards(serializer, data_type, rank, wanted)
    elif serializer.name == "bytes":
        has_order = data_type.has_byte_order
        serializer = Codec("bytes", {"endian": serializer.options.get("endian", "little")} if has_order else {})
        itemsize = 1 if data_type.numpy.names is not None else data_type.itemsize
    buffers = []
    for codec in chain.buffers:
        buffers.append(_complete_blosc(codec, itemsize) if codec.name == "blosc" else codec)
        itemsize = 0
    completed = (replace(codec, options={**_DEFAULTS.get(codec.name, {}), **codec.options}) for codec in buffers)
    return Chain(tuple(arrays), serializer, tuple(completed))


def _transposed(codec: Codec, rank: int, wanted: Layout) -> tuple[Codec, Layout]:
    """Return a transposition with its order as a list, and the layout that is wanted after it."""
    order = _order_as_list(codec.options["order"], rank)
    inner = wanted.inner_order and tuple(order.index(axis) for axis in wanted.inner_order)
    shape = wanted.read_shape and tuple(wanted.read_shape[axis] for axis in order)
    return Codec("transpose", {"order": order}), Layout(inner, shape)


def _complete_shards(codec: Codec, data_type: DataType, rank: int, wanted: Layout) -> Codec:
    options = codec.options
    shape = options.get("chunk_shape", wanted.read_shape)
    if shape is None:
        raise invalid('"chunk_shape" must be specified')
    if len(shape) != rank:
        raise invalid(f'the "chunk_shape" {[*shape]} of shards does not fit {rank} dimensions')
    parts = {
        "chunk_shape": list(shape),
        "codecs": complete_chain(options.get("codecs") or Chain(), data_type, rank, wanted),
        "index_codecs": complete_chain(options.get("index_codecs") or _INDEX, as_data_type("u8"), rank + 1),
        "index_location": options.get("index_location", "end"),
    }
    return Codec(_SHARDING, parts)


def _complete_blosc(codec: Codec, itemsize: int) -> Codec:
    """Choose the options of Blosc for elements of a size; 0 if it does not encode elements."""
    options = {"blocksize": 0, "clevel": 5, "cname": "lz4", **codec.options}
    if options.get("shuffle") == "noshuffle":
        options.pop("typesize", None)
    elif "typesize" not in options and not 0 < itemsize < 256:
        if "shuffle" in options:
            raise invalid('blosc: "typesize" must be specified to shuffle bytes of unknown elements')
        options["shuffle"] = "noshuffle"
    else:
        options.setdefault("typesize", itemsize)
        options.setdefault("shuffle", "bitshuffle" if options["typesize"] == 1 else "shuffle")
    return Codec("blosc", options)


# --- the layout that a chain determines


def decoded_layout(chain: Chain, rank: int, shape: tuple[int, ...] | None) -> Layout:
    """Return the layout of the chunks that a chain encodes, as far as the chain and the chunk shape determine it."""
    orders = [_order_as_list(codec.options["order"], rank) for codec in chain.arrays if codec.name == "transpose"]
    for order in orders:
        shape = shape and tuple(shape[axis] for axis in order)
    layout = Layout(read_shape=shape)
    if chain.serializer is not None:
        layout = _serialized_layout(chain.serializer, rank, shape)
    for order in reversed(orders):
        inner = layout.inner_order and tuple(order[axis] for axis in layout.inner_order)
        read = layout.read_shape and tuple(layout.read_shape[order.index(axis)] for axis in range(rank))
        layout = Layout(inner, read)
    return layout


def _serialized_layout(codec: Codec, rank: int, shape: tuple[int, ...] | None) -> Layout:
    if codec.name != _SHARDING:
        return Layout(tuple(range(rank)), shape)
    lengths = codec.options.get("chunk_shape")
    if lengths is not None and len(lengths) != rank:
        raise invalid(f'the "chunk_shape" {lengths} of shards does not fit {rank} dimensions')
    inner = codec.options.get("codecs")
    return Layout() if inner is None else decoded_layout(inner, rank, None if lengths is None else tuple(lengths))
