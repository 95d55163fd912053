"""Errors that are both tegula's and those of bcolz: ``except`` clauses of programs written for bcolz keep working."""

from __future__ import annotations

from tegula.errors import AlreadyExistsError, MetadataError, NotFoundError, ReadOnlyError, UnsupportedError

__all__ = ["ExistsError", "KindError", "MissingError", "ModeError", "NotImplementedHereError", "NotInstalledError"]


class ModeError(ReadOnlyError, OSError):
    """An object that was opened with mode ``'r'`` can't be changed."""


class ExistsError(AlreadyExistsError, FileExistsError):
    """The directory already exists, and the mode is not ``'w'``."""


class MissingError(NotFoundError, FileNotFoundError):
    """The directory does not hold a carray or ctable."""


class KindError(MetadataError, TypeError):
    """An argument has the wrong type, or a data type is not supported."""


class NotImplementedHereError(UnsupportedError, NotImplementedError):
    """bcolz does not have this kind of selection or iteration."""


class NotInstalledError(UnsupportedError, ImportError):
    """A library that an argument requires is not installed."""
