"""JSON documents: read with limits, written in the style they were found in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, Final

from tegula.errors import MetadataError

__all__ = ["Style", "depth_of", "dump", "integers", "load", "member", "replace_document", "rewrite", "style_of"]

MAX_BYTES: Final = 2**28
MAX_DEPTH: Final = 64
MAX_NDIM: Final = 32  # NumPy 1 has no more


@dataclass(frozen=True, slots=True)
class Style:
    """How a writer lays its JSON out; the defaults are zarr-python's for Zarr v2."""

    indent: int | None = 4
    ascii: bool = True
    ending: str = ""
    sort_keys: bool = False
    spaced: bool = False


_PLAIN: Final = Style(indent=None)


def load(raw: bytes, key: str) -> dict[str, Any]:
    """Parse a JSON object, in which the bare tokens NaN and Infinity are allowed, as all Zarr writers leave them.

    Raises
    ------
    MetadataError
        If it is not UTF-8, not JSON, not an object, or beyond the limits of 256 MiB and 64 levels.
    """
    if len(raw) > MAX_BYTES:
        raise MetadataError(f"the document is larger than {MAX_BYTES} bytes", key=key)
    try:
        value = json.loads(raw.decode("utf-8"))
    except RecursionError as error:
        raise MetadataError("the document is nested too deeply", key=key) from error
    except ValueError as error:
        raise MetadataError(f"the document is not JSON: {error}", key=key) from error
    if not isinstance(value, dict):
        raise MetadataError("the document is not a JSON object", key=key)
    # most documents have too few brackets to be deep; only the others are walked
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and depth_of(value) > MAX_DEPTH:
        raise MetadataError(f"the document is nested more than {MAX_DEPTH} levels deep", key=key)
    return value


def depth_of(value: Any) -> int:
    """Return how many levels a JSON value has, or one more than the limit if it has more."""
    deepest, level = 0, [value]
    while level and deepest <= MAX_DEPTH:
        deepest += 1
        containers = [item for item in level if isinstance(item, (dict, list))]
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    return deepest


def dump(value: Mapping[str, Any], key: str, style: Style) -> bytes:
    """Write a JSON object.

    Raises
    ------
    MetadataError
        If something in it has no JSON form.
    """
    separators = (", " if style.spaced else ",", ": " if style.spaced or style.indent is not None else ":")
    try:
        encoder = json.JSONEncoder(
            ensure_ascii=style.ascii, separators=separators, sort_keys=style.sort_keys, default=_plain
        )
        text = encoder.encode(value) if style.indent is None else _indented(value, "\n", style, encoder.encode)
        return (text + style.ending).encode("utf-8")
    except RecursionError as error:
        raise MetadataError("the value is nested too deeply for JSON", key=key) from error
    except (TypeError, ValueError) as error:
        raise MetadataError(f"the value can't be written as JSON: {error}", key=key) from error


def _indented(value: Any, line: str, style: Style, encode: Callable[[Any], str]) -> str:
    """Write JSON as ``json.dumps`` does with an indent, for which it leaves its fast encoder.

    Parameters
    ----------
    value : Any
        What to write.
    line : str
        What a line of the level around it begins with.
    style, encode
        The style, and how to write what has no lines.
    """
    if type(value) is str:
        return (encode_basestring_ascii if style.ascii else encode_basestring)(value)
    if type(value) is int:
        return repr(value)
    if value is None or isinstance(value, (str, int, float)):
        return encode(value)
    if not isinstance(value, (dict, list, tuple)):
        return _indented(_plain(value), line, style, encode)
    if not value:
        return encode(value)
    deeper = line + " " * (style.indent or 0)
    if not isinstance(value, dict):
        return f"[{deeper}{f',{deeper}'.join([_indented(item, deeper, style, encode) for item in value])}{line}]"
    items = sorted(value.items()) if style.sort_keys else value.items()
    # a name that is no text is written as the one member of an object, which knows how
    members = [
        f"{_indented(name, '', style, encode) if type(name) is str else encode({name: 0})[1:].rpartition(':')[0]}: "
        f"{_indented(item, deeper, style, encode)}"
        for name, item in items
    ]
    return f"{{{deeper}{f',{deeper}'.join(members)}{line}}}"


def _plain(value: Any) -> Any:
    """Give NumPy's scalars and arrays, and any mapping, the form of their JSON."""
    if isinstance(value, Mapping):
        return dict(value)
    plain = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(plain, (bool, int, float, str, list)):
        return plain
    raise TypeError(f"{type(value).__name__} has no JSON form")


def style_of(raw: bytes) -> Style:
    """Find the style of a document, so that it can be written again with the fewest bytes changed."""
    match = re.match(rb"\s*\{\n( *)", raw)
    ending = raw[len(raw.rstrip()) :].decode("ascii", "replace")
    spaced = match is None and b'": ' in raw
    # a compact document is TensorStore's: raw UTF-8
    escapes = raw.isascii() and (match is not None or spaced or b"\\u" in raw)
    return Style(len(match[1]) if match else None, escapes, ending, spaced=spaced)


def member(document: Mapping[str, Any], name: str, key: str) -> Any:
    """Return a member that must be there."""
    try:
        return document[name]
    except KeyError:
        raise MetadataError(f"the document has no {name!r}", key=key, field=name) from None


def rewrite(documents: Mapping[str, bytes], key: str, changes: Mapping[str, Any], fresh: Style) -> bytes:
    """Write a document again with some members changed: byte for byte as it was where nothing is."""
    raw = documents.get(key)
    if raw is None:
        return dump(changes, key, fresh)
    old = load(raw, key)
    new = {**old, **changes}
    return raw if _same(old, new, key) else dump(new, key, style_of(raw))


def replace_document(documents: Mapping[str, bytes], key: str, value: Mapping[str, Any], fresh: Style) -> bytes:
    """Write a document whose members are all given: byte for byte as it was where nothing has changed."""
    raw = documents.get(key)
    if raw is None:
        return dump(value, key, fresh)
    if (not value and raw.strip() == b"{}") or _same(load(raw, key), value, key):
        return raw
    style = style_of(raw)
    if len(raw.strip()) <= 2:  # an empty object shows no style
        style = fresh
    elif style.indent == fresh.indent:
        style = replace(style, sort_keys=fresh.sort_keys)
    return dump(value, key, style)


def _same(old: Mapping[str, Any], new: Mapping[str, Any], key: str) -> bool:
    """Equality of JSON values that keeps 1, 1.0 and true apart, and lets NaN equal NaN."""
    return old is new or dump(old, key, _PLAIN) == dump(new, key, _PLAIN)


def integers(value: Any, field: str, key: str, *, least: int, ndim: int | None = None) -> tuple[int, ...]:
    """Return a list of integers, each at least `least` and below 2**63, `ndim` of them if that is given."""
    if not isinstance(value, list) or any(type(item) is not int for item in value):
        raise MetadataError(f"{field} must be a list of integers, not {value!r:.80}", key=key, field=field)
    if len(value) > MAX_NDIM:
        raise MetadataError(f"an array can't have {len(value)} dimensions", key=key, field=field)
    if any(not least <= item < 2**63 for item in value):
        raise MetadataError(f"{field} must be at least {least}, not {value!r:.80}", key=key, field=field)
    if ndim is not None and len(value) != ndim:
        raise MetadataError(f"{field} has {len(value)} entries for {ndim} dimensions", key=key, field=field)
    return tuple(value)
