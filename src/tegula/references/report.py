"""The report on references that were written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tegula.references.chunks import Chunk
from tegula.runtime.quantities import counted

__all__ = ["ReferenceReport"]


@dataclass(slots=True)
class ReferenceReport:
    """A report on references that were written.

    Attributes
    ----------
    arrays : int
        Number of arrays that the references describe.
    referenced, inlined : int
        Number of chunks that are referenced, and of those stored among the references.
    skipped : dict of str to str
        Path and reason of each array that was left out.
    """

    arrays: int = 0
    referenced: int = 0
    inlined: int = 0
    skipped: dict[str, str] = field(default_factory=dict)

    def counted(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yield chunks, and count them."""
        for chunk in chunks:
            if chunk.data is None:
                self.referenced += 1
            else:
                self.inlined += 1
            yield chunk

    def __str__(self) -> str:
        text = f"{counted(self.arrays, 'array')}, {counted(self.referenced, 'chunk')} referenced"
        text += f", {self.inlined:,} stored among the references" if self.inlined else ""
        return text + (f", {counted(len(self.skipped), 'array')} left out" if self.skipped else "")
