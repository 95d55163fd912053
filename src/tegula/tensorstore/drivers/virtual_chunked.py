"""The ``virtual_chunked`` driver: an array whose chunks are read and written by functions."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tegula.indexing import Transform
from tegula.metadata.chunk_grids import ChunkGrid, RegularAxis
from tegula.tensorstore.constraints.chunk_layout import ChunkLayout
from tegula.tensorstore.constraints.schema import Schema
from tegula.tensorstore.context import SpecBuilder
from tegula.tensorstore.drivers.virtual import VirtualSpec
from tegula.tensorstore.errors import StatusError, invalid, status
from tegula.tensorstore.future import Future, Steps, finish, running, running_loop
from tegula.tensorstore.index.dim import EXCLUSIVE_INFINITY, INFINITY
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.spec.interface import Driver, DriverSpec, Opening, mode_of

__all__ = ["VirtualChunkedDriver", "VirtualChunkedReadParameters", "VirtualChunkedWriteParameters"]

_Values = npt.NDArray[Any]
_Function = Callable[[IndexDomain, _Values, Any], Any]


@dataclass(frozen=True, slots=True)
class VirtualChunkedReadParameters:
    """The parameters of a call of the read function."""

    if_not_equal: bytes = b""
    """The known generation of the chunk; empty if none is known."""
    staleness_bound: float = -math.inf
    """The oldest acceptable time of the chunk, in seconds since the epoch."""
    batch: Any = None
    """The batch of the read."""


@dataclass(frozen=True, slots=True)
class VirtualChunkedWriteParameters:
    """The parameters of a call of the write function."""

    if_equal: bytes = b""
    """The generation that the chunk must still have; empty for no condition."""


class VirtualChunkedSpec(VirtualSpec):
    """The spec of a virtual array, which has no JSON."""

    name: ClassVar[str] = "virtual_chunked"
    driver: VirtualChunkedDriver

    def write_members(self, builder: SpecBuilder, include_defaults: bool) -> dict[str, Any]:
        raise status("UNIMPLEMENTED", "JSON representation not supported")

    def get_domain(self) -> IndexDomain:
        return self.driver.domain

    def get_schema(self) -> Schema:
        driver = self.driver
        members = ("dtype", "domain", "chunk_layout", "dimension_units")
        return Schema()._put(**{name: getattr(driver, name) for name in members})

    def open(self, request: Opening) -> tuple[Driver, None]:
        driver = copy(self.driver)
        reads, writes = request.read and "r" in driver.mode, request.write and "w" in driver.mode
        if not reads and not writes:
            raise invalid("there is no read_function or write_function for the requested access")
        driver.mode = mode_of(reads, writes)
        return driver, None


def _in_steps(begin: Callable[..., Steps[Any]]) -> Any:
    """Return a method that runs steps to their end."""
    return wraps(begin)(lambda *args: finish(lambda: begin(*args)))


class VirtualChunkedDriver(Driver):
    """The driver of an array whose chunks are read and written by functions.

    These are called with the domain of a chunk, an array to fill or to store, and parameters. The coroutines that they
    return run in an event loop, by default the caller's, if there is one.
    """

    name = "virtual_chunked"
    slow = True
    resizes = False

    def __init__(
        self,
        read_function: _Function | None,
        write_function: _Function | None,
        loop: asyncio.AbstractEventLoop | None,
        schema: Schema,
    ) -> None:
        if read_function is None and write_function is None:
            raise invalid("Must specify `read_function`, `write_function`, or both")
        self.dtype, rank = schema._required("dtype"), schema._required("rank")
        schema._refuse("fill_value", "codec")
        self._read_function, self._write_function, self._loop = read_function, write_function, loop or running_loop()
        domain = IndexDomain(rank) if schema.domain is None else schema.domain
        self.domain = domain.mark_bounds_implicit[False] if domain.rank else domain
        self.dimension_units = schema.dimension_units
        origin, chunks, self._order = _grid(self.domain, schema.chunk_layout)
        self.chunk_layout = ChunkLayout(inner_order=self._order, grid_origin=origin, chunk_shape=chunks)
        ends = zip(chunks, origin, self.domain.inclusive_min)
        axes: list[Any] = [_ClippedAxis(chunk, (low - start) % chunk) for chunk, start, low in ends]
        self._grid = ChunkGrid(tuple(axes))
        self.mode = mode_of(read_function is not None, write_function is not None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loop": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._loop = running_loop()

    def _chunk_domain(self, coords: tuple[int, ...]) -> IndexDomain:
        domain, lower, upper = self.domain, [], []
        for number, axis, first, end in zip(coords, self._grid.axes, domain.inclusive_min, domain.exclusive_max):
            lower.append(first + axis.start(number))
            upper.append(min(lower[-1] + axis.length(number), end))
        return IndexDomain(inclusive_min=lower, exclusive_max=upper, labels=domain.labels)

    def _empty(self, domain: IndexDomain) -> _Values:
        axes = self._order
        values = np.zeros([domain.shape[axis] for axis in axes], self.dtype.numpy_dtype)
        return values.transpose(np.argsort(axes)) if axes else values

    def _call(self, function: _Function, domain: IndexDomain, values: _Values, parameters: Any) -> Steps[None]:
        result = function(domain, values, parameters)
        if result is None:
            return
        try:
            future = Future(result, loop=self._loop)
        except StatusError:
            if asyncio.iscoroutine(result):
                result.close()
            raise
        if not future.done():
            yield future
        future.result()

    def _filled(self, domain: IndexDomain, staleness_bound: float) -> Steps[_Values]:
        values = self._empty(domain)
        assert self._read_function is not None
        operation = running()
        batch = None if operation is None else operation.batch
        parameters = VirtualChunkedReadParameters(b"", staleness_bound, batch)
        yield from self._call(self._read_function, domain, values, parameters)
        return values

    @_in_steps
    def read(self, transform: Transform) -> Steps[_Values]:
        plan = transform.plan(self.domain.shape, self._grid)
        work = np.empty(plan.work_shape, self.dtype.numpy_dtype)
        now = time.time()
        for coords, inside, place, _ in plan:
            chunk = yield from self._filled(self._chunk_domain(coords), now)
            work[(*place, ...)] = chunk[(*inside, ...)]
        return plan.present(work)

    @_in_steps
    def write(self, transform: Transform, values: _Values) -> Steps[None]:
        plan = transform.plan(self.domain.shape, self._grid)
        if self._read_function is None and not all(covers for *_, covers in plan):
            raise invalid("Write-only virtual chunked view requires chunk-aligned writes")
        work = plan.arrange(values)
        for coords, inside, place, covers in plan:
            domain = self._chunk_domain(coords)
            if covers:
                chunk = self._empty(domain)
            else:
                chunk = yield from self._filled(domain, -math.inf)
            chunk[(*inside, ...)] = work[(*place, ...)]
            assert self._write_function is not None
            yield from self._call(self._write_function, domain, chunk, VirtualChunkedWriteParameters())

    def spec(self, *, minimal: bool = False) -> DriverSpec:
        spec = VirtualChunkedSpec()
        spec.driver = self
        spec.schema = Schema(dtype=self.dtype, rank=self.domain.rank)
        return spec

    def with_transaction(self, transaction: Any) -> Driver:
        return self


def _grid(domain: IndexDomain, layout: ChunkLayout) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the origin and chunk shape of the grid, and the order of axes in a chunk."""
    rank = domain.rank
    layout = layout.copy()
    layout._set_rank(rank)
    extents = [
        None if low <= -INFINITY or high >= EXCLUSIVE_INFINITY else high - low
        for low, high in zip(domain.inclusive_min, domain.exclusive_max)
    ]
    chunk = layout._chosen(rank, extents)
    explicit = layout._vector("grid_origin").values
    automatic = [low % size if low > -INFINITY else 0 for low, size in zip(domain.inclusive_min, chunk)]
    origin = tuple(start if value is None else value for start, value in zip(automatic, explicit))
    return origin, chunk, layout._any_order or tuple(range(rank))


class _ClippedAxis:
    """An axis that begins in a chunk: the first chunk lacks its first `skip` indices; see `RegularAxis`."""

    def __init__(self, chunk: int, skip: int) -> None:
        self.whole, self.skip = RegularAxis(chunk), skip

    def count(self, size: int) -> int:
        return self.whole.count(size + self.skip)

    def locate(self, index: Any) -> Any:
        return self.whole.locate(index + self.skip)

    def start(self, number: Any) -> Any:
        begin = self.whole.start(number) - self.skip
        return max(0, begin) if isinstance(begin, int) else np.maximum(0, begin)

    def length(self, number: int) -> int:
        return self.whole.chunk if number else self.whole.chunk - self.skip
