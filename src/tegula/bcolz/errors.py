"""Errors that are both tegula's and what bcolz raises, so that programs written for bcolz go on catching them."""

from __future__ import annotations

from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, ReadOnlyError, UnsupportedError

__all__ = ["ExistsError", "KindError", "MissingError", "ModeError", "NotImplementedHereError", "NotInstalledError"]


class ModeError(ReadOnlyError, OSError):
    """The object was opened or made with mode ``'r'``."""


class ExistsError(AlreadyExistsError, FileExistsError):
    """The directory is there already, and the mode is not ``'w'``."""


class MissingError(NotFoundError, FileNotFoundError):
    """There is no such object in the directory."""


class KindError(MetadataError, TypeError):
    """An argument or a data type is of a kind that can't be used there."""


class NotImplementedHereError(UnsupportedError, NotImplementedError):
    """A selection or an iteration that bcolz does not have."""


class NotInstalledError(UnsupportedError, ImportError):
    """A library that is asked for is not installed."""
