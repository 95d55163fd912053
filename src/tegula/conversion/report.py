"""What a conversion has done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["ConvertReport", "ConvertedArray"]


@dataclass(frozen=True, slots=True)
class ConvertedArray:
    """What became of one array.

    Parameters
    ----------
    path : str
        Path below the source; ``""`` for the source itself.
    shape, chunks : tuple of int
        Shape and chunks of the new array.
    nbytes : int
        Bytes of its elements in memory.
    nbytes_before, nbytes_after : int
        Bytes stored in the source and in the target (0 in a dry run).
    verified : bool or None
        Whether every value was found equal; ``None`` if that was not asked for.
    notes : tuple of str
        What could not be kept as it was.
    chunks_copied : int
        How many chunks were copied as they are stored, without being compressed anew (0 in a dry run).
    shards : tuple of int or None
        Shape of the new array's shards, if it has shards.
    codecs : tuple of str
        Names of the new array's codecs; those inside of its shards, if it has shards.
    """

    path: str
    shape: tuple[int, ...]
    chunks: tuple[Any, ...]
    nbytes: int
    nbytes_before: int
    nbytes_after: int
    verified: bool | None = None
    notes: tuple[str, ...] = ()
    chunks_copied: int = 0
    shards: tuple[Any, ...] | None = None
    codecs: tuple[str, ...] = ()


@dataclass(slots=True)
class ConvertReport:
    """What `tegula.convert` did.

    Parameters
    ----------
    format : str
        The target's format.
    arrays : list of ConvertedArray
        The arrays that were converted, in order.
    groups : list of str
        Paths of the groups that were created.
    failed : dict of str to str
        Path and reason of each array of a hierarchy that could not be converted.
    notes : dict of str to list of str
        Path of groups, and what could not be kept of them as it was; of the topmost one (``""``) also how many arrays
        did not fit the chunks or shards that were asked for.

    Examples
    --------
    >>> import tegula
    >>> source = tegula.MemoryStore()
    >>> tegula.save(source, [1, 2, 3], format="zarr2")
    >>> report = tegula.convert(source, tegula.MemoryStore(), format="zarr3", verify=True)
    >>> report.ok, report.arrays[0].shape
    (True, (3,))
    """

    format: str
    dry_run: bool = False
    arrays: list[ConvertedArray] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether everything was converted, and found equal where that was asked for."""
        return not self.failed and all(item.verified is not False for item in self.arrays)
