"""Chains of Zarr v3 codecs as constraints: what is given of them, merged, and later resolved to what will be stored.

A chain has array→array codecs, at most one array→bytes codec (none stands for the default) and bytes→bytes codecs. Of
each codec only those options are kept that were given; `tegula.tensorstore.drivers.zarr3_resolution` chooses the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

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

__all__ = ["Chain", "Codec", "chain_from_json", "merge_chains"]

_CNAMES: Final = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_MAX_RANK: Final = 32
_MOST: Final = 2**63 - 1
_TO_BYTES: Final = frozenset(
    ("bytes", "sharding_indexed", "packbits", "vlen-utf8", "vlen-bytes", "numcodecs.pcodec", "numcodecs.zfpy")
)
_TO_ARRAY: Final = frozenset(
    ["transpose", "cast_value", "scale_offset"]
    + [f"numcodecs.{name}" for name in ("delta", "bitround", "fixedscaleoffset", "quantize", "packbits", "astype")]
)
_LOOSE: Final = frozenset(("packbits", "vlen-utf8", "vlen-bytes", "cast_value", "scale_offset"))  # any configuration


@dataclass(frozen=True, slots=True)
class Codec:
    """The name of a codec and those of its options that are given; inner chains are `Chain`."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self, *, stored: bool = False) -> dict[str, Any]:
        """Return the JSON of the codec; the form to store leaves out what readers of old do not know."""
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
    """A chain of codecs, as far as it is given."""

    arrays: tuple[Codec, ...] = ()
    serializer: Codec | None = None
    buffers: tuple[Codec, ...] = ()

    def to_json(self, *, stored: bool = False) -> list[dict[str, Any]]:
        """Return the JSON of the chain."""
        middle = () if self.serializer is None else (self.serializer,)
        return [codec.to_json(stored=stored) for codec in (*self.arrays, *middle, *self.buffers)]

    @property
    def sharding_height(self) -> int:
        """How deep shards are nested; 0 without them."""
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
        If a codec is not known, an option is not valid, or the codecs stand in the wrong order.

    Examples
    --------
    >>> chain_from_json(["gzip"]).to_json()
    [{'name': 'gzip'}]
    """
    codecs = []
    for i, item in enumerate(array(value)):
        with at(i):
            codecs.append(_codec_from_json(item, constraints))
    kinds = [_kind(codec.name) for codec in codecs]
    first = next((i for i, kind in enumerate(kinds) if kind != 0), len(codecs))
    serializer = codecs[first] if first < len(codecs) and kinds[first] == 1 else None
    if serializer is None and not constraints:
        raise invalid("array -> bytes codec must be specified")
    rest = codecs[first + (serializer is not None) :]
    for codec in rest:
        if _kind(codec.name) != 2:
            raise invalid(f"Expected bytes -> bytes codec, but received: {dump(codec.to_json(stored=True))}")
    return Chain(tuple(codecs[:first]), serializer, tuple(rest))


def _kind(name: str) -> int:
    return 0 if name in _TO_ARRAY else 1 if name in _TO_BYTES else 2


def _codec_from_json(value: Any, constraints: bool) -> Codec:
    if constraints and isinstance(value, str):
        value = {"name": value}
    rest = obj(value)
    with member("name"):
        name = string(rest.pop("name", MISSING))
        loose = name in _LOOSE or name.startswith("numcodecs.")
        if name not in _READERS and not loose:
            raise invalid(f"{dump(name)} is not registered")
    with member("configuration"):
        configuration = obj(rest.pop("configuration", {}))
        if loose:
            return Codec(name, configuration)
        options = _READERS[name](configuration, constraints)
        known_only(configuration)
    known_only(rest)
    return Codec(name, options)


class _Taking:
    """Takes options out of a configuration; one that is missing is only missed in a stored document."""

    def __init__(self, configuration: dict[str, Any], constraints: bool) -> None:
        self.configuration = configuration
        self.constraints = constraints
        self.options: dict[str, Any] = {}

    def take(self, name: str, read: Callable[[Any], Any], *, optional: bool = False) -> None:
        value = self.configuration.pop(name, MISSING)
        if value is MISSING and (optional or self.constraints):
            return
        with member(name):
            self.options[name] = read(value)


def _gzip(configuration: dict[str, Any], constraints: bool) -> dict[str, Any]:
    taking = _Taking(configuration, constraints)
    taking.take("level", lambda value: integer(value, 0, 9))
    return taking.options


def _zstd(configuration: dict[str, Any], constraints: bool) -> dict[str, Any]:
    taking = _Taking(configuration, constraints)
    taking.take("level", lambda value: integer(value, -131072, 22))
    taking.take("checksum", boolean, optional=True)
    if not constraints:
        taking.options.setdefault("checksum", False)
    return taking.options


def _blosc(configuration: dict[str, Any], constraints: bool) -> dict[str, Any]:
    taking = _Taking(configuration, constraints)
    taking.take("cname", _cname)
    taking.take("clevel", lambda value: integer(value, 0, 9))
    taking.take("shuffle", lambda value: one_of(value, ("noshuffle", "shuffle", "bitshuffle")))
    plain = taking.options.get("shuffle") == "noshuffle"
    taking.take("typesize", lambda value: integer(value, 1, 255), optional=plain)
    taking.take("blocksize", lambda value: integer(value, 0, 715827542))
    return taking.options


def _cname(value: Any) -> str:
    name = string(value)
    if name not in _CNAMES:
        raise invalid(f"Expected one of {','.join(_CNAMES)} but received: {dump(name)}")
    return name


def _bytes(configuration: dict[str, Any], constraints: bool) -> dict[str, Any]:
    taking = _Taking(configuration, constraints)
    taking.take("endian", lambda value: one_of(value, ("little", "big")), optional=True)
    return taking.options


def _transpose(configuration: dict[str, Any], constraints: bool) -> dict[str, Any]:
    taking = _Taking(configuration, False)
    taking.take("order", _order)
    return taking.options


def _order(value: Any) -> list[int] | str:
    if isinstance(value, str) and value in ("C", "F"):
        return value
    order = []
    try:
        for i, item in enumerate(array(value)):
            with at(i):
                order.append(integer(item, 0, _MAX_RANK - 1))
        if sorted(order) != list(range(len(order))):
            raise invalid(f"{{{', '.join(map(str, order))}}} is not a valid permutation")
    except StatusError as error:
        other = expected('one of "C", "F"', value)
        raise invalid(f"No matching value binder: {error.sentence}; {other.sentence}") from None
    return order


def _sharding(configuration: dict[str, Any], constraints: bool) -> dict[str, Any]:
    taking = _Taking(configuration, constraints)

    def shape(value: Any) -> list[int]:
        lengths = []
        for i, item in enumerate(array(value)):
            with at(i):
                lengths.append(integer(item, 1, _MOST))
        return lengths

    taking.take("chunk_shape", shape)
    taking.take("index_codecs", lambda value: chain_from_json(value, constraints=constraints))
    taking.take("codecs", lambda value: chain_from_json(value, constraints=constraints))
    taking.take("index_location", lambda value: one_of(value, ("start", "end")), optional=True)
    if not constraints:
        taking.options.setdefault("index_location", "end")
    return taking.options


_READERS: Final[dict[str, Callable[[dict[str, Any], bool], dict[str, Any]]]] = {
    "gzip": _gzip,
    "zstd": _zstd,
    "blosc": _blosc,
    "crc32c": lambda configuration, constraints: {},
    "bytes": _bytes,
    "transpose": _transpose,
    "sharding_indexed": _sharding,
}


# --- merging


def merge_chains(first: Chain | None, second: Chain | None, *, strict: bool = False) -> Chain | None:
    """Return a chain that says all that either says.

    Parameters
    ----------
    first, second : Chain or None
        What is to be merged.
    strict : bool
        Do not put a chain without shards inside the shards of the other, nor a transposition only one of them has.

    Raises
    ------
    ValueError
        If they contradict one another.

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
            if isinstance(order, str) and isinstance(other, list) and other == _spelled(order, len(other)):
                return other
    raise status("FAILED_PRECONDITION", f'Incompatible "{name}": {dump(first)} vs {dump(second)}')


def _spelled(order: str, rank: int) -> list[int]:
    return list(range(rank)) if order == "C" else list(range(rank))[::-1]
