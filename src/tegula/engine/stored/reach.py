"""How far beyond the edge of an array no old chunks are stored, so that each part of the grid is searched only once."""

from __future__ import annotations

from tegula.stores import Generation

__all__ = ["Reach"]


class Reach:
    """How far beyond the edge of an array there are no old chunks, as found by earlier changes.

    This is known along one axis, and as long as the document of the shape has the same generation: another program that
    changes the shape may leave chunks beyond the edge, even if the shape is the same afterwards. Programs that store
    chunks there without changing the shape are not noticed: an append that is killed, to a table of which this array is
    a column (so `resize` calls `forget`; an append overwrites these rows), and a writer that still has an older, larger
    shape. The object belongs to one `Array`, and is used while its documents are changed.

    Attributes
    ----------
    document : (bytes, Generation) or None
        The document of the shape as the last change has stored it.

    Examples
    --------
    >>> reach = Reach()
    >>> reach.begin("generation 1")
    >>> reach.extend(0, 20)
    >>> reach.end("generation 2", b"{}")
    >>> reach.begin("generation 2")
    >>> reach.along(0), reach.along(1)
    (20, 0)
    """

    __slots__ = ("_axis", "_extended", "_further", "_known", "document", "generation")

    def __init__(self) -> None:
        self.document: tuple[bytes, Generation] | None = None
        self.generation: Generation | None = None
        self._axis = self._known = self._extended = 0
        self._further: tuple[Generation | None, int, int] = (None, 0, 0)  # what `looked_further` was told

    def begin(self, generation: Generation | None) -> None:
        """Note the generation of the document that a change starts from; with ``None`` nothing is known."""
        same = generation is not None and generation == self.generation
        self._known = max(self._known, self._extended) if same else 0
        self.generation, self._extended = generation, 0
        if same and self._further[:2] == (generation, self._axis):
            self._known = max(self._known, self._further[2])

    def along(self, axis: int) -> int:
        """Return the index along an axis up to which there are no old chunks; 0 if that is not known."""
        return max(self._known, self._extended) if axis == self._axis else 0

    def forget(self) -> None:
        """Forget what is known, so that the present change looks for old chunks again."""
        self._known = self._extended = 0

    def extend(self, axis: int, end: int) -> None:
        """Note that there are no old chunks up to an index of an axis; this stays known after the present change."""
        self._axis, self._extended = axis, end

    def end(self, generation: Generation, raw: bytes) -> None:
        """Note the document that the change has stored, and its generation; the next change starts from it."""
        self.generation, self._known = generation, 0
        self.document = raw, generation

    def looked_further(self, generation: Generation | None, axis: int, end: int) -> None:
        """Note that there are none up to `end`, as seen while the document had `generation`, which may have changed."""
        self._further = generation, axis, end
