"""Errors for files that can't be read or written, by the operating system's error number."""

from __future__ import annotations

import errno
import os

from tegula.errors import TegulaError
from tegula.tensorstore.errors import StatusError, ValueStatusError, as_status, quoted, status
from tegula.tensorstore.kvstore.paths import invalid_key

__all__ = ["NotDirectoryError", "file_error"]

_CODES = {
    errno.ENOENT: "NOT_FOUND",
    errno.EEXIST: "ALREADY_EXISTS",
    errno.EACCES: "PERMISSION_DENIED",
    errno.EPERM: "PERMISSION_DENIED",
    errno.EROFS: "PERMISSION_DENIED",
    errno.ENOSPC: "RESOURCE_EXHAUSTED",
    errno.EDQUOT: "RESOURCE_EXHAUSTED",
    errno.EMFILE: "RESOURCE_EXHAUSTED",
    errno.ENFILE: "RESOURCE_EXHAUSTED",
    errno.ENOMEM: "RESOURCE_EXHAUSTED",
    errno.EINVAL: "INVALID_ARGUMENT",
    errno.EINTR: "UNAVAILABLE",
    errno.EAGAIN: "UNAVAILABLE",
    errno.ENAMETOOLONG: "FAILED_PRECONDITION",
    errno.EISDIR: "FAILED_PRECONDITION",
    errno.ENOTDIR: "FAILED_PRECONDITION",
    errno.ENOTEMPTY: "FAILED_PRECONDITION",
}


class NotDirectoryError(ValueStatusError):
    """An error for a file in place of the directory of a store.

    Parameters
    ----------
    root : str
        Its path.
    """

    def __init__(self, root: str) -> None:
        super().__init__("FAILED_PRECONDITION", f"Failed to open directory: {quoted(root)}: Not a directory")
        self.root = root

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.root,)


def file_error(error: TegulaError, path: str) -> StatusError:
    """Convert a store's error about a file to a status; `path` is the full path of the file."""
    cause = error.__cause__
    if not isinstance(cause, OSError):
        return as_status(error) if error.key is None or cause is not None else invalid_key(path)
    if isinstance(cause, (NotADirectoryError, FileExistsError)):
        return status(
            "FAILED_PRECONDITION", f"Failed to open directory: {quoted(_no_directory(path))}: Not a directory"
        )
    if isinstance(cause, IsADirectoryError):
        return status("FAILED_PRECONDITION", f"Failed to rename to: {quoted(path)}: Is a directory")
    code = _CODES.get(cause.errno or 0, "UNKNOWN")
    return status(code, f"Failed to open: {quoted(path)}: {cause.strerror or cause}")


def _no_directory(path: str) -> str:
    """Return the first part of a path that is not a directory."""
    above = path
    while above and not os.path.lexists(above):
        above = os.path.dirname(above)
    return above if above != path else os.path.dirname(path)
