"""``zarr.errors``, and errors with the classes of tegula and zarr 1.1 at once, so that ``except`` keeps working."""

from __future__ import annotations

from tegula.errors import (
    AlreadyExistsError,
    MetadataError,
    NotFoundError,
    ReadOnlyError,
    SelectionError,
    StoreError,
    UnsupportedError,
)

__all__ = ["MetadataError", "ReadOnlyError"]


class MissingError(NotFoundError, ValueError):
    """There is no array in the store."""


class ExistsError(AlreadyExistsError, ValueError):
    """The store is not empty, or an array already exists."""


class ShapeError(SelectionError, ValueError):
    """Values have another shape than the selection, or do not fit the array that they are appended to."""


class DirectoryError(StoreError, ValueError):
    """The path of a store is not a directory."""


class ValueTypeError(StoreError, TypeError):
    """A value is not bytes."""


class ArgumentError(MetadataError, TypeError):
    """An argument has the wrong type."""


class NotImplementedHereError(UnsupportedError, NotImplementedError):
    """zarr 1.1 does not support the selection."""
