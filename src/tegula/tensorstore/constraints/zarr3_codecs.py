"""Zarr v3 codec chains as constraints: reading and merging them.

A chain has array→array codecs, at most one array→bytes codec (none means the default) and bytes→bytes codecs. Each
codec keeps the options that were given; `tegula.tensorstore.drivers.zarr3.resolution` chooses the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tegula.formats.zarr3_codecs import ARRAY_TO_ARRAY, ARRAY_TO_BYTES
from tegula.tensorstore.errors import StatusError, annotate, status
from tegula.tensorstore.json.binding import (
    MISSING,
    array,
    at,
    boolean,
    dump,
    expected,
    integer,
    invalid,
    known_only,
    member,
    obj,
    one_of,
    string,
)

__all__ = ["CNAMES", "Chain", "Codec", "chain_from_json", "merge_chains", "order_as_list"]

ReadOption = Callable[[Any, bool], Any]

CNAMES: Final = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
"""The compressors of Blosc."""
_MAX_RANK: Final = 32
_MAX_SIZE: Final = 2**63 - 1
_UNCHECKED: Final = frozenset(("packbits", "vlen-utf8", "vlen-bytes", "cast_value", "scale_offset"))
"""Codecs with options that are not checked here."""


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
        if self.serializer is None or self.serializer.name != "sharding_indexed":
            return 0
        inner = self.serializer.options.get("codecs")
        return 1 + (inner.sharding_height if inner is not None else 0)


def chain_from_json(value: Any, *, constraints: bool = True) -> Chain:
    """Read a list of codecs.

    Parameters
    ----------
    value : list
        The JSON.
    constraints : bool
        Whether options and the array→bytes codec may be missing, as in a spec; in a stored document they may not.

    Raises
    ------
    ValueError
        If a codec is unknown, an option is not valid, or the codecs are in the wrong order.

    Examples
    --------
    >>> chain_from_json(["gzip"]).to_json()
    [{'name': 'gzip'}]
    """
    codecs = []
    for i, json in enumerate(array(value)):
        with at(i):
            codecs.append(_codec_from_json(json, constraints))
    kinds = [_kind(codec.name) for codec in codecs]
    first = next((i for i, kind in enumerate(kinds) if kind != 0), len(codecs))
    serializer = codecs[first] if first < len(codecs) and kinds[first] == 1 else None
    if serializer is None and not constraints:
        raise invalid("array -> bytes codec must be specified")
    buffers = codecs[first + (serializer is not None) :]
    for codec in buffers:
        if _kind(codec.name) != 2:
            raise invalid(f"Expected bytes -> bytes codec, but received: {dump(codec.to_json(stored=True))}")
    return Chain(tuple(codecs[:first]), serializer, tuple(buffers))


def _kind(name: str) -> int:
    return 0 if name in ARRAY_TO_ARRAY else 1 if name in ARRAY_TO_BYTES else 2


def _codec_from_json(value: Any, constraints: bool) -> Codec:
    if constraints and isinstance(value, str):
        value = {"name": value}
    members = obj(value)
    with member("name"):
        name = string(members.pop("name", MISSING))
        unchecked = name in _UNCHECKED or name.startswith("numcodecs.")
        if name not in _OPTIONS and not unchecked:
            raise invalid(f"{dump(name)} is not registered")
    with member("configuration"):
        configuration = obj(members.pop("configuration", {}))
        if unchecked:
            return Codec(name, configuration)
        options = _read_options(name, configuration, constraints)
        known_only(configuration)
    known_only(members)
    return Codec(name, options)


def _read_options(name: str, configuration: dict[str, Any], constraints: bool) -> dict[str, Any]:
    """Remove a codec's options from its configuration and read them; only a spec may omit them."""
    options: dict[str, Any] = {}
    for option, read in _OPTIONS[name].items():
        value = configuration.pop(option, MISSING)
        omittable = option in _OPTIONAL or (option == "typesize" and options.get("shuffle") == "noshuffle")
        if value is MISSING and (omittable or (constraints and option != "order")):
            continue
        with member(option):
            options[option] = read(value, constraints)
    return options if constraints else {**_DEFAULTS.get(name, {}), **options}


def _between(least: int, most: int) -> ReadOption:
    return lambda value, constraints: integer(value, least, most)


def _among(*names: str) -> ReadOption:
    return lambda value, constraints: one_of(value, names)


def _cname(value: Any) -> str:
    name = string(value)
    if name not in CNAMES:
        raise invalid(f"Expected one of {','.join(CNAMES)} but received: {dump(name)}")
    return name


def _order(value: Any) -> list[int] | str:
    if isinstance(value, str) and value in ("C", "F"):
        return value
    order = []
    try:
        for i, axis in enumerate(array(value)):
            with at(i):
                order.append(integer(axis, 0, _MAX_RANK - 1))
        if sorted(order) != list(range(len(order))):
            raise invalid(f"{{{', '.join(map(str, order))}}} is not a valid permutation")
    except StatusError as error:
        alternative = expected('one of "C", "F"', value)
        raise invalid(f"No matching value binder: {error.sentence}; {alternative.sentence}") from None
    return order


def _lengths(value: Any) -> list[int]:
    lengths = []
    for i, length in enumerate(array(value)):
        with at(i):
            lengths.append(integer(length, 1, _MAX_SIZE))
    return lengths


def _inner_chain(value: Any, constraints: bool) -> Chain:
    return chain_from_json(value, constraints=constraints)


_OPTIONS: Final[dict[str, dict[str, ReadOption]]] = {
    "gzip": {"level": _between(0, 9)},
    "zstd": {"level": _between(-131072, 22), "checksum": lambda value, constraints: boolean(value)},
    "blosc": {
        "cname": lambda value, constraints: _cname(value),
        "clevel": _between(0, 9),
        "shuffle": _among("noshuffle", "shuffle", "bitshuffle"),
        "typesize": _between(1, 255),
        "blocksize": _between(0, 715827542),
    },
    "crc32c": {},
    "bytes": {"endian": _among("little", "big")},
    "transpose": {"order": lambda value, constraints: _order(value)},
    "sharding_indexed": {
        "chunk_shape": lambda value, constraints: _lengths(value),
        "index_codecs": _inner_chain,
        "codecs": _inner_chain,
        "index_location": _among("start", "end"),
    },
}
"""The options of each codec, in the order in which they are read."""
_OPTIONAL: Final = frozenset(("checksum", "endian", "index_location"))
_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "zstd": {"checksum": False},
    "sharding_indexed": {"index_location": "end"},
}
"""The value of each option that a stored document may omit."""


# --- merging


def merge_chains(first: Chain | None, second: Chain | None, *, strict: bool = False) -> Chain | None:
    """Merge two chains.

    Parameters
    ----------
    first, second : Chain or None
        The chains; ``None`` stands for any.
    strict : bool
        Refuse to move a chain without shards into the shards of the other chain, and to add a transposition that only
        one chain has.

    Raises
    ------
    ValueError
        If the chains contradict each other.

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
    return Chain(
        _merge_several(first.arrays, second.arrays, strict, "array -> array"),
        _merge_codecs(first.serializer, second.serializer, strict),
        _merge_several(first.buffers, second.buffers, strict, "bytes -> bytes"),
    )


def _into_shards(sharding: Codec, inner: Chain) -> Codec:
    merged = merge_chains(sharding.options.get("codecs"), inner)
    return replace(sharding, options={**sharding.options, "codecs": merged})


def _conflict(first: Any, second: Any, why: StatusError) -> StatusError:
    text = f"Cannot merge zarr codec constraints {dump(first)} and {dump(second)}"
    return annotate(why, text) if why.sentence else status(why.code, text)


def _merge_several(first: tuple[Codec, ...], second: tuple[Codec, ...], strict: bool, kind: str) -> tuple[Codec, ...]:
    count = len(first)
    if len(first) != len(second):
        transposed = [codec for codec in (*first[len(second) :], *second[len(first) :]) if codec.name == "transpose"]
        if strict or kind != "array -> array" or abs(len(first) - len(second)) != 1 or not transposed:
            why = f"Mismatch in number of {kind} codecs ({len(first)} vs {len(second)})"
            shown = [[codec.to_json(stored=True) for codec in codecs] for codecs in (first, second)]
            raise _conflict(shown[0], shown[1], status("FAILED_PRECONDITION", why))
        count = min(len(first), len(second))
    merged = [_merge_two(a, b, strict) for a, b in zip(first[:count], second[:count])]
    return (*merged, *first[count:], *second[count:])


def _merge_codecs(first: Codec | None, second: Codec | None, strict: bool) -> Codec | None:
    if first is None or second is None:
        return second if first is None else first
    return _merge_two(first, second, strict)


def _merge_two(first: Codec, second: Codec, strict: bool) -> Codec:
    options = dict(first.options)
    try:
        if first.name != second.name:
            raise status("FAILED_PRECONDITION", "")
        for name in [*_MERGED.get(first.name, ()), *second.options]:
            if name in second.options:
                options[name] = _merge_option(name, options.get(name, MISSING), second.options[name], strict)
    except StatusError as error:
        merged = Codec(first.name, options)
        raise _conflict(merged.to_json(stored=True), second.to_json(stored=True), error) from None
    return Codec(first.name, options)


_MERGED: Final = {"sharding_indexed": ("chunk_shape", "index_codecs", "codecs")}


def _merge_option(name: str, first: Any, second: Any, strict: bool) -> Any:
    if first is MISSING or first == second:
        return second
    if isinstance(first, Chain):
        try:
            return merge_chains(first, second, strict=strict)
        except StatusError as error:
            sub = "sub-chunk " if name == "codecs" else ""
            raise annotate(error, f"Incompatible {sub}{dump(name)}") from None
    if name == "order":
        for order, other in ((first, second), (second, first)):
            if isinstance(order, str) and isinstance(other, list) and other == order_as_list(order, len(other)):
                return other
    raise status("FAILED_PRECONDITION", f'Incompatible "{name}": {dump(first)} vs {dump(second)}')


def order_as_list(order: list[int] | str, rank: int) -> list[int]:
    """Return an order of dimensions, given as a list or as ``"C"`` or ``"F"``, as a list."""
    if isinstance(order, str):
        return list(range(rank)) if order == "C" else list(range(rank))[::-1]
    return list(order)
