"""`KvStore.Spec`: the description of a key-value store as JSON or URL, bound to a context or not; paths of stores."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from posixpath import normpath
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

from tegula.errors import TegulaError
from tegula.runtime.frozen import attribute
from tegula.stores import Store
from tegula.stores.names import path_in_url
from tegula.stores.targets.paths import pipeline_of
from tegula.tensorstore.context import Bindings, Context, SpecBuilder
from tegula.tensorstore.errors import (
    StatusError,
    ValueStatusError,
    as_status,
    checked,
    invalid,
    stating,
    status,
    unhashable,
)
from tegula.tensorstore.json import (
    MISSING,
    MemberTable,
    array_of,
    boolean,
    dump,
    key_bytes,
    key_text,
    known_only,
    obj,
    one_of,
    optional,
    pretty,
    read_member,
    sound_text,
    string,
    take,
    take_members,
    to_json_value,
    with_defaults,
)

__all__ = [
    "GCS", "HTTP", "S3", "KvStoreSpec", "NotDirectoryError", "check_file_key", "file_path", "join_paths", "key_name",
    "pipeline", "spec_of_pipeline", "split_directory", "store_error",
]  # fmt: skip


_CODES = {
    "NOT_FOUND": (errno.ENOENT,),
    "PERMISSION_DENIED": (errno.EACCES, errno.EPERM, errno.EROFS),
    "RESOURCE_EXHAUSTED": (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    "INVALID_ARGUMENT": (errno.EINVAL,),
    "UNAVAILABLE": (errno.EINTR, errno.EAGAIN),
    "FAILED_PRECONDITION": (errno.ENAMETOOLONG, errno.ENOTEMPTY),
}


class NotDirectoryError(ValueStatusError):
    """An error for a file in place of the directory of a store."""

    def __init__(self, root: str) -> None:
        super().__init__("FAILED_PRECONDITION", f"{dump(root)} is not a directory")
        self.root = root

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.root,)


def store_error(error: TegulaError, store: Store, key: str) -> StatusError:
    """Convert a store's error about a key to a status."""
    cause = error.__cause__
    if store.local_directory is None:
        return as_status(error)
    if not isinstance(cause, OSError):
        is_invalid = error.key is not None and cause is None
        return invalid(f"Invalid key: {dump(_full_path(store, key))}") if is_invalid else as_status(error)
    code = next((code for code, numbers in _CODES.items() if cause.errno in numbers), "UNKNOWN")
    if isinstance(cause, (FileExistsError, IsADirectoryError, NotADirectoryError)):  # even without a number
        code = "FAILED_PRECONDITION"
    return status(code, f"{dump(_full_path(store, key))}: {cause.strerror or cause}")


_LOCK_SUFFIX = ".__lock"
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})").search


def key_name(store: Store, key: str) -> str:
    """Return the name of a store's key for messages."""
    return dump(key) if store.local_directory is None else f"local file {dump(_full_path(store, key))}"


def _full_path(store: Store, key: str) -> str:
    return f"{file_path(store.local_directory or '').rstrip('/')}/{key}"


def decode_url_path(text: str) -> str:
    """Return the path from the path component of a URL."""
    wrong = _BAD_PERCENT(text)
    if wrong:
        raise invalid(f"Invalid percent-encoding at position {-wrong.start()}: {dump(text)}")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise invalid(f"Invalid UTF-8 percent-encoding sequence: {dump(text)}") from None


def file_path(path: str, *, of_url: bool = False, system: str = os.name) -> str:
    """Return a file path as TensorStore keeps it: on Windows with slashes, and no slash of a URL before a drive."""
    if system == "nt":
        path = path.replace("\\", "/")
    return path_in_url(path, system) if of_url else path


def check_file_path(path: str) -> str:
    """Return the path of a file or directory, or a prefix of such paths, if it is valid."""
    inner = path.removeprefix("/").split("/")
    if inner[-1] == "":
        inner.pop()
    if "\0" in path or not {"", ".", ".."}.isdisjoint(inner):
        raise invalid(f"Invalid file path: {dump(path)}")
    return path


def check_file_key(path: str) -> str:
    """Return the full path of a key if it is valid as a file path."""
    segments = path.removeprefix("/").split("/")
    if "\0" in path or any(part in ("", ".", "..") or part.endswith(_LOCK_SUFFIX) for part in segments):
        raise invalid(f"Invalid key: {dump(path)}")
    return path


def split_directory(path: str, system: str = os.name) -> tuple[str, str]:
    """Split a path into a directory and the rest: a prefix of names in it, or an empty string."""
    above, slash, name = path.rpartition("/")
    if system == "nt" and above[-1:] == ":":  # without the slash it would be the current directory of the drive
        above += slash
    return above or (slash or "."), name


@dataclass(frozen=True)
class Kind:
    """One kind of key-value store."""

    name: str  # of its driver
    scheme: str  # of its URLs
    resources: tuple[str, ...]
    members: MemberTable = field(default_factory=dict)
    adapter: bool = False  # whether a value of another store contains it

    def __reduce__(self) -> tuple[Any, ...]:
        return _kind_named, (self.name,)


def _kind_named(name: str) -> Kind:
    return KINDS[name]


_BUCKET: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{1,220})[a-z0-9]").fullmatch


def _bucket(service: str, value: Any) -> str:
    name = string(value)
    if not _BUCKET(name) or ".." in name:
        raise invalid(f"Invalid {service} bucket name: {dump(name)}")
    return name


def _base_url(value: Any) -> str:
    parts = urlsplit(string(value))
    if parts.scheme not in ("http", "https"):
        raise invalid(f'Expected scheme of "http" or "https" but received: {dump(parts.scheme)}')
    if parts.fragment:
        raise invalid("Fragment identifier not supported")
    return str(value)


_MEMORY = Kind("memory", "memory://", ("memory_key_value_store",), {"atomic": (boolean, True)})
FILE: Final = Kind(
    "file", "file://", ("file_io_concurrency", "file_io_locking", "file_io_mode", "file_io_retries", "file_io_sync")
)
ZIP: Final = Kind(
    "zip",
    "zip:",
    ("cache_pool", "data_copy_concurrency"),
    {"compression": (partial(one_of, names=("store", "deflate", "zstd", "xz")), "deflate")},
    adapter=True,
)
S3: Final = Kind(
    "s3",
    "s3://",
    ("aws_credentials", "data_copy_concurrency", "s3_request_concurrency", "s3_request_retries"),
    {
        "bucket": (partial(_bucket, "S3"), MISSING),
        "requester_pays": (boolean, False),
        "endpoint": (optional(string), None),
        "host_header": (optional(string), None),
        "aws_region": (string, ""),
        "use_conditional_write": (optional(boolean), None),
    },
)
GCS: Final = Kind(
    "gcs",
    "gs://",
    ("data_copy_concurrency", "gcs_request_concurrency", "gcs_request_retries", "gcs_user_project"),
    {"bucket": (partial(_bucket, "GCS"), MISSING)},
)
HTTP: Final = Kind(
    "http",
    "http://",
    ("data_copy_concurrency", "http_request_concurrency", "http_request_retries"),
    {"base_url": (_base_url, MISSING), "headers": (lambda value: array_of(value, string), [])},
)
KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (_MEMORY, FILE, ZIP, S3, GCS, HTTP)}
SCHEMES: Final[dict[str, Kind]] = {**{kind.scheme.partition(":")[0]: kind for kind in KINDS.values()}, "https": HTTP}
"""The kinds by URL scheme."""


def with_base_path(kind: Kind, members: dict[str, Any], path: str) -> str:
    """Check that the members of a remote store are compatible; move the path of a base URL into the returned path."""
    if members.get("host_header") is not None and members.get("endpoint") is None:
        raise invalid('"host_header" cannot be set without also setting "endpoint"')
    if kind is not HTTP:
        return path
    parts = urlsplit(members["base_url"])
    if path.startswith("/") and parts.path not in ("", "/"):
        raise invalid(f"the absolute path {dump(path)} does not fit the base URL {dump(members['base_url'])}")
    members["base_url"] = parts._replace(path="").geturl()
    if not parts.path or path.startswith("/"):
        return path
    return decode_url_path(parts.path if not path or parts.path.endswith("/") else f"{parts.path}/") + path


def location_of_url(kind: Kind, url: str) -> tuple[dict[str, Any], str]:
    """Return the members and the path for the URL of a store."""
    scheme = f"{url.partition('://')[0]}://" if kind is HTTP else kind.scheme
    if not url.startswith(scheme):
        raise invalid(f'Scheme "{scheme}" not present in url')
    location, _, fragment = url.removeprefix(scheme).partition("#")
    location, mark, query = location.partition("?")
    if mark and kind is not HTTP:
        raise invalid("Query string not supported")
    if fragment:
        raise invalid("Fragment identifier not supported")
    authority, slash, tail = location.partition("/")
    if kind is HTTP:
        return {"base_url": _base_url(f"{scheme}{authority}{mark}{query}")}, slash + decode_url_path(tail)
    if kind in _REMOTE:
        return {"bucket": _bucket(kind.name.upper(), authority)}, decode_url_path(tail)
    if kind is not FILE:
        return {}, decode_url_path(location)
    if authority not in ("", "localhost"):
        raise invalid(f"file: URIs do not support authority: {dump(authority)}")
    path = decode_url_path(slash + tail)
    if not path:
        raise invalid('file: URIs do not support relative paths: ""')
    path = file_path(path, of_url=True)
    normal = normpath(path)
    return {}, check_file_path(normal + "/" if path.endswith("/") and normal != "/" else normal)


def url_of(kind: Kind, members: Mapping[str, Any], path: str) -> str:
    """Return the URL of a store, without that of its base; the inverse of `location_of_url`."""
    encoded = quote(key_bytes(path), safe="/!$&'()*+,;:=~")
    if kind is HTTP:
        address, mark, query = members["base_url"].partition("?")
        slash = "/" if path and not path.startswith("/") else ""
        return f"{address}{slash}{encoded}{mark}{query}"
    if kind is FILE and not path.startswith("/"):
        if file_path(f"/{path}", of_url=True) != path:  # it has no drive
            raise invalid(f"file: URIs do not support relative paths: {dump(path)}")
        encoded = f"/{encoded}"
    if members.get("endpoint") is not None:
        raise status("UNIMPLEMENTED", "S3 URL syntax not supported with explicit endpoint")
    bucket = f"{members['bucket']}/" if kind in _REMOTE else ""
    return f"{kind.scheme}{bucket}{encoded}"


_REMOTE: Final = (S3, GCS, HTTP)
_PARTS: Final = ("_base", "_bindings", "_kind", "_options", "_path")


class KvStoreSpec:
    """The description of a key-value store, given as JSON or URL, and the path that is the prefix of its keys.

    Examples
    --------
    >>> spec = KvStoreSpec({"driver": "memory", "path": "a"})
    >>> spec / "b"
    KvStore.Spec({'driver': 'memory', 'path': 'a/b'})
    >>> (spec + "b").url
    'memory://ab'
    >>> KvStoreSpec("file:///tmp/a.zip|zip:b").base
    KvStore.Spec({'driver': 'file', 'path': '/tmp/a.zip'})
    """

    __slots__ = ("__weakref__", *_PARTS)
    __hash__ = unhashable

    _kind: Kind
    _path: str
    _options: dict[str, Any]
    _bindings: Bindings
    _base: KvStoreSpec | None

    def __init__(self, json: Any) -> None:
        if isinstance(json, (KvStoreSpec, str)):
            source = _of_url(json) if isinstance(json, str) else json
            for name in _PARTS:
                setattr(self, name, getattr(source, name))
        else:
            self._read(obj(to_json_value(json)))

    def _read(self, members: dict[str, Any]) -> None:
        kind = self._kind = KINDS[read_member(members, "driver", partial(one_of, names=tuple(KINDS)))]
        self._bindings = Bindings(kind.resources)
        self._bindings.take(members)
        self._path = take(members, "path", lambda value: key_text(string(value)), "")
        if kind is FILE:
            self._path = file_path(self._path)
        self._options = take_members(members, kind.members)
        if kind in _REMOTE:
            self._path = with_base_path(kind, self._options, self._path)
        if kind.adapter:
            members.setdefault("base")  # null is refused
        self._base = take(members, "base", KvStoreSpec) if kind.adapter else None
        known_only(members)
        if kind is FILE:
            check_file_path(self._path)

    _driver: str = attribute("_kind.name", "The driver name.")

    @property
    def path(self) -> str:
        """The prefix of all keys."""
        return self._path if self._path.isascii() else key_bytes(self._path).decode()

    # --- properties

    @path.setter
    def path(self, path: str | bytes) -> None:
        self._path = key_text(path)

    @property
    def base(self) -> KvStoreSpec | None:
        """The spec of the underlying store of an adapter such as ``zip``; ``None`` for other stores."""
        return None if self._base is None else self._base.copy()

    @property
    def url(self) -> str:
        """The URL; raises ValueError if there is none, as for relative file paths."""
        before = "" if self._base is None else f"{self._base.url}|"
        return before + url_of(self._kind, self._options, self._path)

    def _option(self, name: str) -> Any:
        """Return a member's value, or its default."""
        return self._options.get(name, self._kind.members[name][1])

    def _setting(self, name: str) -> Any:
        """Return the value of a resource of a bound spec."""
        return self._bindings.value(name)

    def to_json(self, include_defaults: bool = False) -> Any:
        """Return the JSON representation, if wanted with the members that have their default value."""
        key_bytes(self._path).decode()  # JSON is text
        return (builder := SpecBuilder()).finish(self._build(builder, include_defaults))

    def _build(self, builder: SpecBuilder, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON as part of a spec; `builder` finishes its resources."""
        json: dict[str, Any] = {"driver": self._kind.name}
        if self._base is not None:
            json["base"] = self._base._build(builder, include_defaults)
        self._bindings.write(json, builder, include_defaults)
        json |= with_defaults(self._options, self._kind.members) if include_defaults else self._options
        if self._path or include_defaults:
            json["path"] = self._path
        return dict(sorted(json.items()))

    # --- derived specs

    def copy(self) -> KvStoreSpec:
        """Return a copy."""
        return self._with()

    __copy__ = copy

    def _with(self, **parts: Any) -> KvStoreSpec:
        other: KvStoreSpec = object.__new__(KvStoreSpec)
        for name in _PARTS:
            setattr(other, name, parts[name] if name in parts else getattr(self, name))
        return other

    def __add__(self, suffix: str | bytes) -> KvStoreSpec:
        return self._with(_path=self._path + key_text(suffix))

    def __truediv__(self, component: str | bytes) -> KvStoreSpec:
        return self._with(_path=join_paths(self._path, key_text(component)))

    def update(
        self, *, unbind_context: bool | None = None, strip_context: bool | None = None, context: Context | None = None
    ) -> None:
        """Bind resources to a context; first replace bound ones by their specs, or remove all, if asked to."""
        source = self
        if unbind_context:
            source = source._unbound()
        if strip_context:
            source = source._stripped()
        if context is not None:
            source = source._bound(context)
        self._bindings, self._base = source._bindings, source._base

    def _bound(self, context: Context) -> KvStoreSpec:
        """Return the spec with all resources bound to a context, unless its own context defines them."""
        checked("context", context, Context)
        bindings = self._bindings
        if bindings._home is not None and self._base is None:
            return self
        home = bindings.home(context)
        return self._with(_bindings=bindings.bound(home), _base=self._base and self._base._bound(home))

    def _unbound(self) -> KvStoreSpec:
        """Return the spec with bound resources replaced by their specs."""
        return KvStoreSpec(self._with(_path="").to_json())._with(_path=self._path)

    def _stripped(self) -> KvStoreSpec:
        return self._with(_bindings=Bindings(self._bindings._kinds), _base=self._base and self._base._stripped())

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, KvStoreSpec) else NotImplemented

    def _identity(self) -> tuple[Any, ...]:
        base = self._base and self._base._identity()
        return self._kind.name, self._path, self._options, self._bindings.identity(), base

    def __repr__(self) -> str:
        return pretty((builder := SpecBuilder(marked=True)).finish(self._build(builder)), "KvStore.Spec(", ")")


def join_paths(path: str, component: str) -> str:
    """Join a path and a component; add a slash if both are non-empty and neither has one there."""
    if not path or not component or path.endswith("/") or component.startswith("/"):
        return path + component
    return f"{path}/{component}"


def _of_url(text: str) -> KvStoreSpec:
    sound_text(text)
    with stating(f"Parsing spec from url: {dump(text)}"):
        spec, others = spec_of_pipeline(*pipeline(text))
        if others:
            raise invalid(f"unsupported URL scheme: {dump(others[0][0])}")
    return spec


def pipeline(url: str) -> tuple[str, list[tuple[str, str]]]:
    """Split a URL into that of the storage, and the scheme and decoded text of each further component."""
    return pipeline_of(url, decode_url_path, bare=True)


def spec_of_pipeline(url: str, components: list[tuple[str, str]]) -> tuple[KvStoreSpec, list[tuple[str, str]]]:
    """Return the spec for the components of key-value stores that a pipeline begins with, and the others."""
    scheme = url.partition(":")[0]
    kind = SCHEMES.get(scheme)
    if kind is None or kind.adapter:
        raise invalid(f"unsupported URL scheme: {dump(scheme)}")
    spec = _located(kind, *location_of_url(kind, url), None)
    for number, (scheme, path) in enumerate(components):
        kind = SCHEMES.get(scheme)
        if kind is None or not kind.adapter:
            return spec, components[number:]
        if path.startswith("//"):
            raise invalid(f"{dump(scheme)} has no authority: {dump(path)}")
        spec = _located(kind, {}, path, spec)
    return spec, []


def _located(kind: Kind, options: dict[str, Any], path: str, base: KvStoreSpec | None) -> KvStoreSpec:
    spec: KvStoreSpec = object.__new__(KvStoreSpec)
    spec._kind, spec._options, spec._path, spec._base = kind, options, path, base
    spec._bindings = Bindings(kind.resources)
    return spec
