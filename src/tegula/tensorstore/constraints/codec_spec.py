"""`CodecSpec`: constraints on how the chunks of one driver are encoded; those of Zarr v3 are chains of codecs.

A chain has array→array codecs, at most one array→bytes codec (none means the default) and bytes→bytes codecs. Each
codec keeps the options that were given, which `tegula.codecs` checks; `complete_chain` chooses the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from tegula.codecs import build_chain
from tegula.formats.zarr2 import codecs_from_json
from tegula.formats.zarr3_codecs import ARRAY_TO_ARRAY, ARRAY_TO_BYTES
from tegula.metadata.data_types import DataType, as_data_type
from tegula.metadata.nodes import CodecSpec as StoredCodec
from tegula.tensorstore.errors import invalid, stating, status
from tegula.tensorstore.json import (
    MAX_RANK,
    MISSING,
    MemberTable,
    array_of,
    boolean,
    dump,
    integer,
    known_only,
    member,
    obj,
    one_of,
    only_json,
    pretty,
    read_member,
    read_object,
    string,
    take,
    take_members,
    to_json_value,
    with_defaults,
)

__all__ = [
    "DEFAULT_COMPRESSOR", "READERS", "Chain", "Codec", "CodecSpec", "Layout", "chain_from_json", "complete_chain",
    "decoded_layout", "merge_chains",
]  # fmt: skip


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
            is_usual = stored and name == "index_location" and value == "end"
            if not is_usual and not (name == "typesize" and self.options.get("shuffle") == "noshuffle"):
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
        return 1 + (self.serializer.options.get("codecs") or Chain()).sharding_height


@dataclass(frozen=True, slots=True)
class Layout:
    """The known or required layout of chunks; ``None`` means any."""

    inner_order: tuple[int, ...] | None = None
    read_shape: tuple[int, ...] | None = None


# --- reading


def chain_from_json(value: Any) -> Chain:
    """Read a list of codecs, of which options and the array→bytes codec may be missing."""
    codecs = array_of(value, _codec_from_json)
    arrays, serializers, buffers = (tuple(codec for codec in codecs if _kind(codec.name) == kind) for kind in range(3))
    if [*arrays, *serializers, *buffers] != codecs or len(serializers) > 1:
        raise invalid(f"{dump(value)} are not array -> array, at most one array -> bytes, and bytes -> bytes codecs")
    return Chain(arrays, serializers[0] if serializers else None, buffers)


def _kind(name: str) -> int:
    return 0 if name in ARRAY_TO_ARRAY else 1 if name in ARRAY_TO_BYTES else 2


def _codec_from_json(value: Any) -> Codec:
    members = obj({"name": value} if isinstance(value, str) else value)
    name = read_member(members, "name", string)
    options = sound_options(take(members, "configuration", obj, {}))
    known_only(members)
    with member("configuration"):
        if name == _SHARDING:
            return Codec(name, read_object(options, _SHARDING_OPTIONS))
        if name == "transpose":
            axes = partial(array_of, read=_number(0, MAX_RANK - 1))
            options["order"] = read_member(options, "order", lambda x: x if x in ("C", "F") else axes(x))
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
    spec, plain, ndim = StoredCodec(name, options), StoredCodec("bytes"), 1
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


def _number(least: int, most: int) -> Callable[[Any], int]:
    return partial(integer, least=least, most=most)


_SHARDING_OPTIONS: Final[dict[str, Any]] = {
    "chunk_shape": lambda value: array_of(value, _number(1, 2**63 - 1)),
    "index_codecs": chain_from_json,
    "codecs": chain_from_json,
    "index_location": partial(one_of, names=("start", "end")),
}
"""The options of shards, in the order in which they are read."""


# --- merging


def merge_chains(first: Chain | None, second: Chain | None, *, strict: bool = False) -> Chain | None:
    """Merge two chains; ``None`` stands for any.

    If `strict`, a chain without shards does not move into the shards of the other chain, and a transposition that only
    one chain has is not added.
    """
    if first is None or second is None:
        return second if first is None else first
    for outer, inner in () if strict else ((first, second), (second, first)):
        shards = outer.serializer
        if outer.sharding_height > inner.sharding_height and shards and not outer.arrays and not outer.buffers:
            merged = merge_chains(shards.options.get("codecs"), inner)
            return Chain(serializer=replace(shards, options={**shards.options, "codecs": merged}))
    serializer = second.serializer if first.serializer is None else first.serializer
    if first.serializer is not None and second.serializer is not None:
        serializer = _merge_two(first.serializer, second.serializer, strict)
    return Chain(
        _merge_several(first.arrays, second.arrays, strict, "array -> array"),
        serializer,
        _merge_several(first.buffers, second.buffers, strict, "bytes -> bytes"),
    )


def _merge_several(first: tuple[Codec, ...], second: tuple[Codec, ...], strict: bool, kind: str) -> tuple[Codec, ...]:
    count = min(len(first), len(second))
    rest = (*first[count:], *second[count:])
    if rest and (strict or kind != "array -> array" or [codec.name for codec in rest] != ["transpose"]):
        shown = " and ".join(dump([codec.to_json() for codec in codecs]) for codecs in (first, second))
        raise status("FAILED_PRECONDITION", f"Cannot merge different numbers of {kind} codecs: {shown}")
    return (*(_merge_two(a, b, strict) for a, b in zip(first, second)), *rest)


def _merge_two(first: Codec, second: Codec, strict: bool) -> Codec:
    with stating(f"Cannot merge codecs {dump(first.to_json())} and {dump(second.to_json())}"):
        if first.name != second.name:
            raise status("FAILED_PRECONDITION", "they have different names")
        return Codec(first.name, merge_options(first.options, second.options, "FAILED_PRECONDITION", strict))


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
        is_word = name == "order" and isinstance(value, str) and isinstance(other, list)
        if is_word and _order_as_list(value, len(other)) == other:
            return other
    raise status(code, f"{dump(name)} does not match: {dump(first)} and {dump(second)}")


def _order_as_list(order: list[int] | str, rank: int) -> list[int]:
    """Return an order of dimensions, given as a list or as ``"C"`` or ``"F"``, as a list."""
    axes = list(range(rank))[:: -1 if order == "F" else 1] if isinstance(order, str) else order
    if len(axes) != rank:
        raise invalid(f'the "order" {axes} does not fit {rank} dimensions')
    return axes


# --- completion


_INDEX: Final = Chain(serializer=Codec("bytes", {"endian": "little"}), buffers=(Codec("crc32c"),))
_USUAL: Final[dict[str, dict[str, Any]]] = {
    "gzip": {"level": 6},
    "zstd": {"checksum": False, "level": 3},
    "blosc": {"blocksize": 0, "clevel": 5, "cname": "lz4"},
}


def complete_chain(chain: Chain, data_type: DataType, rank: int, wanted: Layout = Layout()) -> Chain:
    """Return the complete chain that meets the constraints of `chain`.

    `wanted` is the order of the dimensions in a chunk, and the shape of inner chunks if there are shards.
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
            shown = " and ".join(dump(codec.to_json()) for codec in (serializer, *chain.buffers))
            raise invalid(f"The codec of shards can't be followed by others, which belong inside of them: {shown}")
        serializer = _complete_shards(serializer, data_type, rank, wanted)
    elif serializer.name == "bytes":
        has_order = data_type.has_byte_order
        serializer = Codec("bytes", {"endian": serializer.options.get("endian", "little")} if has_order else {})
        itemsize = 1 if data_type.numpy.names is not None else data_type.itemsize
    buffers = [_complete_buffers(codec, 0 if at else itemsize) for at, codec in enumerate(chain.buffers)]
    return Chain(tuple(arrays), serializer, tuple(buffers))


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
    chains = {
        "codecs": complete_chain(options.get("codecs") or Chain(), data_type, rank, wanted),
        "index_codecs": complete_chain(options.get("index_codecs") or _INDEX, as_data_type("u8"), rank + 1),
    }
    return Codec(_SHARDING, {"index_location": "end", **options, "chunk_shape": list(shape), **chains})


def _complete_buffers(codec: Codec, itemsize: int) -> Codec:
    """Choose the options of a bytes→bytes codec for elements of a size; 0 if it does not encode elements."""
    options = {**_USUAL.get(codec.name, {}), **codec.options}
    if codec.name != "blosc":
        return Codec(codec.name, options)
    if options.get("shuffle") == "noshuffle":
        options.pop("typesize", None)
    elif "typesize" not in options and not 0 < itemsize < 256:
        if "shuffle" in options:
            raise invalid('blosc: "typesize" must be specified to shuffle bytes of unknown elements')
        options["shuffle"] = "noshuffle"
    else:
        options.setdefault("typesize", itemsize)
        options.setdefault("shuffle", "bitshuffle" if options["typesize"] == 1 else "shuffle")
    return Codec(codec.name, options)


# --- the layout that a chain determines


def decoded_layout(chain: Chain, rank: int, shape: tuple[int, ...] | None) -> Layout:
    """Return the layout of the chunks that a chain encodes, as far as the chain and the chunk shape determine it."""
    orders = [_order_as_list(codec.options["order"], rank) for codec in chain.arrays if codec.name == "transpose"]
    for order in orders:
        shape = shape and tuple(shape[axis] for axis in order)
    codec = chain.serializer
    layout = Layout(None if codec is None else tuple(range(rank)), shape)
    if codec is not None and codec.name == _SHARDING:
        lengths, inner_chain = codec.options.get("chunk_shape"), codec.options.get("codecs")
        if lengths is not None and len(lengths) != rank:
            raise invalid(f'the "chunk_shape" {lengths} of shards does not fit {rank} dimensions')
        inner_shape = None if lengths is None else tuple(lengths)
        layout = Layout() if inner_chain is None else decoded_layout(inner_chain, rank, inner_shape)
    for order in reversed(orders):
        inner = layout.inner_order and tuple(order[axis] for axis in layout.inner_order)
        read = layout.read_shape and tuple(layout.read_shape[order.index(axis)] for axis in range(rank))
        layout = Layout(inner, read)
    return layout


_N5_OPTIONS: Final[dict[str, MemberTable]] = {
    "raw": {},
    "gzip": {"level": (_number(-1, 9), -1), "useZlib": (boolean, False)},
    "bzip2": {"blockSize": (_number(1, 9), 9)},
    "xz": {"preset": (_number(0, 9), 6)},
    "zstd": {"level": (_number(-131072, 22), 0)},
    "blosc": {
        "cname": (partial(one_of, names=("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")), MISSING),
        "clevel": (_number(0, 9), MISSING),
        "shuffle": (_number(0, 2), MISSING),
        "blocksize": (_number(0, 2**31 - 1), 0),
    },
    "lz4": {"blockSize": (_number(0, 2**25), 2**16)},  # unlike TensorStore; less than 64 is a level of z5
}
"""The reader and the default of each option of a compression of N5; those without a default must be given."""


def compression_from_json(value: Any) -> dict[str, Any]:
    """Read a ``compression`` of N5, and choose missing options as TensorStore does."""
    members = obj(value)
    kind = read_member(members, "type", partial(one_of, names=tuple(_N5_OPTIONS)))
    options = with_defaults(take_members(members, _N5_OPTIONS[kind]), _N5_OPTIONS[kind])
    known_only(members)
    return dict(sorted({"type": kind, **options}.items()))


_PREFIX = "numcodecs."


class CodecSpec:
    """Constraints on the codec: ``driver``, and that driver's members for codecs; absent members are unconstrained.

    Examples
    --------
    >>> CodecSpec({"driver": "zarr", "compressor": {"id": "zlib"}})
    CodecSpec({'compressor': {'id': 'zlib', 'level': 1}, 'driver': 'zarr', 'filters': None})
    """

    __slots__ = ("_driver", "_members")

    _driver: str
    _members: dict[str, Any]
    """The members that are given: JSON, and for ``codecs`` of ``zarr3`` a `Chain`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        members = obj(to_json_value(only_json("CodecSpec", args, kwargs)))
        driver = read_member(members, "driver", partial(one_of, names=("zarr2", *READERS)))
        self._driver = "zarr" if driver == "zarr2" else driver
        self._members = read_object(members, READERS[self._driver])

    @classmethod
    def _of(cls, driver: str, **members: Any) -> CodecSpec:
        """Return a spec with members that were already checked."""
        self = cls.__new__(cls)
        self._driver, self._members = driver, members
        return self

    def _merged(self, other: CodecSpec) -> CodecSpec:
        with stating(f"Cannot merge codec spec {dump(self.to_json())} with {dump(other.to_json())}"):
            if self._driver != other._driver:
                raise invalid("they are for different drivers")
            members = merge_options(self._members, other._members, "INVALID_ARGUMENT")
        return CodecSpec._of(self._driver, **members)

    def to_json(self, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON representation; there are no defaults."""
        json: dict[str, Any] = {"driver": self._driver}
        for name, value in self._members.items():
            json[name] = value.to_json() if isinstance(value, Chain) else to_json_value(value)
        if self._driver == "zarr":
            json.setdefault("filters", None)
        return dict(sorted(json.items()))

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, CodecSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash(dump(self.to_json()))

    def __repr__(self) -> str:
        return pretty(self.to_json(), "CodecSpec(", ")")


_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    **{name: {"level": 1} for name in ("zlib", "gzip", "bz2", "zstd")},
    "blosc": {"blocksize": 0, "clevel": 5, "cname": "lz4", "shuffle": -1},
}
"""The options of compressors of Zarr v2 as TensorStore chooses them."""
DEFAULT_COMPRESSOR: Final = {"id": "blosc", **_DEFAULTS["blosc"]}


def compressor_from_json(value: Any) -> dict[str, Any] | None:
    """Read a ``compressor`` of Zarr v2, and choose missing options as TensorStore does."""
    if value is None:
        return None
    [codec] = codecs_from_json([value], "compressor")
    name = codec.name.removeprefix(_PREFIX)
    options = {**_DEFAULTS.get(name, {}), **sound_options(codec.configuration)}
    check_codec(codec.name, options)
    return dict(sorted({"id": name, **options}.items()))


def filters_from_json(value: Any) -> list[dict[str, Any]] | None:
    """Read ``filters`` of Zarr v2; an empty list means no filters."""
    codecs = codecs_from_json(value, "filters")
    return [{"id": codec.name.removeprefix(_PREFIX), **codec.configuration} for codec in codecs] or None


READERS: Final[dict[str, dict[str, Callable[[Any], Any]]]] = {
    "zarr": {"compressor": compressor_from_json, "filters": filters_from_json},
    "zarr3": {"codecs": chain_from_json},
    "n5": {"compression": compression_from_json},
    "zarr1": dict.fromkeys(("compression", "compression_opts"), to_json_value),
    "bcolz": {"compressor": to_json_value},
}
"""The members of documents that hold the codecs, by driver, and the reader of each."""
