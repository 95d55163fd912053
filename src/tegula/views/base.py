"""What a view needs of the arrays below it: stored arrays, and arrays made of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tegula.engine import Future
    from tegula.indexing import Transform
    from tegula.metadata.data_types import DataType
    from tegula.stores import Store

__all__ = ["Base"]


class Base(Protocol):
    """An array whose elements a `Transform` selects."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements."""

    @property
    def node(self) -> tuple[Store, str, str]:
        """The store, path and format of a stored array."""

    @property
    def data_type(self) -> DataType:
        """Data type of the elements, those of variable length included."""

    @property
    def fill(self) -> npt.NDArray[Any] | None:
        """Value of elements that were never written; ``None`` where it is undefined."""

    @property
    def chunks(self) -> tuple[int | None, ...]:
        """Length of the chunks along each axis; ``None`` where they vary."""

    @property
    def parts(self) -> tuple[int, ...]:
        """Lengths to divide the axes by, so that a part lies in few chunks; at least 1."""

    @property
    def names(self) -> tuple[str | None, ...] | None:
        """Names of the axes, if there are any."""

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes."""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes as Zarr v3 has them, with the value that marks missing elements."""

    @property
    def location(self) -> str:
        """Where the elements are, for errors."""

    @property
    def missing_chunks(self) -> str | None:
        """What reads of chunks that are not stored give; see `tegula.Array.missing_chunks`."""

    @property
    def read_only(self) -> bool:
        """Whether writing raises `ReadOnlyError`."""

    @property
    def concurrency(self) -> int:
        """How many reads may be under way at once; 0 if they take turns."""

    def read(self, transform: Transform, field: Any, out: Any, *, is_point: bool) -> Any:
        """Return the elements of a view, or `out` with the elements.

        Parameters
        ----------
        transform : Transform
            The elements.
        field : str, list of str or None
            The fields of records to read.
        out : object or None
            Memory that receives the elements.
        is_point : bool
            Whether a view without axes is read as an element, and not as an array.
        """

    def write(self, transform: Transform, field: Any, values: Any) -> None:
        """Write the elements of a view."""

    def start(self, act: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Call a function in the background."""

    def token(self) -> tuple[object, ...]:
        """Return what dask tells this array from others by."""
