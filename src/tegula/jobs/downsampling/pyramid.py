"""The pyramid that `tegula.downsample` has written, or would write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tegula.arrays.array import Array
from tegula.jobs.downsampling.ome import Axis, Level
from tegula.jobs.rewriting.estimating import Estimate

__all__ = ["Pyramid", "level_of"]


@dataclass(frozen=True, slots=True, repr=False)
class Pyramid:
    """A pyramid that `tegula.downsample` has written.

    Parameters
    ----------
    target : str
        URL of its group.
    method : str
        How blocks of elements were reduced.
    axes : tuple of Axis
        Its axes: name, type and unit of each.
    levels : tuple of Level
        Its arrays, the largest first: path, shape, chunks, scale and translation of each.
    seconds : float
        Duration.
    dry_run : bool
        Whether nothing was written.
    units_left : int
        Number of units that other parts of the job still have to do; until then the pyramid is incomplete.
    estimate : Estimate
        In a dry run, what it would take.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> image = tegula.create_array({}, data=np.zeros((300, 500)), chunks=(100, 100), dimension_names=["y", "x"])
    >>> found = tegula.downsample(image, tegula.MemoryStore(), scale=0.5)
    >>> [(level.path, level.shape, level.scale) for level in found.levels[2:]]
    [('s2', (75, 125), (2.0, 2.0)), ('s3', (38, 63), (4.0, 4.0))]
    """

    target: str
    method: str
    axes: tuple[Axis, ...]
    levels: tuple[Level, ...]
    seconds: float = 0.0
    dry_run: bool = False
    units_left: int = 0
    estimate: Estimate = field(default_factory=Estimate)

    def as_dict(self) -> dict[str, Any]:
        """Return the pyramid as JSON values."""
        return {**asdict(self), "axes": [axis.as_dict() for axis in self.axes]}

    def __repr__(self) -> str:
        """Return a line for each level."""
        lines = [f"{level.path}  {level.shape} in chunks {level.chunks}" for level in self.levels]
        lines += [self.estimate.summary] if self.dry_run else []
        lines += [f"{self.units_left} units left to other parts"] if self.units_left else []
        return "\n".join([f"<tegula.Pyramid {self.target!r}, {self.method}>", *lines])


def level_of(path: str, array: Array, scales: Sequence[float], factors: Sequence[int], method: str) -> Level:
    """Describe a level; the first element of a mean lies in the middle of its block."""
    scale = tuple(one * factor for one, factor in zip(scales, factors))
    middle = tuple(one * (factor - 1) / 2 for one, factor in zip(scales, factors))
    return Level(path, array.shape, array.chunks, scale, (0.0,) * array.ndim if method == "nearest" else middle)
