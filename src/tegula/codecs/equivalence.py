"""Equivalence of codec chains: whether two chains decode the same bytes to the same values.

Stored chunks can be copied between arrays with equivalent chains without decoding. Containers and checksums at the end
of a chain may differ, since decoding and encoding them is cheap. Of the other codecs, options that are needed only for
encoding, such as the compression level, may differ; options that are needed for decoding must be the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, Literal, cast

import numpy as np

from tegula import config
from tegula.codecs.chain import CodecChain
from tegula.codecs.serializers.bytes import Bytes
from tegula.codecs.stages import Data, Decoder, Shape, flat
from tegula.metadata.data_types import DataType, dtype_of_text
from tegula.metadata.nodes import CodecSpec

__all__ = ["Transfer", "decode_alike", "has_old_zstd", "transfer"]

_CHEAP: Final = frozenset(
    {
        *("blpk", "crc32c", "numcodecs.crc32", "numcodecs.adler32"),
        *("numcodecs.fletcher32", "numcodecs.jenkins_lookup3"),
    }
)
_TWO_NAMES: Final = frozenset({"blosc", "gzip", "zstd", "crc32c", "vlen-utf8", "vlen-bytes"})
_SELF_DESCRIBING: Final = frozenset(
    {
        *("blosc", "gzip", "zstd", "vlen-utf8", "vlen-bytes", "numcodecs.zlib", "numcodecs.bz2", "numcodecs.lz4"),
        "numcodecs.pickle",
    }
)
_UNTYPED: Final = _CHEAP | _SELF_DESCRIBING | {"bytes", "transpose"}
_OF_ELEMENTS: Final = frozenset({"numcodecs.quantize", "numcodecs.delta", "numcodecs.fixedscaleoffset"})
"""Filters with the same effect on the elements of an array as on those of a little-endian buffer."""

_ZSTD: Final = 4  # in the flags of a Blosc frame
_MEMCPYED: Final = 2
_ORDERS: Final[Mapping[Any, Literal["<", ">"]]] = {"little": "<", "big": ">"}

Codecs = Sequence[CodecSpec]
Check = Callable[[Data, int | None], bool]


def decode_alike(one: Codecs, one_type: DataType, other: Codecs, other_type: DataType) -> bool:
    """Return whether two chains decode the same bytes alike, except for containers and checksums at the end.

    Parameters
    ----------
    one, other : sequence of CodecSpec
        The chains.
    one_type, other_type : DataType
        Types of the arrays' elements.

    Examples
    --------
    >>> from tegula.metadata.data_types import as_data_type
    >>> old = [CodecSpec("bytes", {"endian": "big"}), CodecSpec("numcodecs.blosc", {"clevel": 9})]
    >>> new = [CodecSpec("bytes", {"endian": "big"}), CodecSpec("blosc", {"typesize": 2}), CodecSpec("crc32c")]
    >>> decode_alike(old, as_data_type(">i2"), new, as_data_type("i2"))
    True
    """
    if one == other and one_type == other_type:
        return _is_known(one)
    return _is_known(one) and _is_known(other) and _meaning(one, one_type) == _meaning(other, other_type)


def _is_known(codecs: Codecs) -> bool:
    """Return whether it is known what decoding with a chain depends on."""
    return not any(not codec.must_understand or codec.name == "sharding_indexed" for codec in _core(codecs))


def _name(codec: CodecSpec) -> str:
    """Return the name of a codec; the one in Zarr v3 if it has two."""
    plain = codec.name.removeprefix("numcodecs.")
    return plain if plain in _TWO_NAMES else codec.name


def _core(codecs: Codecs) -> Codecs:
    """Return a chain without the containers and checksums at its end."""
    end = len(codecs)
    while end and _name(codecs[end - 1]) in _CHEAP:
        end -= 1
    return codecs[:end]


def _meaning(codecs: Codecs, data_type: DataType) -> list[Any]:
    """Return the properties of a chain that decoding depends on, in comparable form."""
    core, dtype = _core(codecs), data_type.numpy
    typed = not _UNTYPED.issuperset(map(_name, core))  # then the byte order in memory matters
    steps: list[Any] = [(dtype if typed else dtype.newbyteorder("="), data_type.variable)]
    early = _early_filters(core, dtype)
    for codec in core:
        if codec.name == "bytes":
            steps.append(
                ("bytes", dtype if early else Bytes(dtype, _ORDERS.get(codec.configuration.get("endian"))).stored)
            )
            steps += [_step(item, dtype) for item in early]
        elif codec not in early:
            steps.append(_step(codec, dtype))
    return [step for step in steps if step is not None]


def _early_filters(core: Codecs, dtype: np.dtype[Any]) -> Codecs:
    """Return the filters before ``bytes`` (as in Zarr v3) that have the same effect after it (as in Zarr v2)."""
    names = [codec.name for codec in core]
    middle = names.index("bytes") if "bytes" in names else 0
    start = next((position for position, name in enumerate(names[:middle]) if name != "transpose"), middle)
    early = core[start:middle]
    if not early:
        return []
    made = [codec.configuration.get(name) for codec in early for name in ("dtype", "astype")]
    types = [dtype, *(dtype_of_text(name) for name in made if isinstance(name, str))]
    fit = all(codec.name in _OF_ELEMENTS for codec in early) and all(item.newbyteorder("<") == item for item in types)
    return early if fit and core[middle].configuration.get("endian") != "big" else []


def _step(codec: CodecSpec, dtype: np.dtype[Any]) -> Any:
    """Return the properties of a codec that decoding depends on; ``None`` if decoding changes nothing."""
    name = _name(codec)
    if name in _SELF_DESCRIBING:
        return name
    options: Mapping[str, Any] = {key: value for key, value in codec.configuration.items() if value is not None}
    if name == "transpose":
        order = options.get("order")
        return None if _is_identity(order) else (name, "F" if _is_reverse(order) else str(order))
    if name in _OF_ELEMENTS:
        options = {"dtype": dtype.str, **options}
        options = {"astype": options["dtype"], **options}
        if name == "numcodecs.quantize" and options["astype"] == options["dtype"] == dtype.str:
            return None  # encoding changes the values, decoding does not
    return (name, json.dumps(options, sort_keys=True, default=str))


def _is_identity(order: Any) -> bool:
    return order == "C" or (isinstance(order, (list, tuple)) and [*order] == [*range(len(order))])


def _is_reverse(order: Any) -> bool:
    return order == "F" or (isinstance(order, (list, tuple)) and [*order] == [*range(len(order))][::-1])


class Transfer:
    """A conversion of stored chunks of one chain to those of another that decodes alike; made by `transfer`.

    Attributes
    ----------
    keeps : bool
        Whether the bytes of sound chunks stay unchanged.
    may_be_unseen : bool
        Whether chunks may be copied without reading them, since none can have features that other readers lack.
    """

    __slots__ = ("_chain", "_check", "_depth", "_expected", "_redo", "_undo", "keeps", "may_be_unseen")

    def __init__(
        self,
        chain: CodecChain,
        depth: int,
        undo: Sequence[Decoder],
        redo: Sequence[Any],
        check: Check | None,
        unseen: bool,
    ) -> None:
        self._chain = chain
        self._depth = depth
        self._undo = undo
        self._redo = redo
        self._check = check
        self._expected: dict[Shape, int | None] = {}
        self.keeps = not undo and not redo
        self.may_be_unseen = self.keeps and unseen

    def __call__(self, data: bytes, shape: Shape) -> Data | None:
        """Convert the stored bytes of a chunk.

        Parameters
        ----------
        data : bytes
            The stored bytes.
        shape : tuple of int
            The full shape of the chunk.

        Returns
        -------
        bytes or None
            The bytes to store, or ``None`` if the chunk is damaged or has to be decoded and encoded.
        """
        value: Any = data
        try:
            for decode in self._undo:
                value = decode(value)
            if self._check is None:
                self._chain.decode(data, shape)  # only decoding shows whether it is damaged
            elif not self._check(value, self._expected[shape] if shape in self._expected else self._size(shape)):
                return None
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - a codec of numcodecs raises anything; decoding the chunk says what is wrong
            return None
        for encode in self._redo:
            value = encode(value)
        return value

    @property
    def has_size(self) -> bool:
        """Whether `size` returns sizes."""
        return self.keeps and self._check is _is_of_size

    def size(self, shape: Shape) -> int | None:
        """Return the length of a sound chunk in bytes if that alone shows that it is sound; otherwise ``None``."""
        return self._size(shape) if self.has_size else None

    def _size(self, shape: Shape) -> int | None:
        """Return the size in bytes that the compressed data of a chunk must decode to."""
        return self._expected.setdefault(shape, self._chain._sizes(shape)[0][self._depth])


def transfer(source: CodecChain, codecs: Codecs, target: CodecChain, target_codecs: Codecs) -> Transfer:
    """Return the conversion of stored chunks between two chains that `decode_alike`.

    Parameters
    ----------
    source, target : CodecChain
        The chains.
    codecs, target_codecs : sequence of CodecSpec
        The descriptions that they were built from.
    """
    core, target_core = _core(codecs), _core(target_codecs)
    tail, target_tail = len(codecs) - len(core), len(target_codecs) - len(target_core)
    limit = 2 * config.current().max_chunk_bytes + 2**16  # the limit for compressed data in a chain
    undo = [codec.decoder(None, limit) for codec in source.buffer_codecs[::-1][:tail]]
    redo = [codec.encode for codec in target.buffer_codecs[len(target.buffer_codecs) - target_tail :]]
    depth = len(source.buffer_codecs) - tail
    strict = any(codec.name == "blpk" for codec in target_codecs)  # bcolz relies on the type size in the frame
    typesize = target_core[-1].configuration.get("typesize") if strict else None
    last = core[-1]
    # frames of zstd 0.7 have to be found, since other readers can't decode them
    unseen = _name(last) != "blosc" or last.configuration.get("cname") != "zstd"
    return Transfer(source, max(0, depth - 1), undo, redo, _check_of(_name(last), typesize), unseen)


def _check_of(name: str, typesize: int | None) -> Check | None:
    """Return a function that checks the decoded size in the header of data; ``None`` if there is none for the codec."""
    if name == "blosc":
        return _blosc_check(typesize)
    if name == "zstd":
        return cast("Check", _codec("zstd").is_one_frame)
    return {"bytes": _is_of_size, "gzip": _is_gzip}.get(name)


def _blosc_check(typesize: int | None) -> Check:
    limit = config.current().max_chunk_bytes
    check_frame = _codec("blosc").check_frame

    def check(data: Data, size: int | None) -> bool:
        plain = check_frame(data, size, limit)
        if int.from_bytes(data[12:16], "little") != len(data):  # not every reader ignores zeros after a frame
            return False
        return (typesize is None or data[3] == typesize) and (plain or data[2] >> 5 != _ZSTD or not _is_old_zstd(data))

    return check


def has_old_zstd(data: Data) -> bool:
    """Return whether the first block of a Blosc frame was written by zstd 0.7, which other readers can't decode."""
    return len(data) > 20 and not data[2] & _MEMCPYED and data[2] >> 5 == _ZSTD and _is_old_zstd(data)


def _is_old_zstd(data: Data) -> bool:
    start = int.from_bytes(data[16:20], "little") + 4
    return bytes(data[start : start + 4]) == b"\x27\xb5\x2f\xfd"


def _is_of_size(data: Data, size: int | None) -> bool:
    return len(data) == size


def _is_gzip(data: Data, size: int | None) -> bool:
    raw = flat(data)
    ending = int.from_bytes(raw[-4:], "little")
    return len(raw) >= 18 and raw[:3] == b"\x1f\x8b\x08" and size is not None and ending == size & 0xFFFFFFFF


def _codec(name: str) -> Any:
    """Import the module of a codec at its first use, since its library takes long to load."""
    return import_module(f"tegula.codecs.compressors.{name}")
