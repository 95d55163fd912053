"""``zarr.errors``, and errors that are both tegula's and what zarr 1.1 raises, so that programs go on catching them."""

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
    """There is no array, where there has to be one."""


class ExistsError(AlreadyExistsError, ValueError):
    """There is something, where nothing may be."""


class ShapeError(SelectionError, ValueError):
    """Values are of another shape than what they are to be put into."""


class DirectoryError(StoreError, ValueError):
    """The path of a store is not that of a directory."""


class ValueTypeError(StoreError, TypeError):
    """A value has no bytes."""


class ArgumentError(MetadataError, TypeError):
    """An argument is of a kind that can't be used there."""


class NotImplementedHereError(UnsupportedError, NotImplementedError):
    """Something that zarr 1.1 does not have."""
