"""Sums: what a box of elements contributes to the checksum of an array; the sums of boxes merge by addition.

The bits of each element are cut into *limbs*, small unsigned integers, whatever the byte order. Elements whose size is
a multiple of two bytes have limbs of 16 bits, lowest first, others limbs of 8 bits. Padding between fields is left out.
Text, bytes and objects of variable length are replaced by a hash.

A limb has a weight: the product of a power for each axis, whose exponent is the index along it. The sum of all limbs
times their weights, modulo a prime, depends on all values and their places, but not on the order in which they are
added up: boxes of any shape give the same result as the whole. A change of one limb always changes the sum. Any other
change goes unnoticed by one sum with a probability of about 2**-60, so there are two sums, with different weights.

The weights of a box have a closed form, so that any number of elements with the fill value is summed in one step.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b, sha256
from math import prod
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.errors import UnsupportedError
from tegula.metadata.data_types import EXTENDED_DTYPES, DataType, data_type_of, packed
from tegula.metadata.fill_values import is_empty

__all__ = ["PRIME", "Sums", "digest_of", "limbs_of", "sums_of_fill", "sums_of_values", "type_name"]

PRIME: Final = 2**61 - 1
_PRIME: Final = np.uint64(PRIME)
_BITS: Final = 61
_HALF: Final = np.uint64(2**31 - 1)

_VERSION: Final = "tegula checksum 1"
_BYTES: Final = 16  # of a hash

_KEYS: Final = 2  # sets of weights
_BLOCK: Final = 2**11  # limbs that one product of matrices adds up; exact, since 16 + 21 + 11 bits are below 53
_PART: Final = 21  # bits of a weight in one column of a matrix
_PIECE: Final = 2**17  # limbs at a time, so that intermediate results stay in the processor's cache

_SMALL: Final = 2**18  # operations up to which libraries multiply matrices in the calling thread alone

Box = tuple[slice, ...]
Bases = tuple[int, ...]  # one for each set of weights
Residues = npt.NDArray[np.uint64]  # numbers below the prime


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of a part of an array, one for each set of weights."""

    values: tuple[int, ...] = (0,) * _KEYS  # the limbs times their weights, added up
    weights: tuple[int, ...] = (0,) * _KEYS  # those of the elements, added up; those of all others follow from them

    def merge(self, other: Sums) -> Sums:
        """Return the sums of two parts that have no element in common."""
        pairs = (zip(self.values, other.values), zip(self.weights, other.weights))
        values, weights = (tuple((a + b) % PRIME for a, b in pair) for pair in pairs)
        return Sums(values, weights)


def sums_of_values(values: npt.NDArray[Any], box: Box, data_type: DataType) -> Sums:
    """Return the sums of the elements in one box of an array."""
    limbs = limbs_of(values, data_type)
    size = limbs.shape[-1]
    if not limbs.size:
        return Sums(weights=_weights(box, size))
    starts = [part.start for part in box[:-1]] + [part.start * size for part in box[-1:]] or [0]
    flat = limbs.reshape(*limbs.shape[:-2], -1) if box else limbs
    bases = _bases(flat.ndim)
    offsets = [prod(pow(base, start, PRIME) for base, start in zip(each, starts)) for each in zip(*bases)]
    sums = (part * offset % PRIME for part, offset in zip(_contracted(flat, bases), offsets))
    return Sums(tuple(sums), _weights(box, size))


def sums_of_fill(fill: npt.NDArray[Any], shape: tuple[int, ...], data_type: DataType, others: Sums) -> Sums:
    """Return the sums of all elements that hold the fill value; `others` are the sums of all other elements."""
    limbs = limbs_of(fill.reshape(1), data_type).reshape(-1).tolist()
    total_weights = _weights(tuple(slice(0, size) for size in shape), len(limbs))
    weights = tuple((every - known) % PRIME for every, known in zip(total_weights, others.weights))
    values = (
        sum(limb * pow(base, exponent, PRIME) for exponent, limb in enumerate(limbs)) * weight % PRIME
        for base, weight in zip(_bases(1)[-1], weights)
    )
    return Sums(tuple(values), weights)


def _bases(ndim: int) -> tuple[Bases, ...]:
    """Return for each axis the base of its weights, one for each set; the last axis is that of limbs."""
    names = [*(f"axis {axis}" for axis in range(ndim - 1)), "limbs"]
    return tuple(tuple(base_of(f"{name}, set {key}") for key in range(_KEYS)) for name in names)


def _weights(box: Box, size: int) -> tuple[int, ...]:
    """Return the sums of the weights of the elements of a box, each with `size` limbs."""
    weights = [1] * _KEYS
    for axis, (part, bases) in enumerate(zip(box, _bases(len(box)) if box else ())):
        for key, base in enumerate(bases):
            step = pow(base, size, PRIME) if axis == len(box) - 1 else base
            # without limbs all weights along the last axis are 1
            sums = geometric_sum(step, part.start, part.stop) if step != 1 else part.stop - part.start
            weights[key] = weights[key] * sums % PRIME
    return tuple(weights)


# --- contraction: limbs times weights, axis by axis


def _contracted(limbs: npt.NDArray[Any], bases: tuple[Bases, ...]) -> list[int]:
    """Return the sums of all limbs times their weights, as if the box began at the origin."""
    shape = limbs.shape
    # blocks: the last axes as far as they fit, and a part of the axis before them
    inner, axis = 1, len(shape)
    while axis and inner * shape[axis - 1] <= _BLOCK:
        axis -= 1
        inner *= shape[axis]
    if not axis:
        return [int(value) for value in _times(limbs.reshape(1, -1), _columns(shape, bases))[0]]
    axis -= 1
    length = max(1, _BLOCK // inner)
    columns = _columns((length, *shape[axis + 1 :]), bases[axis:])
    sums = _blocks(limbs.reshape(prod(shape[:axis]), -1), columns)

    # these are the sums of each block; now the axes before
    steps = tuple(pow(base, length, PRIME) for base in bases[axis])
    sums = total(multiply(sums, _powers(steps, sums.shape[1])), 1)
    for outer in reversed(range(axis)):
        sums = sums.reshape(-1, shape[outer], _KEYS)
        sums = total(multiply(sums, _powers(bases[outer], shape[outer])), 1)
    return [int(value) for value in sums.reshape(_KEYS)]


def _blocks(rows: npt.NDArray[Any], columns: npt.NDArray[np.float64]) -> Residues:
    """Return the sums of each block of the rows; the last block may be shorter."""
    block = len(columns)
    number, size = rows.shape
    full = size // block
    out = np.empty((number, -(-size // block), _KEYS), np.uint64)
    lines, step = max(1, _PIECE // size), max(1, _PIECE // block)
    for first in range(0, number, lines):
        part = rows[first : first + lines]
        for start in range(0, full, step):
            stop = min(full, start + step)
            cells = part[:, start * block : stop * block].reshape(-1, block)
            out[first : first + lines, start:stop] = _times(cells, columns).reshape(len(part), -1, _KEYS)
        if full < out.shape[1]:
            last = part[:, full * block :]
            out[first : first + lines, full] = _times(last, columns[: last.shape[1]])
    return out


def _times(cells: npt.NDArray[Any], columns: npt.NDArray[np.float64]) -> Residues:
    """Multiply rows of limbs by weights; the products of floating-point numbers are exact integers below 2**53."""
    wide = cells.astype(np.float64)
    size, width = columns.shape
    products = np.empty((len(wide), width))
    rows = max(1, _SMALL // columns.size)
    full = len(wide) // rows * rows
    np.matmul(wide[:full].reshape(-1, rows, size), columns, out=products[:full].reshape(-1, rows, width))
    np.matmul(wide[full:], columns, out=products[full:])
    sums = products.astype(np.uint64).reshape(len(wide), 3, _KEYS)
    return total(np.stack([shift(sums[:, part], part * _PART) for part in range(3)]), 0)


def _powers(bases: Bases, number: int) -> Residues:
    return np.stack([powers(base, number) for base in bases], axis=1)


@lru_cache(128)
def _columns(shape: tuple[int, ...], bases: tuple[Bases, ...]) -> npt.NDArray[np.float64]:
    """Return the weights of a block: the low, middle and high bits of each set."""
    weights = np.ones((1, _KEYS), np.uint64)
    for size, base in zip(shape, bases):
        weights = multiply(weights[:, None], _powers(base, size)[None]).reshape(-1, _KEYS)
    parts = [(weights >> np.uint64(part * _PART)) & np.uint64(2**_PART - 1) for part in range(3)]
    out = np.concatenate(parts, axis=1).astype(np.float64)
    out.flags.writeable = False  # it is shared
    return out


def digest_of(facts: Mapping[str, Any]) -> str:
    """Return the checksum of facts that JSON has a form for."""
    text = json.dumps([_VERSION, facts], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return blake2b(text.encode(), digest_size=_BYTES).hexdigest()


# --- limbs


def type_name(data_type: DataType) -> str:
    """Return a name of a data type that does not depend on byte order, padding or format."""
    return data_type.variable or _name_of(data_type.numpy)


def _name_of(dtype: np.dtype[Any]) -> str:
    if dtype.subdtype is not None:
        inner, shape = dtype.subdtype
        return f"{','.join(map(str, shape))} {_name_of(inner)}"
    if dtype.names is not None:
        return f"{{{', '.join(f'{name}: {_name_of(dtype[name])}' for name in dtype.names)}}}"
    return str(dtype.name)


def limbs_of(values: npt.NDArray[Any], data_type: DataType) -> npt.NDArray[Any]:
    """Return the limbs of each element along a new last axis."""
    if data_type.variable:
        return _hashes(values, data_type.variable)
    dtype = values.dtype
    if dtype in EXTENDED_DTYPES and dtype.name in ("int2", "int4", "uint2", "uint4"):
        values = values.astype(np.int8)  # the unused upper bits repeat the sign
    elif dtype.names is not None:
        values = values.astype(packed(dtype).newbyteorder("<"))
    elif dtype.isbuiltin != 2:  # a type of NumPy, not of another package
        values = values.astype(dtype.newbyteorder("<"), copy=False)
    size = values.dtype.itemsize
    if not size:
        return np.zeros((*values.shape, 0), np.uint8)
    if dtype.char in "gG":
        return _without_padding(values)
    flat = np.ascontiguousarray(values).reshape(-1)
    unit = 1 if size % 2 else 2
    return flat.view(f"<u{unit}").reshape(*values.shape, size // unit)


def _without_padding(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the limbs of long doubles without the bytes that hold nothing."""
    part = np.dtype(np.longdouble)
    used = 10 if np.finfo(part).nmant == 63 else part.itemsize
    parts = values.dtype.itemsize // part.itemsize
    raw = np.ascontiguousarray(values).reshape(-1).view("u1").reshape(*values.shape, parts, part.itemsize)
    return np.ascontiguousarray(raw[..., :used]).reshape(*values.shape, parts * used).view("<u2")


# --- elements of variable length


def _hashes(values: npt.NDArray[Any], variable: str) -> npt.NDArray[Any]:
    try:
        hashes = [blake2b(_as_bytes(value, variable), digest_size=_BYTES).digest() for value in values.reshape(-1)]
    except RecursionError:
        raise UnsupportedError("an object is nested too deeply for a checksum") from None
    return np.frombuffer(b"".join(hashes), "<u2").reshape(*values.shape, _BYTES // 2)


def _as_bytes(value: Any, variable: str) -> bytes:
    if variable == "object":
        return b"".join(_parts(value))
    if is_empty(value):  # Zarr v2 reads missing texts as its fill value, which may be 0 or null
        return b""
    if variable == "string":
        return str(value).encode("utf-8", "surrogatepass")
    if not isinstance(value, (bytes, bytearray)):  # a fill value that is not bytes
        raise UnsupportedError(f"{value!r:.60} is not bytes, so it has no checksum")
    return bytes(value)


def _parts(value: Any) -> Iterator[bytes]:
    """Yield the kind of an object and its contents, with their lengths, so that different objects never look alike."""
    if isinstance(value, (np.bool_, np.integer, np.floating)) and value.dtype.itemsize <= 8:
        value = value.item()
    if value is None or isinstance(value, bool):
        yield b"n" if value is None else b"t" if value else b"f"
    elif isinstance(value, int):
        yield from _sized(b"i", b"%d" % value)
    elif isinstance(value, float):
        yield b"d" + struct.pack("<d", value)
    elif isinstance(value, complex):
        yield b"c" + struct.pack("<dd", value.real, value.imag)
    elif isinstance(value, str):
        yield from _sized(b"s", value.encode("utf-8", "surrogatepass"))
    elif isinstance(value, (bytes, bytearray)):
        yield from _sized(b"b", bytes(value))
    elif isinstance(value, (list, tuple)):
        yield b"l%d:" % len(value)
        for part in value:
            yield from _parts(part)
    elif isinstance(value, Mapping):
        yield b"m%d:" % len(value)
        members = [(b"".join(_parts(name)), member) for name, member in value.items()]
        for name, member in sorted(members, key=itemgetter(0)):
            yield name
            yield from _parts(member)
    elif isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        data_type = DataType(array.dtype, "object") if array.dtype.hasobject else data_type_of(array.dtype)
        shape = ",".join(map(str, array.shape))
        yield from _sized(b"a", f"{type_name(data_type)} {shape}".encode("utf-8", "surrogatepass"))
        yield np.ascontiguousarray(limbs_of(array, data_type)).tobytes()
    else:
        raise UnsupportedError(f"objects of type {type(value).__qualname__} have no checksum")


def _sized(kind: bytes, value: bytes) -> Iterator[bytes]:
    yield b"%b%d:" % (kind, len(value))
    yield value


# --- arithmetic modulo the prime, on Python's integers and on arrays of unsigned 64-bit integers


@lru_cache(256)
def base_of(name: str) -> int:
    """Derive a number between 2 and the prime from a name, by a hash."""
    return 2 + int.from_bytes(sha256(f"tegula checksum 1: {name}".encode()).digest(), "big") % (PRIME - 3)


def geometric_sum(base: int, start: int, stop: int) -> int:
    """Return the sum of ``base**i`` for all i from `start` to before `stop`; `base` is neither 0 nor 1."""
    if stop <= start:
        return 0
    return (pow(base, stop, PRIME) - pow(base, start, PRIME)) * pow(base - 1, -1, PRIME) % PRIME


def _reduce(values: Residues) -> Residues:
    """Reduce values below 2**64."""
    folded = (values & _PRIME) + (values >> np.uint64(_BITS))
    return np.minimum(folded, folded - _PRIME)  # the difference wraps round where it is below 0


def shift(values: Residues, bits: int) -> Residues:
    """Multiply values below 2**61 by ``2**bits``, which rotates their bits."""
    low, high = values << np.uint64(bits), values >> np.uint64(_BITS - bits)
    return _reduce((low & _PRIME) | high)


def multiply(one: Residues, other: Residues | np.uint64) -> Residues:
    """Multiply values below the prime."""
    # halves of 31 bits; 2**62 is 2, and 2**31 times the middle is a rotation
    one_high, one_low = one >> np.uint64(31), one & _HALF
    other_high, other_low = other >> np.uint64(31), other & _HALF
    middle = _reduce(one_high * other_low + one_low * other_high)
    highest, lowest = one_high * other_high * np.uint64(2), one_low * other_low
    return _reduce(_reduce(highest) + _reduce(lowest) + shift(middle, 31))


def powers(base: int, number: int) -> Residues:
    """Return the first powers of a base, from ``base**0``."""
    out = np.ones(max(1, number), np.uint64)
    done = 1
    while done < number:
        step = np.uint64(pow(base, done, PRIME))
        more = min(done, number - done)
        out[done : done + more] = multiply(out[:more], step)
        done += more
    return out[:number]


def total(values: Residues, axis: int) -> Residues:
    """Add up values below the prime along an axis of at most 2**31."""
    high, low = values >> np.uint64(31), values & _HALF
    low, high = (part.sum(axis=axis, dtype=np.uint64, keepdims=True) for part in (low, high))
    return np.squeeze(_reduce(_reduce(low) + shift(_reduce(high), 31)), axis)
