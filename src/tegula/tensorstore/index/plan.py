"""Plans for indexing: the terms of an index expression assigned to dimensions, and the resulting dimensions."""

from __future__ import annotations

from tegula.tensorstore.errors import index_error
from tegula.tensorstore.index.composition import Transform, is_explicitly_empty, without_arrays
from tegula.tensorstore.index.domain import IndexDomain
from tegula.tensorstore.index.intervals import EXCLUSIVE_INFINITY, MAX_RANK, Bounds
from tegula.tensorstore.index.numpy_terms import Arrays, Expression, Term, rank_error
from tegula.tensorstore.index.output_maps import OutputIndexMap
from tegula.tensorstore.index.slicing import slice_bounds

__all__ = ["NEW", "NOTHING", "Plan"]

NEW = -1
NOTHING = -2


class Plan:
    """An assignment of terms to slots: each is an old dimension's number, `NEW`, or `NOTHING` for a 0-d mask.

    Dimensions without a term are kept unchanged.
    """

    def __init__(self, domain: IndexDomain, expression: Expression, slots: list[int]) -> None:
        self.domain, self.slots = domain, slots
        self.shape = expression.shape
        self.joint = expression.mode != "oindex"
        self.front = expression.mode == "vindex" or expression.apart
        self.terms: list[tuple[Term, list[int]]] = []
        self.starts: dict[int, int] = {}
        self.joint_start = -1

    def add(self, term: Term, slots: list[int]) -> None:
        """Assign a term to slots; a mask without slots moves the dimensions of the arrays to the front."""
        if not slots:
            self.front = True
        if type(term) is Arrays and term.is_mask:
            self._check_mask(term, [self.slots[slot] for slot in slots])
        self.terms.append((term, slots))

    def _check_mask(self, mask: Arrays, dims: list[int]) -> None:
        for axis, dim in enumerate(dims):
            if dim < 0 or self.domain._lower[dim]:
                continue  # a mask starts at index 0, whatever the origin of the domain
            size, upper = mask.source.shape[axis], self.domain._upper[dim]
            if size != upper and upper != EXCLUSIVE_INFINITY:
                raise index_error(
                    f"Boolean index array has size {size} along dimension {dim}, which does not match its size {upper}"
                )

    def transform(self) -> Transform:
        """Return the new domain and the output map of every old dimension."""
        # the term of each slot; slices are computed first, as their errors take precedence
        at_slot = {slot: (term, slots) for term, slots in self.terms for slot in slots}
        sliced = {
            slots[0]: slice_bounds(self._old(self.slots[slots[0]]), term, self.slots[slots[0]])
            for term, slots in self.terms
            if isinstance(term, slice)
        }
        # the new dimensions in the order of the slots
        bounds: list[Bounds] = []
        labels: list[str] = []
        maps: dict[int, OutputIndexMap] = {}
        if self.front and any(type(term) is Arrays for term, _ in self.terms):
            self._joint(bounds, labels)
        for slot, dim in enumerate(self.slots):
            term, slots = at_slot.get(slot, (slice(None), []))
            if type(term) is Arrays:
                self._arrays(term, slot, slots, bounds, labels)
                continue
            self.starts[slot] = len(bounds)
            if dim == NEW:
                bounds.append((0, 1, True, True))
                labels.append("")
            elif isinstance(term, int):
                maps[dim] = OutputIndexMap._constant(term)
            else:
                new, offset, stride = sliced[slot] if slot in sliced else (self._old(dim), 0, 1)
                maps[dim] = OutputIndexMap._single(len(bounds), offset, stride)
                bounds.append(new)
                labels.append(self.domain._labels[dim])
        if len(bounds) > MAX_RANK:
            raise rank_error(len(bounds))
        # index arrays need the final number of dimensions
        self._array_maps(maps, len(bounds))
        domain = IndexDomain._of_bounds(bounds, labels)
        output_maps = tuple([maps[dim] for dim in range(self.domain.rank)])
        return domain, without_arrays(output_maps) if is_explicitly_empty(domain) else output_maps

    def _old(self, dim: int) -> Bounds:
        domain = self.domain
        return domain._lower[dim], domain._upper[dim], domain._implicit_lower[dim], domain._implicit_upper[dim]

    def _arrays(self, term: Arrays, slot: int, slots: list[int], bounds: list[Bounds], labels: list[str]) -> None:
        """Add the dimensions of index arrays at their first slot: of each array, or of all arrays together."""
        if self.joint:
            if self.joint_start < 0 and slot == next(slots[0] for term, slots in self.terms if type(term) is Arrays):
                self._joint(bounds, labels)
        elif slot == slots[0]:
            self.starts[slot] = len(bounds)
            _emit(term.shape, bounds, labels)

    def _joint(self, bounds: list[Bounds], labels: list[str]) -> None:
        self.joint_start = len(bounds)
        _emit(self.shape, bounds, labels)

    def _array_maps(self, maps: dict[int, OutputIndexMap], rank: int) -> None:
        for term, slots in self.terms:
            if type(term) is not Arrays or not term.arrays:
                continue
            end = self.joint_start + len(self.shape) if self.joint else self.starts[slots[0]] + len(term.shape)
            for slot, array in zip(slots, term.arrays, strict=True):
                shape = (1,) * (end - array.ndim) + array.shape + (1,) * (rank - end)
                shaped = array.reshape(shape)
                shaped.flags.writeable = False
                maps[self.slots[slot]] = OutputIndexMap._of_array(shaped)

    def selected(self) -> list[int]:
        """Return the resulting dimensions that the terms select, in the order of the terms."""
        chosen: list[int] = []
        joint = list(range(self.joint_start, self.joint_start + len(self.shape))) if self.joint_start >= 0 else []
        if self.front:
            chosen, joint = joint, []
        for term, slots in self.terms:
            if type(term) is Arrays:
                if self.joint:
                    chosen, joint = chosen + joint, []
                else:
                    start = self.starts[slots[0]]
                    chosen += range(start, start + len(term.shape))
            elif not isinstance(term, int):
                chosen.append(self.starts[slots[0]])
        return chosen


def _emit(shape: tuple[int, ...], bounds: list[Bounds], labels: list[str]) -> None:
    bounds += [(0, size, False, False) for size in shape]
    labels += [""] * len(shape)
