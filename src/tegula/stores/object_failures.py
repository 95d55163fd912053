"""Failures of requests to object storage: what kind they are, and how to say so without a secret.

The texts of obstore's errors hold URLs, which may be signed, and answers of servers, which may repeat what was sent.
Nothing of them gets into a message: a text is searched for a status code and for a few words that tell the kind.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final, Literal, NamedTuple, TypeAlias

from tegula.errors import TegulaError

__all__ = ["Failure", "FailureKind", "failure_of"]

FailureKind: TypeAlias = Literal[
    "missing",  # there is no such object
    "conflict",  # a condition does not hold
    "unchanged",  # the object has the generation that was asked for
    "range",  # a byte range begins behind the end of the object
    "whole",  # the server answers with the whole object where a range was asked for
    "throttled",  # too many requests; try again later
    "transient",  # may go better next time
    "fatal",  # will not
]

_STATUS = re.compile(r"non-2xx status code: (\d{3})|status: (\d{3}),").search
_KINDS: Final[dict[str, FailureKind]] = {
    "FileNotFoundError": "missing",
    "NotFoundError": "missing",
    "AlreadyExistsError": "conflict",
    "PreconditionError": "conflict",
    "NotModifiedError": "unchanged",
}
_THROTTLED: Final = (429, 503)
_TRANSIENT: Final = (401, 408, 425, 500, 502, 504)  # 401: credentials may have expired, and are asked for again
_WORDS: Final[tuple[tuple[str, FailureKind, str], ...]] = (
    ("StartTooLarge", "range", "the byte range begins behind the end"),
    ("Received non-partial response", "whole", "the server does not answer with byte ranges"),
    ("BareRedirect", "fatal", "the server redirects nowhere, as it does if the region is wrong"),
    ("ConnectionRefused", "transient", "the connection was refused"),
    ("dns error", "transient", "the name of the server can't be resolved"),
    ("InvalidCertificate", "fatal", "the server's certificate is not valid"),
    ("URL scheme is not allowed", "fatal", "the endpoint is not https; pass allow_http=True to allow that"),
    ("kind: Timeout", "transient", "the server did not answer in time"),
    ("kind: Connect", "transient", "the server can't be reached"),
    ("UnexpectedEof", "transient", "the answer ended too early"),
    ("kind: Interrupted", "transient", "the connection was lost"),
    ("kind: Request", "transient", "the connection failed"),
    ("kind: Decode", "transient", "the answer can't be read"),
    ("kind: Unknown", "transient", "the request failed"),
    ("169.254.169.254", "fatal", "no credentials were found; pass them, or skip_signature=True for public data"),
    ("MissingAccount", "fatal", "the account is not known; pass account_name"),
)


class Failure(NamedTuple):
    """What became of a request that failed.

    Attributes
    ----------
    kind : FailureKind
        What to do about it.
    reason : str
        What to tell about it; holds no secret.
    status : int or None
        The status code of the answer, if there was one.
    """

    kind: FailureKind
    reason: str
    status: int | None = None


def failure_of(error: Exception) -> Failure:
    """Return what kind of failure an exception of obstore is.

    Examples
    --------
    >>> failure_of(FileNotFoundError("Object at location a/secret not found"))
    Failure(kind='missing', reason='there is no such object', status=None)
    >>> failure_of(OSError("Server returned non-2xx status code: 503 Service Unavailable: secret")).reason
    'the server answers 503 Service Unavailable'
    """
    text = str(error)
    found = _STATUS(text)
    status = None if found is None else int(found[1] or found[2])
    kind = _KINDS.get(type(error).__name__)
    if kind is not None:
        return Failure(kind, "there is no such object" if kind == "missing" else _answer(status), status)
    if isinstance(error, TegulaError):  # of a store that can't be made in this process
        raise error
    if status is not None:
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return Failure("range", _answer(status), status)
        kind = "throttled" if status in _THROTTLED else "transient" if status in _TRANSIENT else "fatal"
        return Failure(kind, _answer(status), status)
    for words, kind, reason in _WORDS:
        if words in text:
            return Failure(kind, reason)
    return Failure("fatal", f"obstore raises {type(error).__name__}")


def _answer(status: int | None) -> str:
    if status is None:
        return "the server refuses"
    try:
        return f"the server answers {status} {HTTPStatus(status).phrase}"
    except ValueError:  # a code that no standard has
        return f"the server answers {status}"
