"""Arrays that are opened when their elements are needed: the members of stored views."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tegula import engine
from tegula.errors import MetadataError
from tegula.indexing import Transform
from tegula.metadata.data_types import as_data_type
from tegula.views.base import Base
from tegula.views.view import View

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tegula.engine import Future
    from tegula.metadata.data_types import DataType
    from tegula.stores import Store

__all__ = ["Deferred"]


class Deferred:
    """An array that is opened at its first use, as the base of views; see `tegula.views.base.Base`.

    Parameters
    ----------
    open : callable
        Opens the array; it can be pickled.
    location : str
        Where the array is.
    ndim : int
        Its number of axes.
    dtype : dtype
        Its data type.
    concurrency : int
        How many reads may be under way at once.
    read_only : bool
        Whether it is opened for reading only.
    """

    names = None

    def __init__(
        self, open: Callable[[], Any], location: str, ndim: int, dtype: np.dtype[Any], concurrency: int, read_only: bool
    ) -> None:
        self._arguments = open, location, ndim, dtype, concurrency, read_only
        self._open, self.location, self._ndim, self.dtype, self.concurrency, self.read_only = self._arguments
        self._opened: View | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Deferred, self._arguments

    def __repr__(self) -> str:
        return f"<an array at {self.location!r}>"

    def _array(self) -> Base:
        """Return the base of the array, opened if it was not yet.

        Raises
        ------
        MetadataError
            If it is another array than the document of the view says.
        """
        with self._lock:
            if self._opened is None:
                view: View = self._open().lazy
                if view.ndim != self._ndim or view.dtype.newbyteorder("=") != self.dtype.newbyteorder("="):
                    raise MetadataError(
                        f"the array has {view.ndim} dimensions and the data type {view.dtype}, not {self._ndim} and "
                        f"{self.dtype} as the document of the view says",
                        path=self.location,
                    )
                self._opened = view
        return self._opened._base

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array().shape

    @property
    def node(self) -> tuple[Store, str, str]:
        return self._array().node

    @property
    def missing_chunks(self) -> str | None:
        return self._array().missing_chunks

    @property
    def data_type(self) -> DataType:
        return as_data_type(self.dtype)

    @property
    def fill(self) -> npt.NDArray[Any] | None:
        return None  # the array need not be opened for it

    @property
    def chunks(self) -> tuple[int | None, ...]:
        return (None,) * self._ndim if self._opened is None else self._opened._base.chunks

    @property
    def parts(self) -> tuple[int, ...]:
        return self._array().parts

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self._array().attrs

    @property
    def attributes(self) -> Mapping[str, Any]:
        return self._array().attributes

    def read(self, transform: Transform, field: Any, out: Any, *, is_point: bool) -> Any:
        return self._array().read(self._placed(transform), field, out, is_point=is_point)

    def write(self, transform: Transform, field: Any, values: Any) -> None:
        self._array().write(self._placed(transform), field, values)

    def _placed(self, transform: Transform) -> Transform:
        """Return a transform with the shape of the array, which has to have its elements."""
        shape = self._array().shape
        transform.check(shape)
        return Transform(transform.shape, transform.maps, shape, transform.names)

    def start(self, act: Callable[..., Any], *arguments: Any) -> Future[Any]:
        if self._opened is None:
            return engine.start_alone(act, *arguments, requests=self.concurrency)
        return self._opened._base.start(act, *arguments)

    def token(self) -> tuple[object, ...]:
        return self._array().token()
