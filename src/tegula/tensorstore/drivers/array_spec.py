"""Specs of stored arrays with a ``metadata`` member, and the rules for opening or creating the array."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

from tegula.errors import AlreadyExistsError
from tegula.tensorstore.constraints.dtypes import dtype
from tegula.tensorstore.drivers.metadata import Metadata
from tegula.tensorstore.drivers.stored import StoredSpec
from tegula.tensorstore.errors import StatusError, annotate, status
from tegula.tensorstore.kvstore.kvstore import KvStore
from tegula.tensorstore.spec.interface import Driver, Opening, OpenMode

__all__ = ["ArraySpec", "path_of"]


class ArraySpec(StoredSpec):
    """A spec of a stored array.

    Attributes
    ----------
    constraints
        The ``metadata`` member.
    field : str
        Name of the field or column to show; empty if there is only one.
    """

    anything: ClassVar[Metadata] = Metadata()
    """Constraints that any array meets."""

    constraints: Metadata
    field: str = ""

    def __init__(self) -> None:
        super().__init__()
        self.constraints = self.anything

    @property
    @abstractmethod
    def key(self) -> str:
        """Key of the array's metadata document, relative to the path."""

    @abstractmethod
    def open_existing(self, kvstore: KvStore, flags: OpenMode) -> Driver | None:
        """Open the stored array; None if there is none. Raise if the flags do not allow opening it."""

    @abstractmethod
    def create(self, kvstore: KvStore, *, overwrite: bool) -> Driver:
        """Create the array; with `overwrite`, first delete everything at its path.

        Raises
        ------
        AlreadyExistsError
            If anything is stored there and `overwrite` is false.
        """

    def open(self, request: Opening) -> Driver:
        flags = self.checked_flags(request)
        kvstore = self.opened_kvstore(request)
        driver = self.open_or_create(kvstore, flags)
        driver.mode = request.mode
        return driver

    def open_or_create(self, kvstore: KvStore, flags: OpenMode) -> Driver:
        """Open the array or create it, as the flags allow."""
        driver = None if flags.delete_existing else self.open_existing(kvstore, flags)
        if driver is not None:
            return driver
        if not flags.create:
            raise status("NOT_FOUND", f"Metadata at {self.shown_key(kvstore)} does not exist")
        try:
            return self.create(kvstore, overwrite=flags.delete_existing)
        except AlreadyExistsError as error:
            driver = self.open_existing(kvstore, flags)  # another process has created the array
            if driver is not None:
                return driver
            text = error.message.replace("overwrite=True", "delete_existing=True")
            raise annotate(status("ALREADY_EXISTS", text), f"Error writing {self.shown_key(kvstore)}") from None

    def already_exists_error(self, kvstore: KvStore) -> StatusError:
        """Return the error for an array that must not be opened."""
        return status("ALREADY_EXISTS", f"Error writing {self.shown_key(kvstore)}")

    def undetermined_error(self, error: BaseException) -> StatusError:
        """Return the error for a spec that does not determine an array."""
        return annotate(error, 'Cannot create using specified "metadata" and schema')

    def write_error(self, kvstore: KvStore, error: BaseException) -> StatusError:
        """Return the error for an array that cannot be created."""
        return annotate(error, f"Error writing {self.shown_key(kvstore)}")

    def shown_key(self, kvstore: KvStore) -> str:
        """Return the document's key for messages."""
        return kvstore._describe_key(self.key)

    # --- other specs

    def merge(self, *, minimal: bool = False, **options: Any) -> Self:
        other = super().merge(minimal=minimal, **options)
        if minimal:
            other.constraints = self.anything
        return other

    def described(self, members: dict[str, Any], data_type: dtype) -> Self:
        other = super().described(members, data_type)
        other.constraints = members.get("metadata", self.anything)
        other.field = members.get("field", self.field)
        return other


def path_of(kvstore: KvStore) -> str:
    """Return the path of the node whose keys start with the path of a key-value store."""
    return kvstore._path.removesuffix("/")
