"""Tokens: text that says which rows of which node have been read, to go on after them in another process."""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tegula.errors import MetadataError

__all__ = ["Token", "digest", "digest_of_row"]

_BYTES: Final = 16
_FORM: Final = struct.Struct(f">BQ{_BYTES}s{_BYTES}s{_BYTES}s")
_VERSION: Final = 1
_CHECK: Final = 8
_LENGTH: Final = len(base64.urlsafe_b64encode(b"\0" * (_FORM.size + _CHECK)).rstrip(b"="))
_UNKNOWN: Final = b"\0" * _BYTES


class Token(NamedTuple):
    """What a token says.

    Its text has one form and one length, so nothing of it is parsed before it is known to be whole. It is no secret
    and proves nothing: whoever changes it can do no more than name another row.

    Attributes
    ----------
    row : int
        The row to go on with.
    kind : bytes
        A digest of what rows are: the format, the names of columns, data types and shapes.
    node : bytes
        A digest of the directories that hold the node; zeros where there are none.
    last : bytes
        A digest of the row before; zeros if there is none.

    Examples
    --------
    >>> token = Token(5, digest("i4"), digest("12:34"), digest("7"))
    >>> Token.parse(str(token)) == token, len(str(token))
    (True, 87)
    """

    row: int
    kind: bytes
    node: bytes = _UNKNOWN
    last: bytes = _UNKNOWN

    def __str__(self) -> str:
        raw = _FORM.pack(_VERSION, self.row, self.kind, self.node, self.last)
        return base64.urlsafe_b64encode(raw + blake2b(raw, digest_size=_CHECK).digest()).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: object) -> Self:
        """Read a token.

        Raises
        ------
        MetadataError
            If it is not valid.
        """
        if not isinstance(text, str):
            raise MetadataError(f"a token is text, not a {type(text).__name__}", field="token")
        if len(text) == _LENGTH and re.fullmatch("[A-Za-z0-9_-]+", text):
            try:
                whole = base64.urlsafe_b64decode(text + "=" * (-_LENGTH % 4))
            except binascii.Error:
                whole = b""
            raw, check = whole[: _FORM.size], whole[_FORM.size :]
            if len(raw) == _FORM.size and check == blake2b(raw, digest_size=_CHECK).digest():
                version, row, *digests = _FORM.unpack(raw)
                if version == _VERSION and row < 2**63:
                    return cls(row, *digests)
        raise MetadataError(f"{text[:20]!r} is not a token of this version, or not all of it", field="token")

    def is_known(self, name: str) -> bool:
        """Return whether a digest is given."""
        return bool(getattr(self, name) != _UNKNOWN)


def digest(*parts: str | bytes) -> bytes:
    """Return a digest of several parts, which no other division of the same bytes has."""
    total = blake2b(digest_size=_BYTES)
    for part in parts:
        raw = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        total.update(len(raw).to_bytes(8, "big"))
        total.update(raw)
    return total.digest()


def digest_of_row(columns: list[npt.NDArray[Any]]) -> bytes:
    """Return a digest of the last row of some columns.

    Examples
    --------
    >>> digest_of_row([np.array([1, 2])]) == digest_of_row([np.array([7, 9, 2])]) != digest_of_row([np.array([2, 1])])
    True
    """
    return digest(*(_bytes_of(column[-1:]) for column in columns))


def _bytes_of(row: npt.NDArray[Any]) -> bytes:
    if row.dtype.names is not None:
        return digest(*(_bytes_of(row[name]) for name in row.dtype.names))
    if row.dtype.hasobject:
        return digest(*(part if isinstance(part, bytes) else json.dumps(repr(part)) for part in row.flat))
    return np.ascontiguousarray(row).tobytes()
