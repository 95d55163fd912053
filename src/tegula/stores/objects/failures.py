"""Failures of requests to object storage: their kinds, and messages without secrets.

The texts of obstore's errors contain URLs, which may be signed, and answers of servers, which may repeat the request.
No part of them is put into a message: a text is only searched for a status code, and for words that show the kind.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final, Literal, NamedTuple, TypeAlias

from tegula.errors import TegulaError

__all__ = ["Failure", "FailureKind", "Refused", "ShortBody", "failure_of", "failure_of_answer"]

FailureKind: TypeAlias = Literal[
    "missing",  # there is no such object
    "conflict",  # a condition does not hold
    "unchanged",  # the object still has the given generation
    "range",  # a byte range begins at or after the end of the object
    "whole",  # the server returns the whole object when a range is requested
    "throttled",  # too many requests
    "transient",  # may succeed if it is sent again
    "unreachable",  # may succeed if it is sent again, but no server answered
    "refused",  # the same, and no server listens there
    "expired",  # may succeed with new credentials
    "unsupported",  # the storage has no such operation
    "unsized",  # the answer does not say how long it is
    "fatal",
]

_status = re.compile(r"non-2xx status code: (\d{3})").search
_token_request = re.compile(r"Error performing (?:token request|\w+ http://169\.254\.)").search
_expired_token = re.compile(
    r"ExpiredToken|TokenRefreshRequired|RequestExpired|InvalidToken<|Signature not valid in the specified time frame"
).search
_address = re.compile(r"https?://\S+")
_part_of_many = re.compile(r"request failed for key .*?\(code: (\w{1,40})\)\n", re.DOTALL).search
_error_document = re.compile(r"Server returned error response: .*?<Code>([A-Za-z]{1,40})</Code>", re.DOTALL).search

_error_code = re.compile(r"<Code>([A-Za-z]{1,40})</Code>").search

_odd_name = re.compile(r'Path "([^"]+)"').search
_ODD: Final = (
    "there is an object {!r:.200} beside the others, and obstore lists no names with an empty, '.' or '..' segment or "
    "control characters; delete or rename it with another program"
)

_REPORTED: Final[dict[str, FailureKind]] = {
    **dict.fromkeys(("SlowDown", "ServiceUnavailable", "ServerBusy"), "throttled"),
    **dict.fromkeys(("InternalError", "OperationTimedOut", "RequestTimeout"), "transient"),
}
_KINDS: Final[dict[int | None, FailureKind]] = {
    **dict.fromkeys((429, 503), "throttled"),
    **dict.fromkeys((408, 425, 500, 502, 504), "transient"),
    **dict.fromkeys((405, 501), "unsupported"),
    HTTPStatus.UNAUTHORIZED: "expired",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "range",
}
_NAMED: Final[dict[str, tuple[FailureKind, str]]] = {
    "FileNotFoundError": ("missing", "there is no such object"),
    "AlreadyExistsError": ("conflict", "the condition does not hold"),
    "PreconditionError": ("conflict", "the condition does not hold"),
    "NotModifiedError": ("unchanged", "the object is unchanged"),
    "InvalidPathError": (
        "fatal",
        "an object has a name that can't be listed: with an empty, '.' or '..' segment or control characters",
    ),
    "NotImplementedError": ("unsupported", "obstore has no such operation for this storage"),
    "NotSupportedError": ("unsupported", "the storage has no such operation"),
}
_MEANT: Final[dict[int | None, FailureKind]] = {
    HTTPStatus.NOT_MODIFIED: "unchanged",
    HTTPStatus.NOT_FOUND: "missing",
    HTTPStatus.PRECONDITION_FAILED: "conflict",
}
"""What obstore tells by the class of an error; other statuses are those of `_kind_of_status`."""

_NO_CREDENTIALS: Final = (
    "no credentials were found; pass them as options or in the environment, or anonymous=True for public data"
)
_PROFILES: Final = "; profiles in ~/.aws are read if boto3 is installed"
_NO_BUCKET: Final = "there is no such bucket; create it first, or check its name, the region and the endpoint"
_NOT_ALLOWED: Final = (
    "the credentials are wrong or do not allow it, or there are none; public data are read with the option "
    "anonymous=True, and buckets that may not be listed with missing=(403, 404)"
)
_WRONG_CREDENTIALS: Final = "the credentials are wrong"
_EXPIRED: Final = "the credentials have expired; get new ones"
_UNKNOWN_USER: Final = "the credentials are missing, wrong or have expired; {}"
_SIGN: Final = {
    "S3Store": "the options access_key_id and secret_access_key, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "GCSStore": "the option service_account with the path of a key, or set GOOGLE_APPLICATION_CREDENTIALS to it",
    "AzureStore": "the options account_name and account_key, sas_key or token, or set AZURE_STORAGE_ACCOUNT_NAME and "
    "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_KEY or AZURE_STORAGE_TOKEN",
}
"""Credentials for each of obstore's stores, as options and in the environment."""
_SIGN_ON_THE_WEB: Final = (
    "pass user and password in the URL, https://USER:PASSWORD@host/path, or a header authorization in the option "
    "default_headers"
)
_ADVICE: Final = {
    "AccessDenied": _NOT_ALLOWED,
    "AuthorizationFailure": _NOT_ALLOWED,
    "AuthorizationPermissionMismatch": _NOT_ALLOWED,
    "NoAuthenticationInformation": _NOT_ALLOWED,
    "PublicAccessNotPermitted": _NOT_ALLOWED,
    "AuthenticationFailed": "the credentials are wrong or have expired, or the clock of this machine is wrong",
    "ExpiredToken": _EXPIRED,
    "InvalidToken": _WRONG_CREDENTIALS,
    "AuthorizationHeaderMalformed": "check the option region",
    "IllegalLocationConstraintException": "check the option region",
    "InvalidAccessKeyId": _WRONG_CREDENTIALS,
    "PermanentRedirect": "the bucket is elsewhere: check the options region and endpoint",
    "RequestExpired": _EXPIRED,
    "RequestTimeTooSkewed": "the clock of this machine is wrong",
    "SignatureDoesNotMatch": _WRONG_CREDENTIALS,
    "TokenRefreshRequired": _EXPIRED,
}
_BUCKETS: Final = ("NoSuchBucket", "ContainerNotFound", "FilesystemNotFound")
_ARCHIVED: Final = "the object is archived; restore it first"
_BARRED: Final = {
    "BlobArchived": _ARCHIVED,
    "BlobBeingRehydrated": "the object is being restored from the archive; wait until that is done",
    "BlobImmutableDueToPolicy": "a policy of the container forbids changes of the object",
    "ContainerBeingDeleted": "the container is being deleted",
    "InvalidObjectState": _ARCHIVED,
    "LeaseIdMissing": "another program holds a lease on the object",
}
"""Refusals whose status, 403, 409 or 412, would mean wrong credentials or a condition that does not hold."""
_TOO_LATE: Final = (
    "the server did not answer in time; the option timeout says how long a request may take, such as '5m'"
)
_PROVIDER_FAILED: Final = "the credential provider failed"
_WORDS: Final[tuple[tuple[str, FailureKind, str], ...]] = (
    ("StartTooLarge", "range", "the byte range begins after the end"),
    ("Could not parse path", "fatal", "the names of objects can't hold control characters"),
    (
        "InvalidHeaderValue",
        "fatal",
        "a credential or another setting, of the options or the environment, holds a line break or another control "
        "character",
    ),
    ("Content-Length Header missing", "unsized", "the answer does not say how long the value is"),
    ("InvalidListResponse", "transient", "the answer to a listing can't be understood"),
    ("BareRedirect", "fatal", "the server redirects without saying where; check the options region and endpoint"),
    ("error following redirect", "fatal", "the server redirects too often, or to an address that is not valid"),
    ("BadScheme", "fatal", "the endpoint is not https; pass the option allow_http=True"),
    ("ertificate", "fatal", "the certificate of the server is not valid"),
    ("ConnectionRefused", "refused", "the connection was refused"),
    ("dns error", "unreachable", "the name of the server can't be resolved; check the endpoint and the network"),
    ("kind: Timeout", "transient", _TOO_LATE),
    ("TimedOut", "transient", _TOO_LATE),
    ("kind: Connect", "unreachable", "the server can't be reached"),
    ("UnexpectedEof", "transient", "the answer ended too early"),
    ("IncompleteMessage", "transient", "the answer ended too early"),
    ("kind: Interrupted", "transient", "the connection was lost"),
    ("kind: Request", "transient", "the connection failed"),
    ("kind: Decode", "transient", "the answer can't be decoded"),
    ("kind: Unknown", "transient", "the request failed"),
    ("Content-Range", "transient", "the answer has another byte range than the requested one"),
)


class Failure(NamedTuple):
    """The outcome of a request that failed: its kind, which decides what to do about it, and a text without secrets."""

    kind: FailureKind
    reason: str
    status: int | None = None  # the status code of the answer, if there was one

    @property
    def final(self) -> bool:
        """Whether the storage certainly did not carry out the request."""
        return self.kind in ("fatal", "unsupported", "unsized", "expired")


class Refused(Exception):
    """A request that failed in a known way."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class ShortBody(Refused):
    """An answer that is shorter than its headers say, which obstore does not notice for byte ranges."""

    def __init__(self) -> None:
        super().__init__(Failure("transient", "the answer is shorter than its headers say"))


def failure_of(error: BaseException, service: str = "") -> Failure:
    """Return the failure for an exception of obstore.

    Parameters
    ----------
    error : BaseException
        The exception.
    service : str
        The class of the obstore store, if it is known; it decides which credentials the message recommends.

    Raises
    ------
    BaseException
        If it is an interrupt and not an error, or a `TegulaError`, which already says what is wrong.
    """
    if isinstance(error, Refused):
        return error.failure
    # a panic of obstore is not an `Exception`, but should not end the program
    panicked = type(error).__name__ == "PanicException"
    if isinstance(error, TegulaError) or not (panicked or isinstance(error, Exception)):
        raise error
    text = str(error)
    answered = _status(text)
    status = None if answered is None else int(answered[1])
    if _token_request(text):  # the service that issues credentials has failed; this says nothing about the object
        advice = _NO_CREDENTIALS + (_PROFILES if "S3" in text else "")
        return Failure("transient" if _KINDS.get(status) == "transient" else "expired", advice)
    if "credential provider" in text and status is None:
        return Failure("expired", _PROVIDER_FAILED)
    name = type(error).__name__
    code = _error_code(text)
    if status is not None and code is not None and code[1] in _BUCKETS:
        return Failure("fatal", _NO_BUCKET)
    if status is not None and code is not None and code[1] in _BARRED:
        return Failure("fatal", _BARRED[code[1]], status)
    if (name == "GenericError" and "NotPartial" in text) or (name == "NotSupportedError" and "range" in text.lower()):
        return Failure("whole", "the server does not return byte ranges")
    named = _NAMED.get(name)
    odd = _odd_name(text) if name == "InvalidPathError" else None
    if odd is not None:  # obstore can't list a page with such a name
        return Failure("fatal", _ODD.format(odd[1]), status)
    if named is not None and (named[0] != "conflict" or status is None):
        return Failure(*named, status)
    if status is not None:
        advice = _advice(status, code[1] if code else "", service)
        told = f": {advice}" if advice else f" ({code[1]})" if code else ""
        kind = _kind_of_status(status, text) if named is None else named[0]
        return Failure(kind, f"the server answers {_phrase(status)}{told}", status)
    reported = _error_document(text) or _part_of_many(text)
    if reported is not None:
        return _reported(reported[1])
    text = _address.sub("", text)  # a bucket or a key may have any of the words in its name
    for words, kind, reason in _WORDS:
        if words in text:
            return Failure(kind, reason)
    return Failure("fatal", f"obstore raises {type(error).__name__}")


def failure_of_answer(status: int, service: str, body: str = "") -> Failure:
    """Return the failure for an answer that Python's own HTTP client has received; arguments as for `failure_of`."""
    failure = failure_of(OSError(f"Server returned non-2xx status code: {status}: {body}"), service)
    return failure._replace(kind=_MEANT.get(failure.status, failure.kind))


def _reported(code: str) -> Failure:
    """Return the failure for an error that an answer of status 200 reports, by its code or status."""
    if code.isdecimal():
        return Failure(_kind_of_status(int(code), ""), f"the server answers {_phrase(int(code))}")
    return Failure(_REPORTED.get(code, "fatal"), f"the server reports {code}")


def _kind_of_status(status: int, text: str) -> FailureKind:
    if status in (400, 403) and _expired_token(text):
        return "expired"
    if status == HTTPStatus.BAD_REQUEST and "RequestTimeout" in text:  # S3 did not get the body in time
        return "transient"
    return _KINDS.get(status, "fatal")


def _advice(status: int, code: str, service: str) -> str:
    if status == HTTPStatus.UNAUTHORIZED:
        if service == "HTTPStore":
            return _UNKNOWN_USER.format(_SIGN_ON_THE_WEB)
        what = _SIGN.get(service, "credentials as options or in the environment")
        return _UNKNOWN_USER.format(f"pass {what}; public data are read with the option anonymous=True")
    # for example, an answer to HEAD has no code
    return _ADVICE.get(code, _NOT_ALLOWED if status == HTTPStatus.FORBIDDEN else "")


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:  # not a standard code
        return str(status)
