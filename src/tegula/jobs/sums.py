"""Sums: what a box of elements contributes to the checksum of an array; the sums of boxes merge by addition.

The bits of each element are cut into *limbs* of one or two bytes (`tegula.jobs.limbs`). A limb has a weight:
the product of a power for each axis, whose exponent is the index along it. The sum of all limbs times their weights,
modulo a prime, depends on all values and their places, but not on the order in which they are added up: boxes of any
shape give the same result as the whole. A change of one limb always changes the sum. Any other change goes unnoticed by
one sum with a probability of about 2**-60, so there are two sums, with different weights.

The weights of a box have a closed form, so that any number of elements with the fill value is summed in one step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tegula.arrays.array import Array
from tegula.formats.dimension_names import attributes_without
from tegula.jobs.limbs import limbs_of, type_name
from tegula.jobs.masks import attributes_of
from tegula.jobs.modular import PRIME, Residues, base_of, geometric_sum, multiply, powers, shift, total
from tegula.jobs.units import Box
from tegula.metadata.data_types import DataType

__all__ = ["Sums", "digest_of", "digest_of_array", "sums_of_fill", "sums_of_values"]

_VERSION: Final = "tegula checksum 1"
_BYTES: Final = 16

_KEYS: Final = 2  # sets of weights
_BLOCK: Final = 2**11  # limbs that one product of matrices adds up; exact, since 16 + 21 + 11 bits are below 53
_PART: Final = 21  # bits of a weight in one column of a matrix
_PIECE: Final = 2**17  # limbs at a time, so that intermediate results stay in the processor's cache

_SMALL: Final = 2**18  # operations up to which libraries multiply matrices in the calling thread alone

Bases = tuple[int, ...]  # one for each set of weights


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of a part of an array.

    Parameters
    ----------
    values : tuple of int
        The limbs times their weights, added up; one number for each set of weights.
    weights : tuple of int
        The weights of the part's elements, added up; the weights of all other elements follow from them.
    """

    values: tuple[int, ...] = (0,) * _KEYS
    weights: tuple[int, ...] = (0,) * _KEYS

    def merge(self, other: Sums) -> Sums:
        """Return the sums of two parts that have no element in common.

        Examples
        --------
        >>> from tegula.metadata.data_types import as_data_type
        >>> values, kind = np.arange(8), as_data_type("i8")
        >>> parts = [sums_of_values(values[part], (part,), kind) for part in (slice(0, 3), slice(3, 8))]
        >>> parts[1].merge(parts[0]) == sums_of_values(values, (slice(0, 8),), kind)
        True
        """
        return Sums(_added(self.values, other.values), _added(self.weights, other.weights))


def _added(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple((a + b) % PRIME for a, b in zip(one, other))


def sums_of_values(values: npt.NDArray[Any], box: Box, data_type: DataType) -> Sums:
    """Return the sums of one box of an array.

    Parameters
    ----------
    values : ndarray
        The elements.
    box : tuple of slice
        Where they are in the array.
    data_type : DataType
        The array's data type.
    """
    limbs = limbs_of(values, data_type)
    size = limbs.shape[-1]
    if not limbs.size:
        return Sums((0,) * _KEYS, _weights(box, size))
    starts = [part.start for part in box[:-1]] + [part.start * size for part in box[-1:]] or [0]
    flat = limbs.reshape(*limbs.shape[:-2], -1) if box else limbs
    bases = _bases(flat.ndim)
    offsets = [prod(pow(base, start, PRIME) for base, start in zip(each, starts)) for each in zip(*bases)]
    found = (part * offset % PRIME for part, offset in zip(_contracted(flat, bases), offsets))
    return Sums(tuple(found), _weights(box, size))


def sums_of_fill(fill: npt.NDArray[Any], shape: tuple[int, ...], data_type: DataType, others: Sums) -> Sums:
    """Return the sums of all elements of an array except some, if they hold the fill value.

    Parameters
    ----------
    fill : 0-d ndarray
        The fill value.
    shape : tuple of int
        Shape of the array.
    data_type : DataType
        The array's data type.
    others : Sums
        The sums of the elements that are left out.
    """
    limbs = limbs_of(fill.reshape(1), data_type).reshape(-1).tolist()
    whole = _weights(tuple(slice(0, size) for size in shape), len(limbs))
    weights = tuple((every - known) % PRIME for every, known in zip(whole, others.weights))
    found = (
        sum(limb * pow(base, place, PRIME) for place, limb in enumerate(limbs)) * weight % PRIME
        for base, weight in zip(_bases(1)[-1], weights)
    )
    return Sums(tuple(found), weights)


def _bases(ndim: int) -> tuple[Bases, ...]:
    """Return for each axis the base of its weights, one for each set; the last axis is that of limbs."""
    names = [*(f"axis {axis}" for axis in range(ndim - 1)), "limbs"]
    return tuple(tuple(base_of(f"{name}, set {key}") for key in range(_KEYS)) for name in names)


def _weights(box: Box, size: int) -> tuple[int, ...]:
    """Return the sums of the weights of the elements of a box, each with `size` limbs."""
    found = [1] * _KEYS
    for axis, (part, bases) in enumerate(zip(box, _bases(len(box)) if box else ())):
        for key, base in enumerate(bases):
            step = pow(base, size, PRIME) if axis == len(box) - 1 else base
            # without limbs all weights along the last axis are 1
            sums = geometric_sum(step, part.start, part.stop) if step != 1 else part.stop - part.start
            found[key] = found[key] * sums % PRIME
    return tuple(found)


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
    found = _blocks(limbs.reshape(prod(shape[:axis]), -1), columns)

    # numbers are left for each block, and the axes before
    steps = tuple(pow(base, length, PRIME) for base in bases[axis])
    found = total(multiply(found, _powers(steps, found.shape[1])), 1)
    for outer in reversed(range(axis)):
        found = found.reshape(-1, shape[outer], _KEYS)
        found = total(multiply(found, _powers(bases[outer], shape[outer])), 1)
    return [int(value) for value in found.reshape(_KEYS)]


def _blocks(rows: npt.NDArray[Any], columns: npt.NDArray[np.float64]) -> Residues:
    """Return the sums of each block of the rows; the last block may be shorter."""
    block = len(columns)
    number, size = rows.shape
    whole = size // block
    out = np.empty((number, -(-size // block), _KEYS), np.uint64)
    lines, step = max(1, _PIECE // size), max(1, _PIECE // block)
    for first in range(0, number, lines):
        part = rows[first : first + lines]
        for start in range(0, whole, step):
            stop = min(whole, start + step)
            cells = part[:, start * block : stop * block].reshape(-1, block)
            out[first : first + lines, start:stop] = _times(cells, columns).reshape(len(part), -1, _KEYS)
        if whole < out.shape[1]:
            rest = part[:, whole * block :]
            out[first : first + lines, whole] = _times(rest, columns[: rest.shape[1]])
    return out


def _times(cells: npt.NDArray[Any], columns: npt.NDArray[np.float64]) -> Residues:
    """Multiply rows of limbs by weights; the products of floating-point numbers are exact integers below 2**53."""
    wide = cells.astype(np.float64)
    size, width = columns.shape
    found = np.empty((len(wide), width))
    rows = max(1, _SMALL // columns.size)
    whole = len(wide) // rows * rows
    np.matmul(wide[:whole].reshape(-1, rows, size), columns, out=found[:whole].reshape(-1, rows, width))
    np.matmul(wide[whole:], columns, out=found[whole:])
    sums = found.astype(np.uint64).reshape(len(wide), 3, _KEYS)
    return total(np.stack([shift(sums[:, place], place * _PART) for place in range(3)]), 0)


def _powers(bases: Bases, number: int) -> Residues:
    return np.stack([powers(base, number) for base in bases], axis=1)


@lru_cache(128)
def _columns(shape: tuple[int, ...], bases: tuple[Bases, ...]) -> npt.NDArray[np.float64]:
    """Return the weights of a block: the low, middle and high bits of each set."""
    weights = np.ones((1, _KEYS), np.uint64)
    for size, base in zip(shape, bases):
        weights = multiply(weights[:, None], _powers(base, size)[None]).reshape(-1, _KEYS)
    parts = [(weights >> np.uint64(place * _PART)) & np.uint64(2**_PART - 1) for place in range(3)]
    out = np.concatenate(parts, axis=1).astype(np.float64)
    out.flags.writeable = False  # it is shared
    return out


def digest_of_array(array: Array, sums: Sums, *, attributes: bool = False) -> str:
    """Return the checksum of an array, from the sums of some boxes; all other elements hold the fill value."""
    data_type = array.metadata.data_type
    whole = sums.merge(sums_of_fill(array.stored.fill, array.shape, data_type, sums))
    facts: dict[str, Any] = {"type": type_name(data_type), "shape": [*array.shape], "values": [*whole.values]}
    if attributes:
        # names may be part of the attributes
        facts["attributes"] = attributes_without(attributes_of(array))
        names = array.dimension_names
        facts["names"] = None if names is None or not array.ndim else [*names]
    return digest_of(facts)


def digest_of(facts: Mapping[str, Any]) -> str:
    """Return the checksum of facts that JSON has a form for."""
    text = json.dumps([_VERSION, facts], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return blake2b(text.encode(), digest_size=_BYTES).hexdigest()
