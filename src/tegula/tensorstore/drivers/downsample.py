"""The ``downsample`` driver: an array with every block of elements reduced to one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.constraints.schema_views import fill_through, layout_through, units_through
from tegula.tensorstore.context import SpecBuilder
from tegula.tensorstore.drivers.downsampling import METHODS, downsample_values, downsampled_bounds, supports
from tegula.tensorstore.drivers.viewed import Viewed, array_rank
from tegula.tensorstore.drivers.virtual import VirtualSpec, driver_spec_of_view, open_base, read_base, write_spec
from tegula.tensorstore.errors import StatusError, annotate
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY, INFINITY
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.resizing import resolved_transform
from tegula.tensorstore.index.transform import IndexTransform, compose, identity
from tegula.tensorstore.json.binding import MISSING, array, at, expected, integer, invalid, member
from tegula.tensorstore.spec.interface import Driver, DriverSpec, Indices, Opening
from tegula.tensorstore.spec.spec import Spec
from tegula.tensorstore.views import select

__all__ = ["DownsampleDriver", "DownsampleSpec", "downsample_driver", "downsample_spec"]

_Values = npt.NDArray[Any]


class DownsampleSpec(VirtualSpec):
    """The spec of an array that is downsampled."""

    name: ClassVar[str] = "downsample"
    resource_kinds: ClassVar[Mapping[str, str]] = {}
    base: Spec
    factors: tuple[int, ...]
    method: str

    @classmethod
    def of(cls, base: Spec, factors: tuple[int, ...], method: str) -> DownsampleSpec:
        """Return the spec of a downsampled array."""
        self = cls()
        self.base, self.factors, self.method = base, factors, method
        self.schema = Schema(rank=len(factors))
        if base.dtype is not None:
            self.schema.update(dtype=base.dtype)
        _check_rank(base, factors)
        return self

    def read_members(self, members: dict[str, Any]) -> None:
        self.base = read_base(members, self.schema)
        with member("downsample_factors"):
            factors = []
            for position, factor in enumerate(array(members.pop("downsample_factors", MISSING))):
                with at(position):
                    factors.append(integer(factor, 1, 2**63 - 1))
            self.factors = tuple(factors)
            _check_rank(self.base, self.factors)
        with member("downsample_method"):
            self.method = _method(members.pop("downsample_method", MISSING))
        if self.schema.dtype is None and self.base.dtype is not None:
            self.schema.update(dtype=self.base.dtype)
        self.schema.update(rank=len(self.factors))

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        base = write_spec(self.base, builder, include_defaults)
        if not include_defaults and self.schema.dtype is not None:
            base.pop("dtype", None)
        return {"base": base, "downsample_factors": list(self.factors), "downsample_method": self.method}

    def parts(self) -> dict[str, Any]:
        return {"base": self.base}

    def get_domain(self) -> IndexDomain | None:
        domain = self.base.domain
        return None if domain is None else _domain(domain, self.factors, self.method)

    def get_schema(self) -> Schema:
        schema = self.schema.copy()
        domain = self.get_domain()
        if domain is not None:
            schema.update(domain=domain)
        return schema

    def open(self, request: Opening) -> Driver:
        if request.write and not request.read:
            raise invalid("only reading is supported")
        driver, view = open_base(self.base, replace(request, read=True, write=False))
        return downsample_driver(driver, view, self.factors, self.method)


class DownsampleDriver(Driver):
    """The driver of a downsampled view of another array.

    Parameters
    ----------
    base : Driver
        What is downsampled.
    view : IndexTransform
        The view of it that is.
    factors : tuple of int
        The shape of a block.
    method : str
        How a block becomes one element.
    """

    name = "downsample"
    mode = "r"
    resizes = False

    def __init__(self, base: Driver, view: IndexTransform, factors: tuple[int, ...], method: str) -> None:
        self._below = Viewed(base, view)
        self.factors, self.method = factors, method
        self.dtype, self.codec, self.kvstore, self.slow = base.dtype, base.codec, base.kvstore, base.slow
        self.domain = _domain(view.domain, factors, method)
        self.chunk_layout = _layout(layout_through(base.chunk_layout, view), factors)
        if base.fill_value is not None:
            self.fill_value = fill_through(base.fill_value, base.domain, view)
        if base.dimension_units is not None:
            units = units_through(base.dimension_units, view)
            self.dimension_units = tuple(unit and unit * factor for unit, factor in zip(units, factors, strict=True))

    def load(self, indices: Indices | None) -> None:
        self._below.driver.load(None)

    def read(self, indices: Indices) -> _Values:
        if self.method == "stride":
            return self._below.read(tuple(_strided(item, factor) for item, factor in zip(indices, self.factors)))
        domain = self._below.domain
        boxes, rest = [], []
        for axis, (item, factor) in enumerate(zip(indices, self.factors, strict=True)):
            first, last = _range(item)
            low, high = domain.inclusive_min[axis], domain.exclusive_max[axis]
            boxes.append((max(first * factor, low), min((last + 1) * factor, high)) if last >= first else (low, low))
            rest.append(_relative(item, first, last))
        cells = self._below.read(tuple(slice(low, max(low, high), 1) for low, high in boxes))
        reduced = downsample_values(cells, [low for low, _ in boxes], self.factors, self.method)
        joint = array_rank(indices)
        order = [axis for axis, item in enumerate(indices) if isinstance(item, np.ndarray)]
        if not joint:
            return reduced[(*rest, ...)]
        order += [axis for axis in range(len(rest)) if axis not in order]
        return np.asarray(reduced.transpose(order)[tuple(rest[axis] for axis in order)])

    def write(self, indices: Indices, values: _Values) -> None:
        raise invalid("Destination does not support writing.")

    def spec_members(self) -> dict[str, Any]:
        return {}

    def spec_of_view(self, view: IndexTransform, *, minimal: bool) -> tuple[DriverSpec, IndexTransform]:
        """Return a spec of a view, and the transform to it."""
        found, transform = driver_spec_of_view(self._below.driver, self._below.view, minimal=minimal)
        return DownsampleSpec.of(Spec._of(found, transform), self.factors, self.method), view

    def base_view(self, view: IndexTransform) -> tuple[Driver, IndexTransform] | None:
        """Return the base, and a view of it that shows what a view of this is made of."""
        domain, below = view.domain, self._below
        lower, upper = list(domain.inclusive_min), list(domain.exclusive_max)
        implicit = [list(domain.implicit_lower_bounds), list(domain.implicit_upper_bounds)]
        labels = list(domain.labels)
        maps: list[OutputIndexMap] = []
        for axis, (output, factor) in enumerate(zip(view.output, self.factors, strict=True)):
            start, stop = below.domain.inclusive_min[axis], below.domain.exclusive_max[axis]
            number = output.input_dimension
            if output.index_array is not None or (number is not None and output.stride not in (1, -1)):
                return None
            if number is None:
                first = output.offset * factor
                low, high = max(first, start), min(first + factor, stop)
                maps.append(OutputIndexMap(input_dimension=len(lower), offset=low))
                lower.append(0)
                upper.append(max(high - low, 0))
                implicit[0].append(False)
                implicit[1].append(False)
                labels.append("")
                continue
            ends = sorted((output.offset + (output.stride or 1) * end) for end in (lower[number], upper[number] - 1))
            low, high = max(ends[0] * factor, start), min((ends[1] + 1) * factor, stop)
            offset = output.offset * factor
            if output.stride == 1:
                lower[number], upper[number] = low - offset, max(high, low) - offset
            else:
                lower[number], upper[number] = offset - max(high, low) + 1, offset - low + 1
            implicit[0][number] = implicit[1][number] = False
            maps.append(OutputIndexMap(input_dimension=number, offset=offset, stride=output.stride or 1))
        transform = IndexTransform(
            input_inclusive_min=lower,
            input_exclusive_max=upper,
            implicit_lower_bounds=implicit[0],
            implicit_upper_bounds=implicit[1],
            input_labels=labels,
            output=maps,
        )
        return below.driver, compose(below.view, transform)

    def with_transaction(self, transaction: Any) -> Driver:
        driver = self._below.driver.with_transaction(transaction)
        return DownsampleDriver(driver, self._below.view, self.factors, self.method)

    def resolve(self, *, fix_resizable_bounds: bool = False, batch: Any = None) -> Driver:
        return self._over(self._below.driver.resolve(fix_resizable_bounds=fix_resizable_bounds, batch=batch))

    def latest(self, *, look: bool = True) -> Driver:
        driver = self._below.driver.latest(look=look)
        return self if driver is self._below.driver else self._over(driver)

    def _over(self, driver: Driver) -> Driver:
        return DownsampleDriver(driver, resolved_transform(self._below.view, driver.domain), self.factors, self.method)

    def storage_statistics(
        self, indices: Indices, *, query_not_stored: bool = False, query_fully_stored: bool = False
    ) -> dict[str, Any]:
        """Say it of all blocks that the indices lie between."""
        found = []
        for axis, (item, factor) in enumerate(zip(indices, self.factors, strict=True)):
            first, last = _range(item)
            low, high = self._below.domain.inclusive_min[axis], self._below.domain.exclusive_max[axis]
            found.append(slice(max(first * factor, low), max(low, min((last + 1) * factor, high)), 1))
        view = compose(self._below.view, identity(self._below.domain)[tuple(found)])
        selection = select(view, self._below.driver.domain)
        return self._below.driver.storage_statistics(
            selection.indices, query_not_stored=query_not_stored, query_fully_stored=query_fully_stored
        )


def downsample_driver(base: Driver, view: IndexTransform, factors: tuple[int, ...], method: str) -> DownsampleDriver:
    """Return the driver of a downsampled view.

    Raises
    ------
    ValueError
        If factors or method do not fit.
    """
    _method(method)
    if len(factors) != view.input_rank:
        text = f"Number of downsample factors ({len(factors)}) does not match TensorStore rank ({view.input_rank})"
        raise invalid(text)
    _check_factors(factors)
    if not supports(method, base.dtype.numpy_dtype):
        raise invalid(f'Downsample method "{method}" does not support data type "{base.dtype.name}"')
    if "r" not in base.mode:
        raise invalid("Cannot downsample non-readable store")
    return DownsampleDriver(base, view, factors, method)


def downsample_spec(base: Spec, factors: tuple[int, ...], method: str) -> Spec:
    """Return the spec of a downsampled array."""
    _method(method)
    _check_factors(factors)
    spec = DownsampleSpec.of(base, factors, method)
    domain = spec.get_domain()
    return Spec._of(spec, None if domain is None else identity(domain))


def _check_rank(base: Spec, factors: tuple[int, ...]) -> None:
    rank = base.rank
    if rank is not None and rank != len(factors):
        raise invalid(
            f"Rank specified by rank ({len(factors)}) does not match existing rank specified by schema ({rank})"
        )


def _check_factors(factors: tuple[int, ...]) -> None:
    if any(factor < 1 for factor in factors):
        raise invalid(f"Downsample factors {{{', '.join(map(str, factors))}}} are not all positive")


def _method(value: Any) -> str:
    if value not in METHODS:
        raise expected("one of " + ", ".join(f'"{name}"' for name in METHODS), value)
    return str(value)


def _domain(domain: IndexDomain, factors: tuple[int, ...], method: str) -> IndexDomain:
    lower, upper = [], []
    for low, high, factor in zip(domain.inclusive_min, domain.exclusive_max, factors, strict=True):
        first, last = downsampled_bounds(low, high, factor, method)
        lower.append(low if low <= -INFINITY else first)
        upper.append(high if high >= EXCLUSIVE_INFINITY else last)
    return IndexDomain(
        inclusive_min=lower,
        exclusive_max=upper,
        implicit_lower_bounds=domain.implicit_lower_bounds,
        implicit_upper_bounds=domain.implicit_upper_bounds,
        labels=domain.labels,
    )


def _layout(layout: ChunkLayout, factors: tuple[int, ...]) -> ChunkLayout:
    """Return the layout whose chunks are those of the base, divided."""
    json = layout.to_json()
    if (origin := json.get("grid_origin")) is not None:
        json["grid_origin"] = [x if x is None else x // factor for x, factor in zip(origin, factors, strict=True)]
    for name in ("read_chunk", "write_chunk", "codec_chunk", "chunk"):
        if (shape := json.get(name, {}).get("shape")) is not None:
            json[name]["shape"] = [x and x // gcd(x, factor) for x, factor in zip(shape, factors, strict=True)]
    try:
        return ChunkLayout(json)
    except StatusError as error:
        raise annotate(error, "Error downsampling the chunk layout") from error


def _range(item: Any) -> tuple[int, int]:
    """Return the lowest and the highest index of an item."""
    if isinstance(item, slice):
        covered = range(item.start, item.stop, item.step)
        return (min(covered[0], covered[-1]), max(covered[0], covered[-1])) if covered else (0, -1)
    if isinstance(item, np.ndarray):
        return (int(item.min()), int(item.max())) if item.size else (0, -1)
    return item, item


def _relative(item: Any, first: int, last: int) -> Any:
    if isinstance(item, slice):
        if last < first:
            return slice(0, 0)
        start, stop = item.start - first, item.stop - first
        return slice(start, None if stop < 0 else stop, item.step)
    return item - first


def _strided(item: Any, factor: int) -> Any:
    if isinstance(item, slice):
        covered = range(item.start, item.stop, item.step)
        if not covered:
            return slice(item.start * factor, item.start * factor, factor)
        return slice(covered[0] * factor, covered[-1] * factor + (1 if item.step > 0 else -1), item.step * factor)
    return item * factor
