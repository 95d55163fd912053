"""The ``downsample`` driver: an array with each block of elements reduced to one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import gcd
from typing import Any, ClassVar

import numpy.typing as npt

from tegula.indexing import Affine, Transform, whole
from tegula.indexing.transform import extent
from tegula.reductions.blocks import METHODS, downsample_values, supports
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.schema import Schema, fill_through, layout_through, units_through
from tegula.tensorstore.context import SpecBuilder
from tegula.tensorstore.drivers.virtual import AdapterDriver, VirtualSpec, read_base, write_base
from tegula.tensorstore.errors import invalid, stating
from tegula.tensorstore.index.dim import EXCLUSIVE_INFINITY, INFINITY, Dim
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.transform import IndexTransform, compose, resolved_transform
from tegula.tensorstore.json import array_of, integer, one_of, read_member
from tegula.tensorstore.spec.interface import Driver, DriverSpec, Opening
from tegula.tensorstore.spec.spec import Spec
from tegula.tensorstore.views import Viewed

__all__ = ["DownsampleDriver", "DownsampleSpec"]

_Values = npt.NDArray[Any]


class DownsampleSpec(VirtualSpec):
    """The spec of a downsampled array."""

    name: ClassVar[str] = "downsample"
    parts: ClassVar[tuple[str, ...]] = ("base",)
    resources: ClassVar[tuple[str, ...]] = ()
    base: Spec
    factors: tuple[int, ...]
    method: str

    @classmethod
    def of(cls, base: Spec, factors: tuple[int, ...], method: str) -> DownsampleSpec:
        """Return the spec of a downsampled array."""
        _check(factors, method, base.rank)
        self = cls()
        self.base, self.factors, self.method = base, factors, method
        self.schema = Schema(rank=len(factors), dtype=base.dtype)
        return self

    def read_members(self, members: dict[str, Any]) -> None:
        self.base = read_base(members, self.schema)
        factors = partial(array_of, read=lambda factor: integer(factor, 1, 2**63 - 1))
        self.factors = tuple(read_member(members, "downsample_factors", factors))
        self.method = read_member(members, "downsample_method", partial(one_of, names=METHODS))
        _check(self.factors, self.method, self.base.rank)
        self.schema.update(dtype=self.schema.dtype or self.base.dtype, rank=len(self.factors))

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        base = write_base(self.base, self.schema, builder, include_defaults)
        return {"base": base, "downsample_factors": list(self.factors), "downsample_method": self.method}

    def get_domain(self) -> IndexDomain | None:
        domain = self.base.domain
        return None if domain is None else _domain(domain, self.factors, self.method)

    def open(self, request: Opening) -> tuple[Driver, None]:
        if request.write and not request.read:
            raise invalid("only reading is supported")
        below = Viewed(*self.base._open(replace(request, read=True, write=False)))
        return DownsampleDriver(below.driver, below.view, self.factors, self.method), None


class DownsampleDriver(AdapterDriver):
    """The driver of a view of another array, with each block of the shape `factors` reduced to one element."""

    name = "downsample"
    mode = "r"
    resizes = False

    def __init__(self, base: Driver, view: IndexTransform, factors: tuple[int, ...], method: str) -> None:
        _check(factors, method, view.input_rank)
        if not supports(method, base.dtype.numpy_dtype):
            raise invalid(f'Downsample method "{method}" does not support data type "{base.dtype.name}"')
        if "r" not in base.mode:
            raise invalid("Cannot downsample non-readable store")
        self.base, self._below = base, Viewed(base, view)
        self.factors, self.method = factors, method
        self.dtype, self.codec, self.kvstore, self.slow = base.dtype, base.codec, base.kvstore, base.slow
        self.domain = _domain(view.domain, factors, method)
        self.chunk_layout = _layout(layout_through(base.chunk_layout, view), factors)
        if base.fill_value is not None:
            self.fill_value = fill_through(base.fill_value, base.domain, view)
        if base.dimension_units is not None:
            units = units_through(base.dimension_units, view)
            self.dimension_units = tuple(unit and unit * factor for unit, factor in zip(units, factors, strict=True))

    def load(self, transform: Transform | None) -> None:
        self.base.load(None)

    def read(self, transform: Transform) -> _Values:
        if self.method == "stride":
            ends = zip(self.domain.inclusive_min, self._below.domain.inclusive_min, self.factors, strict=True)
            maps = [Affine(axis, own * factor - low, factor) for axis, (own, low, factor) in enumerate(ends)]
            strided = Transform(self.domain.shape, tuple(maps), self._below.domain.shape)
            return self._below.read(strided.after(transform))
        blocks, boxes = self._boxes(transform)
        cells = self._below.read(_of_boxes(boxes, self._below.domain))
        reduced = downsample_values(cells, [low for low, _ in boxes], self.factors, self.method)
        return transform.moved(tuple([-first for first in blocks]), reduced.shape).take(reduced)

    def _boxes(self, transform: Transform) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the first block of each dimension, and the bounds of all blocks in the base."""
        below, blocks, boxes = self._below.domain, [], []
        ends = zip(transform.maps, self.domain.inclusive_min, self.factors, below.inclusive_min, below.exclusive_max)
        for one, begin, factor, low, high in ends:
            first, last = (0, -1) if 0 in transform.shape else extent(one, transform.shape)
            blocks.append(first)
            start = max((begin + first) * factor, low)
            boxes.append((start, max(start, min((begin + last + 1) * factor, high))))
        return blocks, boxes

    def write(self, transform: Transform, values: _Values) -> None:
        raise invalid("Destination does not support writing.")

    def spec_of_view(self, view: IndexTransform, *, minimal: bool) -> tuple[DriverSpec, IndexTransform]:
        base_spec, transform = self.base.spec_of_view(self._below.view, minimal=minimal)
        return DownsampleSpec.of(Spec._of(base_spec, transform), self.factors, self.method), view

    def base_view(self, view: IndexTransform) -> tuple[Driver, IndexTransform] | None:
        """Return the base and the view of it that downsamples to a view of this array; None if there is none."""
        below = self._below.domain
        # the view of the base has the dimensions of this view, and one for each dimension selected by a single index
        dims = list(view.domain)
        maps: list[OutputIndexMap] = []
        for axis, (output, factor) in enumerate(zip(view.output, self.factors, strict=True)):
            start, stop = below.inclusive_min[axis], below.exclusive_max[axis]
            number, offset, stride = output.input_dimension, output.offset * factor, output.stride or 1
            if output.index_array is not None or (number is not None and stride not in (1, -1)):
                return None
            if number is None:
                # a single block: a new dimension of its size, clipped to the bounds of the base
                low, high = max(offset, start), min(offset + factor, stop)
                maps.append(OutputIndexMap(input_dimension=len(dims), offset=low))
                dims.append(Dim(max(high - low, 0)))
                continue
            # an interval of blocks: the dimension gets the bounds of the blocks
            dim = dims[number]
            first, last = sorted(output.offset + stride * end for end in (dim.inclusive_min, dim.inclusive_max))
            low = max(first * factor, start)
            high = max(min((last + 1) * factor, stop), low)
            ends = (low - offset, high - offset) if stride == 1 else (offset - high + 1, offset - low + 1)
            dims[number] = Dim(*ends, label=dim.label)
            maps.append(OutputIndexMap(input_dimension=number, offset=offset, stride=stride))
        return self.base, compose(self._below.view, IndexTransform(dims, output=maps))

    def over(self, base: Driver) -> Driver:
        return DownsampleDriver(base, resolved_transform(self._below.view, base.domain), self.factors, self.method)

    def storage_statistics(self, transform: Transform) -> tuple[bool, bool]:
        """Return the statistics of the box of blocks that contains the elements."""
        boxed = _of_boxes(self._boxes(transform)[1], self._below.domain)
        return self.base.storage_statistics(self._below.selected(boxed).transform)


def _check(factors: tuple[int, ...], method: str, rank: int | None) -> None:
    one_of(method, METHODS)
    if any(factor < 1 for factor in factors):
        raise invalid(f"Downsample factors {{{', '.join(map(str, factors))}}} are not all positive")
    if rank is not None and rank != len(factors):
        raise invalid(f'"downsample_factors" of {[*factors]} do not fit the rank {rank}')


def _domain(domain: IndexDomain, factors: tuple[int, ...], method: str) -> IndexDomain:
    bounds = []
    for low, high, factor in zip(domain.inclusive_min, domain.exclusive_max, factors, strict=True):
        # the blocks that the domain touches; with the method "stride" only those that begin in it
        first = -(-low // factor) if method == "stride" else low // factor
        last = first if high <= low else -(-high // factor)
        bounds.append((low if low <= -INFINITY else first, high if high >= EXCLUSIVE_INFINITY else last))
    return domain._of([(*new, *old[2:]) for new, old in zip(bounds, domain._dims)])


def _layout(layout: ChunkLayout, factors: tuple[int, ...]) -> ChunkLayout:
    """Return the layout of the base with chunks divided by the factors."""
    json = layout.to_json()
    if (origin := json.get("grid_origin")) is not None:
        json["grid_origin"] = [x if x is None else x // factor for x, factor in zip(origin, factors, strict=True)]
    for name in ("read_chunk", "write_chunk", "codec_chunk", "chunk"):
        if (shape := json.get(name, {}).get("shape")) is not None:
            json[name]["shape"] = [x and x // gcd(x, factor) for x, factor in zip(shape, factors, strict=True)]
    with stating("Error downsampling the chunk layout"):
        return ChunkLayout(json)


def _of_boxes(boxes: list[tuple[int, int]], domain: IndexDomain) -> Transform:
    """Return the transform of a box with these bounds in a domain."""
    ends = zip(boxes, domain.inclusive_min)
    return whole(domain.shape).index(tuple([slice(low - start, high - start) for (low, high), start in ends]))
