"""JSON documents: parsing with limits, checks of their members, and rewriting with as few changed bytes as possible."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from tegula.config.budget import parse_json
from tegula.errors import MetadataError
from tegula.formats.keys import Style
from tegula.runtime.deferred import Later
from tegula.runtime.frozen import replace

if TYPE_CHECKING:
    from tegula.formats import json_encoding
else:
    json_encoding = Later("tegula.formats.json_encoding")

__all__ = [
    "MAX_DEPTH", "MAX_NDIM", "NO_ATTRIBUTES", "depth_of", "integers", "load", "load_attributes", "member",
    "replace_document", "rewrite",
]  # fmt: skip

MAX_DEPTH: Final = 64
"""Deepest nesting of a document."""
MAX_NDIM: Final = 32
"""Most dimensions of an array, as in NumPy 1."""

NO_ATTRIBUTES: Final = (b"null", b"[]")
"""Documents that some writers make where there are no attributes."""

_PLAIN: Final = Style(indent=None)


def load(raw: bytes, key: str) -> dict[str, Any]:
    """Parse a JSON object; the tokens NaN, Infinity and -Infinity are accepted, since Zarr writers emit them.

    Parameters
    ----------
    raw : bytes
        The document.
    key : str
        Its key, for errors.

    Raises
    ------
    MetadataError
        If it is not UTF-8, not JSON, not an object, nested more than `MAX_DEPTH` levels, or longer or more costly than
        the setting ``max_input_bytes`` allows.

    Examples
    --------
    >>> load(b'{"shape": [3]}', "zarr.json")
    {'shape': [3]}
    """
    try:
        value = parse_json(raw)
    except MetadataError as error:
        raise error.within(key=key) from None
    if not isinstance(value, dict):
        raise MetadataError("the document is not a JSON object", key=key)
    # counting brackets is fast, and most documents have too few of them to be nested too deeply
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and depth_of(value) > MAX_DEPTH:
        raise MetadataError(f"the document is nested more than {MAX_DEPTH} levels deep", key=key)
    return value


def load_attributes(documents: Mapping[str, bytes], key: str) -> dict[str, Any]:
    """Parse a document that holds the attributes of a node; a missing one, and those of `NO_ATTRIBUTES`, hold none.

    Raises
    ------
    MetadataError
        As `load`.

    Examples
    --------
    >>> load_attributes({".zattrs": b"null"}, ".zattrs")
    {}
    """
    raw = documents.get(key)
    return {} if raw is None or raw.strip() in NO_ATTRIBUTES else load(raw, key)


def depth_of(value: Any) -> int:
    """Return how many levels a JSON value has; ``MAX_DEPTH + 1`` if it has more than `MAX_DEPTH`.

    Examples
    --------
    >>> depth_of(1), depth_of({"a": [1]})
    (1, 3)
    """
    if not isinstance(value, (dict, list)):
        return 1
    deepest, level = 1, [value]
    while level and deepest <= MAX_DEPTH:
        children = chain.from_iterable(item.values() if isinstance(item, dict) else item for item in level)
        inner = [child for child in children if isinstance(child, (dict, list))]
        # scalars in the innermost containers are a level, too
        deepest += 1 if inner or any(level) else 0
        level = inner
    return deepest


def member(document: Mapping[str, Any], name: str, key: str) -> Any:
    """Return a required member of a document.

    Raises
    ------
    MetadataError
        If it is missing.
    """
    try:
        return document[name]
    except KeyError:
        raise MetadataError(f"the document has no member {name!r}", key=key, field=name) from None


def rewrite(
    documents: Mapping[str, bytes],
    key: str,
    changes: Mapping[str, Any],
    fresh: Style,
    old: Mapping[str, Any] | None = None,
) -> bytes:
    """Write a document with some members changed.

    Parameters
    ----------
    documents : mapping of str to bytes
        The documents of the node, by key.
    key : str
        Key of the document.
    changes : mapping
        The members to set.
    fresh : Style
        Layout of a document that does not exist yet.
    old : mapping, optional
        The parsed document, if the caller has it.

    Returns
    -------
    bytes
        The same bytes if no value has changed; otherwise the document in its existing layout.
    """
    raw = documents.get(key)
    if raw is None:
        return json_encoding.dump(changes, key, fresh)
    old = load(raw, key) if old is None else old
    new = {**old, **changes}
    return raw if _same(old, new, key) else json_encoding.dump(new, key, json_encoding.style_of(raw))


def replace_document(documents: Mapping[str, bytes], key: str, value: Mapping[str, Any], fresh: Style) -> bytes:
    """Write attributes as a document; return the same bytes if no value has changed."""
    raw = documents.get(key)
    if raw is None:
        return json_encoding.dump(value, key, fresh)
    if (not value and raw.strip() == b"{}") or _same(load_attributes(documents, key), value, key):
        return raw
    style = json_encoding.style_of(raw)
    if len(raw.strip()) <= 4:  # the layout of an empty object is unknown
        style = fresh
    elif style.indent == fresh.indent:
        style = replace(style, sort_keys=fresh.sort_keys)
    return json_encoding.dump(value, key, style)


def _same(old: Mapping[str, Any], new: Mapping[str, Any], key: str) -> bool:
    """Return whether two objects have the same JSON text; unlike ==, 1, 1.0 and true differ, and NaN equals NaN."""
    return old is new or json_encoding.dump(old, key, _PLAIN) == json_encoding.dump(new, key, _PLAIN)


def integers(value: Any, field: str, key: str, *, least: int, ndim: int | None = None) -> tuple[int, ...]:
    """Check a list of integers, one for each axis, and return it as a tuple.

    Parameters
    ----------
    value : JSON value
        The list.
    field, key : str
        Name of the member and key of the document, for errors.
    least : int
        The smallest integer allowed; the largest is 2**63 - 1.
    ndim : int, optional
        The length that the list must have; otherwise it may have up to `MAX_NDIM`.

    Raises
    ------
    MetadataError
        If it is not such a list.

    Examples
    --------
    >>> integers([3, 4], "shape", "zarr.json", least=0)
    (3, 4)
    """
    if not isinstance(value, list) or any(type(item) is not int for item in value):
        raise MetadataError(f"{field} must be a list of integers, not {value!r:.80}", key=key, field=field)
    if len(value) > MAX_NDIM:
        raise MetadataError(f"an array can't have {len(value)} dimensions", key=key, field=field)
    if any(not least <= item < 2**63 for item in value):
        bounds = f"at least {least} and less than 2**63"
        raise MetadataError(f"{field} must be {bounds}, not {value!r:.80}", key=key, field=field)
    if ndim is not None and len(value) != ndim:
        raise MetadataError(f"{field} has {len(value)} entries for {ndim} dimensions", key=key, field=field)
    return tuple(value)
