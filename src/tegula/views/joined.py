"""Arrays made of arrays: views side by side along an axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tegula import engine
from tegula.engine.concurrency.pool import gather
from tegula.errors import MetadataError, SelectionError, UnsupportedError, brief, out_of_memory
from tegula.indexing import Affine, Transform, whole
from tegula.metadata.data_types import as_data_type
from tegula.views import interop
from tegula.views.view import View, part_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from tegula.engine import Future
    from tegula.metadata.data_types import DataType
    from tegula.stores import Store
    from tegula.views.base import Base

__all__ = ["Joined", "bases_of", "join"]


class Part(NamedTuple):
    """The view of the elements that lie in one member, and where they are in the whole."""

    view: View
    order: tuple[int, ...] | None
    position: tuple[Any, ...]

    def of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the axes of an array of the view's shape in the order in which `position` selects from them."""
        return values if self.order is None else values.transpose(self.order)


class Joined:
    """Views of one data type that are one array: the base of the view that `join` returns.

    Parameters
    ----------
    members : sequence of View
        The views, in order.
    axis : int
        The axis along which they lie.
    """

    def __init__(self, members: Sequence[View], axis: int) -> None:
        self.members, self.axis = tuple(members), axis
        lengths = [member.shape[axis] for member in members]
        self.starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        first = members[0]
        self.shape: tuple[int, ...] = (*first.shape[:axis], int(self.starts[-1]), *first.shape[axis + 1 :])
        self.dtype = _dtype_of(members)
        self.names = _names_of(members)

    def __reduce__(self) -> tuple[Any, ...]:
        return Joined, (self.members, self.axis)

    def __repr__(self) -> str:
        return f"<{len(self.members)} arrays along axis {self.axis}>"

    @property
    def node(self) -> tuple[Store, str, str]:
        raise UnsupportedError("an array made of arrays is not stored as one", path=self.location)

    @property
    def data_type(self) -> DataType:
        return self.members[0]._data_type if self.dtype.hasobject else as_data_type(self.dtype)

    @property
    def fill(self) -> npt.NDArray[Any] | None:
        fills = [member._fill for member in self.members]
        known = fills[0]
        same = known is not None and all(one is not None and one.tobytes() == known.tobytes() for one in fills)
        return known if same else None

    @property
    def chunks(self) -> tuple[int | None, ...]:
        known = [member._chunk_lengths() for member in self.members]
        lengths: list[int | None] = []
        for axis in range(len(self.shape)):
            found = {own[axis] for own in known}
            length = found.pop() if len(found) == 1 else None
            if length is not None and axis == self.axis:  # chunks may not cross from one member to the next
                length = length if all(start % length == 0 for start in self.starts[:-1].tolist()) else None
            lengths.append(length)
        return tuple(lengths)

    @property
    def parts(self) -> tuple[int, ...]:
        parts, lengths = [*self.members[0]._part_lengths()], np.diff(self.starts)
        length, part = int(lengths[0]), parts[self.axis]
        if length and length % part and np.all(lengths == length):  # a part in each member, and not in two
            parts[self.axis] = length
        return tuple(parts)

    @property
    def attrs(self) -> Mapping[str, Any]:
        return {**self.members[0].attrs}

    @property
    def attributes(self) -> Mapping[str, Any]:
        return self.members[0]._attributes

    @property
    def location(self) -> str:
        first, others = self.members[0].location, len(self.members) - 1
        return f"{first} and {others} other{'s' if others > 1 else ''}" if others else first

    @property
    def missing_chunks(self) -> str | None:
        return None  # each member has its own

    @property
    def read_only(self) -> bool:
        return any(member.read_only for member in self.members)

    @property
    def concurrency(self) -> int:
        return max(member._base.concurrency for member in self.members)

    def token(self) -> tuple[object, ...]:
        return "tegula.Joined", self.axis, *(member.__dask_tokenize__() for member in self.members)

    def start(self, act: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self.members[0]._base.start(act, *arguments)

    # --- reading and writing

    def read(self, transform: Transform, field: Any, out: Any, *, is_point: bool) -> Any:
        dtype: Any = self.dtype
        memory = None if out is None else interop.as_output(out)
        if memory is not None and memory.shape != transform.shape:
            raise SelectionError(f"out has the shape {memory.shape}, the view {transform.shape}", path=self.location)
        try:
            values = memory
            if values is None:
                values = engine.empty(transform.shape, dtype if field is None else dtype[field])
        except (MemoryError, ValueError) as error:
            raise SelectionError(f"a view of shape {transform.shape} does not fit into memory") from error

        def fill(part: Part) -> None:
            target = part.of(values)
            if all(isinstance(item, slice) for item in part.position):  # basic, so that memory is shared
                part.view._read(target[(*part.position, ...)], False)
            else:
                target[part.position] = part.view[...]

        try:
            _for_all(fill, self._parts(transform, field))
        except MemoryError as error:
            raise out_of_memory(error) from error
        return out if out is not None else values[()] if is_point else values

    def write(self, transform: Transform, field: Any, values: Any) -> None:
        try:
            spread = np.broadcast_to(np.asarray(values), transform.shape)
        except (ValueError, TypeError) as error:
            raise SelectionError(
                f"the values can't be broadcast to a view of shape {transform.shape}: {error}", path=self.location
            ) from error

        def store(part: Part) -> None:
            part.view._write(part.of(spread)[part.position])

        _for_all(store, self._parts(transform, field))

    def _parts(self, transform: Transform, field: Any) -> Iterator[Part]:
        """Yield the part of a view that each member has; members without one are not looked at."""
        if 0 in transform.shape:
            return
        whole_view = (slice(None),) * len(transform.shape)
        along = transform.maps[self.axis]
        if isinstance(along, Affine) and along.axis < 0:  # in one member
            number = self._member_at(along.start)
            yield Part(self._inside(number, transform, field), None, whole_view)
        elif isinstance(along, Affine):  # a range of elements in each
            axis, start, step = along
            size, done = transform.shape[axis], 0
            while done < size:
                number = self._member_at(start + step * done)
                edge = int(self.starts[number + 1]) - 1 if step > 0 else int(self.starts[number])
                stop = min(size, (edge - start) // step + 1)
                position = (*whole_view[:axis], slice(done, stop), *whole_view[axis + 1 :])
                yield Part(self._inside(number, transform.index(position), field), None, position)
                done = stop
        else:  # any elements in each
            axes = [axis for axis, length in enumerate(along.shape) if length != 1]
            order = (*axes, *(axis for axis in range(len(transform.shape)) if axis not in axes))
            turned = transform.transpose(order)
            flat = along.reshape([along.shape[axis] for axis in axes])
            numbers = np.searchsorted(self.starts, flat, side="right") - 1
            by_member = np.argsort(numbers, axis=None, kind="stable")
            edges = np.flatnonzero(np.diff(numbers.reshape(-1)[by_member])) + 1
            for group in np.split(by_member, edges):
                chosen = np.unravel_index(group, numbers.shape)
                number = int(numbers.reshape(-1)[group[0]])
                yield Part(self._inside(number, turned.index(chosen), field), order, chosen)

    def _member_at(self, position: int) -> int:
        return int(np.searchsorted(self.starts, position, side="right")) - 1

    def _inside(self, number: int, transform: Transform, field: Any) -> View:
        """Return the view of elements that are all in one member."""
        member, offsets = self.members[number], [0] * len(self.shape)
        offsets[self.axis] = -int(self.starts[number])
        return part_of(member, transform.moved(offsets, member.shape), field)


def _for_all(act: Callable[[Part], None], parts: Iterator[Part]) -> None:
    """Call a function for all parts, for as many at once as the members' stores allow."""
    found = [*parts]
    gather(act, found, max((part.view._base.concurrency for part in found), default=0))


def bases_of(view: View) -> Iterator[Base]:
    """Yield the bases that a view has elements of; where views are joined, those of its parts."""
    base = view._base
    if isinstance(base, Joined):
        for part in base._parts(view._transform, view._field):
            yield from bases_of(part.view)
    else:
        yield base


def join(members: Sequence[View], axis: int) -> View:
    """Return the view of members side by side along an axis.

    Raises
    ------
    MetadataError
        If there are none, or their shapes or data types do not fit together; the error names the first that does not.
    """
    if not members:
        raise MetadataError("there are no arrays to join")
    first = members[0]
    if not -first.ndim <= index(axis) < first.ndim:
        text = f"there is no axis {brief(axis)} in arrays of {first.ndim} dimensions"
        raise MetadataError(text, field="axis", path=first.location)
    axis = index(axis) % first.ndim
    for number, member in enumerate(members):
        fits = member.ndim == first.ndim and member.shape[:axis] == first.shape[:axis]
        if not fits or member.shape[axis + 1 :] != first.shape[axis + 1 :]:
            raise MetadataError(
                f"array {number} has the shape {member.shape}, which does not fit that of the first, {first.shape}",
                field="shape",
                path=member.location,
            )
    base = Joined(members, axis)
    return View(base, whole(base.shape, base.names), None, None)


def _names_of(members: Sequence[View]) -> tuple[str | None, ...] | None:
    """Return the names of the axes that members with names agree on; ``None`` if there are none."""
    known = {member.dimension_names for member in members} - {None}
    found = [{*names} - {None} for names in zip(*known)]
    names = tuple([one.pop() if len(one) == 1 else None for one in found])
    return names if any(names) else None


def _dtype_of(members: Sequence[View]) -> np.dtype[Any]:
    first = members[0].dtype
    for number, member in enumerate(members):
        if member.dtype.newbyteorder("=") != first.newbyteorder("="):
            raise MetadataError(
                f"array {number} has the data type {member.dtype}, not {first} as the first has; view.astype converts",
                field="dtype",
                path=member.location,
            )
    same = all(member.dtype == first for member in members)
    return first if same else first.newbyteorder("=")
