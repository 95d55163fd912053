"""Paths: of targets on this machine, and of nodes in a store."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tegula.errors import MetadataError, NotFoundError, StoreError, UnsupportedError, brief
from tegula.runtime.deferred import Later, matcher
from tegula.stores.capabilities import Translating
from tegula.stores.local.store import LocalStore
from tegula.stores.names import ARCHIVES, path_of_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from urllib import parse

    from tegula.stores import Store, secrets
    from tegula.stores import identity as identities
    from tegula.stores.targets import nearest
else:
    parse, identities = Later("urllib.parse"), Later("tegula.stores.identity")
    secrets, nearest = Later("tegula.stores.secrets"), Later("tegula.stores.targets.nearest")

__all__ = [
    "address_of",
    "clean",
    "is_missing",
    "is_remote",
    "links",
    "local_path",
    "location_of",
    "may_be_local",
    "may_be_view",
    "name_below",
    "path_text",
    "pipeline_of",
    "refuse_missing",
    "refuse_overlap",
    "scheme_of",
    "split_inner",
    "url_path",
]


_CHAIN: Final = r"::(?![^]\[/]*\])"  # two colons, but not those of an IPv6 address in brackets
_LAYER: Final = r"(?i:zip|tar|reference|simplecache|filecache|blockcache)(?:://(?:(?!::).)*)?::"
"""A pattern for what stands before the address of a file or directory: a URL, or a path on this machine."""
_parts = matcher(rf"(?s)((?:{_LAYER})*.*?)(?:{_CHAIN}((?:(?!://).)*))?")  # the second is no URL


@lru_cache(256)
def links(url: str) -> list[str]:
    """Return the URLs of a chain, the outermost first.

    Examples
    --------
    >>> links("zip::s3://bucket/x.zip"), links("http://[::1]:8000/x.zarr")
    (['zip', 's3://bucket/x.zip'], ['http://[::1]:8000/x.zarr'])
    """
    return re.split(_CHAIN, url) if "::" in url else [url]


@lru_cache(256)
def split_inner(target: str) -> tuple[str, str]:
    """Split ``PATH::inner/path`` into the path or URL of a store and the path of a node inside it.

    In a chain of URLs the path of the node follows the last of them.

    Examples
    --------
    >>> split_inner("x.zip::era/t"), split_inner("file:///x.zarr")
    (('x.zip', 'era/t'), ('file:///x.zarr', ''))
    >>> split_inner("zip::s3://bucket/x.zip::era/t"), split_inner("simplecache::https://host/x.zarr")
    (('zip::s3://bucket/x.zip', 'era/t'), ('simplecache::https://host/x.zarr', ''))
    """
    match = _parts(target) if "::" in target else None
    return (match[1], match[2] or "") if match else (target, "")


def address_of(target: Any, path: str, format: str | None = None) -> tuple[Any, str, Any]:
    """Resolve a target that names a node inside a store; return the store's target, the node's path and its format.

    Such a target is ``PATH::inner/path``, or a URL pipeline (ZEP 8): components behind ``|``, each with a scheme, from
    the storage to the node. ``zip:`` enters an archive; the name of a format, ``zarr:`` (either of versions 2 and 3) or
    ``auto:`` ends the pipeline. The path behind a scheme is percent-encoded. A path on this machine at which something
    exists stands for itself.

    Parameters
    ----------
    target : str, path, mapping, Node or Store
        The target; only text is resolved.
    path : str
        Path below that node.
    format : str, optional
        The format that is wanted in any case.

    Raises
    ------
    MetadataError
        If the pipeline is not valid, or names another format.
    UnsupportedError
        If an archive is in an archive.

    Examples
    --------
    >>> address_of("x.zip::era", "t"), address_of("s3://bucket/x.zarr", "/t/")
    (('x.zip', 'era/t', None), ('s3://bucket/x.zarr', 't', None))
    >>> address_of("s3://bucket/x.zip|zip:era|zarr3:t", "")
    ('zip::s3://bucket/x.zip', 'era/t', 'zarr3')
    """
    path = clean(path) if path != "" else ""
    if not isinstance(target, str) or not (":" in target or "|" in target):
        return target, path, format
    if _exists(target):
        return f"./{target}" if scheme_of(target) else target, path, format  # a name like a URL
    where, components = pipeline_of(target)
    shown = secrets.plain_url(target)
    where, inner = split_inner(where)
    if "@" in inner and "/" not in where.partition("://")[2]:
        return target, path, format  # colons in a password, which the store refuses
    paths = [inner]
    for number, (scheme, text) in enumerate(components, 1):
        paths.append(text)
        if scheme == "zip":
            entered = where.startswith("zip::") or any(earlier == "zip" for earlier, _ in components[: number - 1])
            if entered or "".join(paths[:-1]).strip("/"):
                raise UnsupportedError("an archive inside an archive can't be read; extract the outer one", path=shown)
            where = where if where.endswith(ARCHIVES) and not scheme_of(where) else f"zip::{where}"
        elif number < len(components):
            raise MetadataError(f"'{scheme}:' must end the URL: only archives contain others", path=shown)
        elif scheme not in ("auto", "zarr"):
            if format not in (None, scheme):
                raise MetadataError(f"the URL names the format {scheme}, not {format}", path=shown, field="format")
            format = scheme
    return where, "/".join(part for name in (*paths, path) if (part := clean(name))), format


def may_be_view(target: Any) -> bool:
    """Return whether a target names a JSON file, which may be the document of a view."""
    return isinstance(target, (str, os.PathLike)) and str(target).endswith(".json")


def _exists(path: str) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:  # no path has a NUL or a lone surrogate
        return False


def pipeline_of(
    url: str, decode: Callable[[str], str] | None = None, *, bare: bool = False
) -> tuple[str, list[tuple[str, str]]]:
    """Split a URL pipeline into the URL of the storage, and the scheme and decoded text of each further component.

    Parameters
    ----------
    url : str
        The pipeline.
    decode : callable, optional
        Decodes the percent-encoded text of a component, instead of `urllib.parse.unquote`.
    bare : bool
        Whether a component may be a scheme without its colon.

    Raises
    ------
    MetadataError
        If a component has no scheme, or a query or fragment.

    Examples
    --------
    >>> pipeline_of("file:///tmp/a.zip|zip:x%20y|zarr3:")
    ('file:///tmp/a.zip', [('zip', 'x y'), ('zarr3', '')])
    """
    where, *components = url.split("|")
    parts = []
    for component in components:
        scheme, colon, text = component.partition(":")
        if not scheme or not (colon or bare):
            raise MetadataError(
                f"{brief(component)} is no component of a URL, such as 'zip:inner/path' or 'zarr3:path'; for '|' in a"
                " name pass a pathlib.Path, or write '%7C' in a URL",
                path=secrets.plain_url(url),
            )
        if "?" in text or "#" in text:
            raise MetadataError(
                f"{brief(component)}: only the storage's own URL has a query or a fragment", path=secrets.plain_url(url)
            )
        parts.append((scheme.lower(), (decode or parse.unquote)(text)))
    return where, parts


@lru_cache(256)
def scheme_of(text: str) -> re.Match[str] | None:
    """Return the match of the scheme that a URL begins with; one letter is a drive of Windows.

    Examples
    --------
    >>> scheme_of("s3://bucket")[1], scheme_of("C:/x")
    ('s3', None)
    """
    # most targets are paths without a colon
    return re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", text) if ":" in text else None


def path_text(target: str | os.PathLike[Any]) -> str:
    """Return a path as text; in text ``~`` or ``~name`` at the beginning becomes the home directory.

    Path objects are taken literally, as by Python's functions.
    """
    path = os.fspath(target)
    if not isinstance(path, str):
        path = os.fsdecode(path)
    if not isinstance(target, str):
        return f"./{path}" if "::" in path and not os.path.isabs(path) else path
    if not path.startswith("~"):
        return path
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise MetadataError(
            f"{path!r} begins with the home directory of an unknown user; write './{path}' for a name with a tilde"
        )
    return expanded


def local_path(target: Any) -> str | None:
    """Return the path of a target on this machine's file system; ``None`` if it has none."""
    if not isinstance(target, (str, os.PathLike)):
        return None
    path = path_text(target)
    scheme = scheme_of(path)
    if scheme is None:
        return path
    if len(chain := links(path)) > 1:
        return local_path("::".join(chain[1:])) if chain[0].lower() in ("zip", "zip://") else None
    if scheme[1].lower() == "zip":
        return url_path(path)
    return path_of_url(path) if scheme[1].lower() == "file" else None


@lru_cache(256)
def may_be_local(url: str, scheme: str) -> bool:
    """Return whether `local_path` may have a path for a URL of this scheme: a chain, or the URL of a file."""
    return scheme in ("file", "zip") or "::" in url


def is_remote(target: Any) -> bool:
    """Return whether a target is the URL of storage elsewhere, which is reached through another library.

    Examples
    --------
    >>> is_remote("s3://bucket/x.zarr"), is_remote("file:///x.zarr"), is_remote("x.zarr")
    (True, False, False)
    """
    scheme = scheme_of(target) if isinstance(target, str) else None
    if scheme is None:
        return False
    return not may_be_local(target, scheme[1].lower()) or local_path(target) is None


@lru_cache(256)
def url_path(url: str) -> str:
    """Return the host and path of a URL, or of the last one in a chain, without a query.

    Raises
    ------
    StoreError
        If it is not a URL.

    Examples
    --------
    >>> url_path("zip::s3://bucket/a%20b.zip"), url_path("https://host/x.zarr?token=1")
    ('bucket/a b.zip', 'host/x.zarr')
    """
    try:
        parts = parse.urlsplit(links(url)[-1])
    except ValueError as error:
        raise StoreError(f"this is not a URL: {error}") from None
    return parse.unquote(parts.netloc.rpartition("@")[2] + parts.path)


def clean(path: str) -> str:
    """Return a path in a store, without slashes around it.

    Raises
    ------
    MetadataError
        If the path is not text.

    Examples
    --------
    >>> clean("/era/t/")
    'era/t'
    """
    if not isinstance(path, str):
        raise MetadataError(f"a path in a store must be text, not {brief(path)}")
    return path.strip("/")


def location_of(store: Store, path: str) -> str:
    """Return the URL of a node, for errors."""
    return f"{store.url}/{path}" if path else store.url


def is_missing(path: str) -> bool:
    """Return whether nothing exists at a path; ``False`` if that is unknown, since the store will raise the error."""
    try:
        os.lstat(path)
    except (FileNotFoundError, ValueError):
        return True
    except OSError:
        return False
    return False


def refuse_missing(target: Any) -> None:
    """Refuse a target that is a path on this machine at which nothing exists.

    Raises
    ------
    NotFoundError
        If nothing exists there.
    """
    local = local_path(target)
    if local is not None and is_missing(local):
        advice = nearest.path_advice(local)
        raise NotFoundError(f"there is no array or group, since nothing exists at this path{advice}", path=local)


def refuse_overlap(store: Store, path: str, target: Store, target_path: str) -> None:
    """Refuse a target that is the source, or lies within it or above it.

    A node of a view lies where the whole of what the view shows is stored.

    Raises
    ------
    MetadataError
        If one lies within the other.
    """
    if isinstance(store, Translating):
        store, path = store.whole
    same = _same_store(store, target)
    old, new = f"{path}/".lstrip("/"), f"{target_path}/".lstrip("/")
    inside = same and (old.startswith(new) or new.startswith(old))
    here, there = _location(store, path), _location(target, target_path)
    nested = False
    if here is not None and there is not None and here[0] == there[0]:
        nested = here[1].startswith(there[1]) or there[1].startswith(here[1])
    if inside or nested:
        raise MetadataError(
            "the target is the source, lies within it or contains it; choose another target",
            path=location_of(target, target_path),
        )


def name_below(store: Store, path: str, target: Store, target_path: str) -> str | None:
    """Return the path of a node below a node or prefix; ``None`` if it is elsewhere or if that is unknown.

    Examples
    --------
    >>> from tegula.stores import MemoryStore
    >>> store = MemoryStore()
    >>> name_below(store, "a/b", store, "a"), name_below(store, "a/b", store, "c")
    ('b', None)
    """
    old, new = f"{path}/".lstrip("/"), f"{target_path}/".lstrip("/")
    if _same_store(store, target):
        return old[len(new) :].rstrip("/") or None if old.startswith(new) else None
    here, there = _location(store, path), _location(target, target_path)
    if here is None or there is None or here[0] != there[0] or not here[1].startswith(there[1]):
        return None
    return here[1][len(there[1]) :].replace(os.sep, "/").strip("/") or None


def _same_store(store: Store, target: Store) -> bool:
    # other stores may have the same URL for different contents
    distinct = ("file:", "zip:", "memory:", "mapping:")
    return store == target or ((url := store.url) == target.url and url.startswith(distinct))


def _location(store: Store, path: str) -> tuple[object, str] | None:
    """Return the storage of a node, and the directory in it with a slash at the end; ``None`` if that is not known."""
    if (directory := store.local_directory) is not None:
        # links are resolved, so that a link to the source is recognised
        return LocalStore, os.path.join(os.path.realpath(os.path.join(directory, path)), "")
    if isinstance(store.identity, str):
        return str, identities.location(store.identity, path).rstrip("/") + "/"
    if store.shared_storage is not None:
        storage, base = store.shared_storage
        return ("storage", storage), f"{base}{path}".rstrip("/") + "/"
    return None
