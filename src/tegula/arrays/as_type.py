"""An array whose elements are converted when they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tegula.errors import MetadataError
from tegula.views import interop

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["AsType"]


class _Chunked(Protocol):
    """What a view needs of an array."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def chunks(self) -> tuple[Any, ...]: ...
    @property
    def shards(self) -> tuple[Any, ...] | None: ...
    def __getitem__(self, selection: Any) -> Any: ...
    def __len__(self) -> int: ...
    def __dask_tokenize__(self) -> tuple[object, ...]: ...


class AsType:
    """An array whose elements are converted when they are read; made by `Array.astype`.

    Examples
    --------
    >>> import numpy as np, tegula
    >>> a = tegula.create_array({}, shape=4, dtype="i2", fill_value=3)
    >>> view = a.astype("f4")
    >>> view[1:3], len(view), np.asarray(view).dtype
    (array([3., 3.], dtype=float32), 4, dtype('float32'))
    """

    def __init__(self, array: _Chunked, dtype: npt.DTypeLike) -> None:
        self._array = array
        try:
            self.dtype: np.dtype[Any] = np.dtype(dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise MetadataError(f"{dtype!r} is not a data type of NumPy: {error}", field="dtype") from error

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._array.size

    @property
    def chunks(self) -> tuple[Any, ...]:
        """Shape of the chunks; see `Array.chunks`."""
        return self._array.chunks

    @property
    def shards(self) -> tuple[Any, ...] | None:
        """Shape of the shards, if there are any; see `Array.shards`."""
        return self._array.shards

    def to_dask(self, chunks: Any = "auto", **options: Any) -> Any:
        """Return a dask array over the view; see `Array.to_dask`."""
        return interop.dask_array(self, self.dtype, chunks, **options)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return (*self._array.__dask_tokenize__(), repr(self.dtype))

    def __getitem__(self, selection: Any) -> Any:
        values = self._array[selection]
        return (
            np.asarray(values).astype(self.dtype, copy=False)[()]
            if np.ndim(values) == 0
            else values.astype(self.dtype, copy=False)
        )

    def __len__(self) -> int:
        return len(self._array)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return interop.as_ndarray(self, dtype, copy)

    def __repr__(self) -> str:
        return f"<tegula.AsType {self.dtype} of {self._array!r}>"
