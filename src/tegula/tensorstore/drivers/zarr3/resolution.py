"""Completion of a codec chain from a spec: default options, and orders of dimensions as lists.

In the other direction, `decoded_layout` derives the layout of the chunks from a chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tegula.tensorstore.constraints.zarr3_codecs import Chain, Codec, order_as_list
from tegula.tensorstore.errors import StatusError, annotate, status
from tegula.tensorstore.json.arguments import braces
from tegula.tensorstore.json.binding import dump, invalid

__all__ = ["Element", "Layout", "check_shapes", "decoded_layout", "resolve_chain"]

_INDEX: Final = Chain(serializer=Codec("bytes", {"endian": "little"}), buffers=(Codec("crc32c"),))


@dataclass(frozen=True, slots=True)
class Element:
    """The properties of elements that codecs depend on.

    Parameters
    ----------
    name : str
        Name of the data type, for messages.
    bits : int
        Number of bits of an element; -1 for variable-length elements.
    ordered : bool
        Whether the elements have a byte order.
    serializer : str
        The default array→bytes codec.
    """

    name: str
    bits: int
    ordered: bool
    serializer: str = "bytes"


@dataclass(frozen=True, slots=True)
class Layout:
    """The known or required layout of chunks; ``None`` means any."""

    inner_order: tuple[int, ...] | None = None
    read_shape: tuple[int, ...] | None = None


def resolve_chain(
    chain: Chain, element: Element, rank: int, wanted: Layout = Layout(), *, constraints: bool = True
) -> Chain:
    """Return the complete chain that meets the constraints of `chain`.

    Parameters
    ----------
    chain : Chain
        The codecs and options that are given.
    element : Element
        The elements to encode.
    rank : int
        Number of dimensions.
    wanted : Layout
        The order of the dimensions in a chunk, and the shape of inner chunks if there are shards.
    constraints : bool
        Whether to choose missing options; a stored document must contain them.

    Raises
    ------
    ValueError
        If a codec can't be applied.

    Examples
    --------
    >>> from tegula.tensorstore.constraints.zarr3_codecs import chain_from_json
    >>> element = Element("uint16", 16, True)
    >>> [codec["name"] for codec in resolve_chain(chain_from_json(["gzip"]), element, 2, Layout((1, 0))).to_json()]
    ['transpose', 'bytes', 'gzip']
    """
    return _resolve(chain, element, rank, wanted, constraints)[0]


def _resolve(chain: Chain, element: Element, rank: int, wanted: Layout, constraints: bool) -> tuple[Chain, int]:
    # array -> array codecs, with a transposition added if another order of the dimensions is required
    arrays = []
    for codec in chain.arrays:
        resolved, wanted = _resolve_array(codec, rank, wanted)
        arrays.append(resolved)
    serializer = chain.serializer
    if serializer is None:
        serializer = Codec(element.serializer, {"endian": "little"} if element.serializer == "bytes" else {})
    order = wanted.inner_order
    if order is not None and serializer.name != "sharding_indexed" and list(order) != sorted(order):
        resolved, wanted = _resolve_array(Codec("transpose", {"order": list(order)}), rank, wanted)
        arrays.append(resolved)
    # the array -> bytes codec
    try:
        resolved, bits = _resolve_serializer(serializer, element, rank, wanted, constraints)
    except StatusError as error:
        raise _codec_error(error, serializer) from None
    if resolved.name == "sharding_indexed" and chain.buffers:
        buffers = dump([codec.to_json(stored=True) for codec in chain.buffers])
        raise invalid(
            f"Sharding codec {dump(serializer.to_json(stored=True))} is not compatible with subsequent bytes -> bytes"
            f" codecs {buffers} that apply to the entire shard.  Instead, bytes -> bytes codecs may be specified as"
            " inner codecs that apply to each sub-chunk individually."
        )
    # bytes -> bytes codecs; only the first one encodes the bytes of elements
    resolved_buffers = []
    for codec in chain.buffers:
        try:
            resolved_buffers.append(_resolve_buffer(codec, bits))
        except StatusError as error:
            raise _codec_error(error, codec) from None
        bits = -1
    return Chain(tuple(arrays), resolved, tuple(resolved_buffers)), bits


def _codec_error(error: StatusError, codec: Codec, doing: str = "resolving codec spec") -> StatusError:
    return annotate(error, f"Error {doing} through codec {dump(codec.to_json(stored=True))}")


def _checked_order(order: Any, rank: int) -> list[int]:
    axes = order_as_list(order, rank)
    if len(axes) != rank:
        raise invalid(f"{braces(order)} is not a valid dimension permutation for a rank {rank} array")
    return axes


def _resolve_array(codec: Codec, rank: int, wanted: Layout) -> tuple[Codec, Layout]:
    if codec.name != "transpose":
        return codec, wanted
    try:
        order = _checked_order(codec.options["order"], rank)
    except StatusError as error:
        raise _codec_error(error, codec) from None
    position = {dimension: i for i, dimension in enumerate(order)}
    inner = wanted.inner_order and tuple(position[dimension] for dimension in wanted.inner_order)
    shape = wanted.read_shape and tuple(wanted.read_shape[dimension] for dimension in order)
    return Codec("transpose", {"order": order}), Layout(inner, shape)


def _resolve_serializer(
    codec: Codec, element: Element, rank: int, wanted: Layout, constraints: bool
) -> tuple[Codec, int]:
    if codec.name == "sharding_indexed":
        return _resolve_shards(codec, element, rank, wanted, constraints)
    if codec.name != "bytes":
        return codec, -1
    if not constraints and element.ordered and "endian" not in codec.options:
        raise invalid(f'"bytes" codec requires that "endian" option is specified for data type {element.name}')
    options = {"endian": codec.options.get("endian", "little")} if element.ordered else {}
    return Codec("bytes", options), element.bits


def _resolve_shards(codec: Codec, element: Element, rank: int, wanted: Layout, constraints: bool) -> tuple[Codec, int]:
    shape = codec.options.get("chunk_shape", wanted.read_shape)
    if shape is None:
        raise invalid('"chunk_shape" must be specified')
    if len(shape) != rank:
        raise _wrong_rank(shape, rank)
    try:
        inner, bits = _resolve(codec.options.get("codecs") or Chain(), element, rank, wanted, constraints)
    except StatusError as error:
        raise annotate(error, "Error resolving sub-chunk codecs") from None
    try:
        offsets = Element("uint64", 64, True)
        index = _resolve(codec.options.get("index_codecs") or _INDEX, offsets, rank + 1, Layout(), constraints)[0]
    except StatusError as error:
        raise annotate(error, "Error resolving index_codecs") from None
    options = {
        "chunk_shape": list(shape),
        "codecs": inner,
        "index_codecs": index,
        "index_location": codec.options.get("index_location", "end"),
    }
    return Codec("sharding_indexed", options), bits


def _wrong_rank(shape: Sequence[int], rank: int) -> StatusError:
    return invalid(f"sharding_indexed sub-chunk shape of {braces(shape)} is not compatible with array of rank {rank}")


def _resolve_buffer(codec: Codec, bits: int) -> Codec:
    if codec.name == "gzip":
        return Codec("gzip", {"level": 6, **codec.options})
    if codec.name == "zstd":
        return Codec("zstd", {"checksum": False, "level": 3, **codec.options})
    if codec.name != "blosc":
        return codec
    options = {"blocksize": 0, "clevel": 5, "cname": "lz4", **codec.options}
    if options.get("shuffle") == "noshuffle":
        options.pop("typesize", None)
        return Codec("blosc", options)
    if "typesize" not in options:
        if bits == -1 or bits % 8 or bits // 8 > 255:
            if "shuffle" in options:
                raise invalid(
                    "typesize must be specified explicitly because inferred itemsize"
                    f" {bits}/8 is not supported by Blosc"
                )
            return Codec("blosc", {**options, "shuffle": "noshuffle"})
        options["typesize"] = bits // 8
    options.setdefault("shuffle", "bitshuffle" if options["typesize"] == 1 else "shuffle")
    return Codec("blosc", options)


# --- the layout that a chain determines


def decoded_layout(chain: Chain, rank: int, shape: tuple[int, ...] | None) -> Layout:
    """Return the layout of the chunks that a chain encodes, as far as the chain and the chunk shape determine it.

    Raises
    ------
    ValueError
        If the chain does not fit the rank.
    """
    orders = []
    for codec in chain.arrays:
        try:
            order = _checked_order(codec.options["order"], rank) if codec.name == "transpose" else list(range(rank))
        except StatusError as error:
            raise _codec_error(error, codec, "propagating data type and shape") from None
        orders.append(order)
        shape = shape and tuple(shape[dimension] for dimension in order)
    layout = Layout(read_shape=shape)
    if chain.serializer is not None:
        try:
            layout = _serialized_layout(chain.serializer, rank, shape)
        except StatusError as error:
            raise _codec_error(error, chain.serializer, "propagating chunk layout") from None
    for order in reversed(orders):
        inner = layout.inner_order and tuple(order[dimension] for dimension in layout.inner_order)
        position = {dimension: i for i, dimension in enumerate(order)}
        read = layout.read_shape and tuple(layout.read_shape[position[dimension]] for dimension in range(rank))
        layout = Layout(inner, read)
    return layout


def _serialized_layout(codec: Codec, rank: int, shape: tuple[int, ...] | None) -> Layout:
    if codec.name != "sharding_indexed":
        return Layout(tuple(range(rank)), shape)
    lengths = codec.options.get("chunk_shape")
    if lengths is not None and len(lengths) != rank:
        raise _wrong_rank(lengths, rank)
    inner = codec.options.get("codecs")
    return Layout() if inner is None else decoded_layout(inner, rank, None if lengths is None else tuple(lengths))


def check_shapes(chain: Chain, shape: tuple[int, ...], itemsize: int) -> None:
    """Check that a complete chain can encode chunks of a shape.

    Raises
    ------
    ValueError
        If inner chunks do not evenly divide the chunk, or it is too large.
    """
    for codec in chain.arrays:
        if codec.name == "transpose":
            shape = tuple(shape[dimension] for dimension in _checked_order(codec.options["order"], len(shape)))
    serializer = chain.serializer
    if serializer is None or serializer.name != "sharding_indexed":
        _check_size(shape, itemsize)
        return
    lengths = tuple(serializer.options["chunk_shape"])
    if len(lengths) != len(shape):
        raise _wrong_rank(lengths, len(shape))
    if any(size % length for size, length in zip(shape, lengths)):
        raise invalid(
            f"sharding_indexed sub-chunk shape of {braces(lengths)} does not evenly divide chunk shape of"
            f" {braces(shape)}"
        )
    check_shapes(serializer.options["codecs"], lengths, itemsize)
    index = serializer.options["index_codecs"]
    if any(codec.name != "crc32c" for codec in index.buffers):
        raise invalid("Invalid index_codecs specified: only fixed-size encodings are supported")
    check_shapes(index, (*(size // length for size, length in zip(shape, lengths)), 2), 8)


def _check_size(shape: tuple[int, ...], itemsize: int) -> None:
    total = itemsize
    for size in shape:
        total *= size
        if total >= 2**63:
            raise status("OUT_OF_RANGE", f"Integer overflow computing encoded size of array of shape {braces(shape)}")
