"""JSON documents: read with limits, written in the style they were found in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from json import encoder as json_encoder
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, Final, TypeAlias

from tegula.errors import MetadataError

__all__ = [
    "Indenter",
    "Style",
    "depth_of",
    "dump",
    "dump_members",
    "integers",
    "load",
    "member",
    "replace_document",
    "rewrite",
    "style_of",
]

Members: TypeAlias = Iterable[tuple[str, Any]]
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
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


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
    if not isinstance(value, (dict, list)):
        return 1
    deepest, level = 1, [value]
    while level and deepest <= MAX_DEPTH:
        children = chain.from_iterable(item.values() if isinstance(item, dict) else item for item in level)
        inner = [child for child in children if isinstance(child, (dict, list))]
        # the last containers are a level themselves, and what is in them is another
        deepest += 1 if inner or any(level) else 0
        level = inner
    return deepest


def dump(value: Mapping[str, Any], key: str, style: Style) -> bytes:
    """Write a JSON object.

    Raises
    ------
    MetadataError
        If something in it has no JSON form.
    """
    with _writing(key):
        if style.indent is None:
            text = _encoder(style, (", ", ": ") if style.spaced else (",", ":")).encode(value)
        else:
            text = Indenter(style).text(value, "\n")
        return (text + style.ending).encode("utf-8")


def dump_members(members: Members, key: str, style: Style) -> bytes:
    """Write a JSON object whose members come one by one, as `dump` writes it, without holding more than its text.

    Parameters
    ----------
    members : iterable of (str, Any)
        The members, in the order in which they are written. A value that is an iterator is such an object itself.
    key : str
        The key of the document, for errors.
    style : Style
        The style, with an indent.

    Raises
    ------
    MetadataError
        If something in it has no JSON form.

    Examples
    --------
    >>> dump_members([("a", 1), ("b", iter([("c", 2)]))], "zarr.json", Style(indent=1))
    b'{\\n "a": 1,\\n "b": {\\n  "c": 2\\n }\\n}'
    """
    out = BytesIO()
    with _writing(key):
        for piece in Indenter(style).pieces(members, "\n"):
            out.write(piece.encode("utf-8"))
        out.write(style.ending.encode("utf-8"))
    return out.getvalue()


@contextmanager
def _writing(key: str) -> Iterator[None]:
    """Turn what goes wrong with a value into an error of a document."""
    try:
        yield
    except RecursionError as error:
        raise MetadataError("the value is nested too deeply for JSON", key=key) from error
    except (TypeError, ValueError) as error:
        raise MetadataError(f"the value can't be written as JSON: {error}", key=key) from error


def _encoder(style: Style, separators: tuple[str, str]) -> json.JSONEncoder:
    return json.JSONEncoder(
        ensure_ascii=style.ascii, separators=separators, sort_keys=style.sort_keys, default=_plain
    )  # fmt: skip


class Indenter:
    """Writes JSON as ``json.dumps`` does with an indent, for which that leaves its fast encoder.

    Parameters
    ----------
    style : Style
        The style, with an indent.

    Examples
    --------
    >>> print(Indenter(Style(indent=2)).text({"a": [1, 2]}, "\\n"))
    {
      "a": [
        1,
        2
      ]
    }
    """

    def __init__(self, style: Style) -> None:
        self._indent = " " * (style.indent or 0)
        self._style = style
        self._quote: Callable[[str], str] = encode_basestring_ascii if style.ascii else encode_basestring
        self._encoders: dict[str, Callable[[Any], str]] = {}

    def text(self, value: Any, line: str) -> str:
        """Return the text of a value.

        Parameters
        ----------
        value : Any
            What to write.
        line : str
            What a line of the level around it begins with.
        """
        if type(value) is str:
            return self._quote(value)
        if type(value) is int:
            return repr(value)
        if value is None or isinstance(value, (str, int, float)):
            return self._encode(",")(value)
        if not isinstance(value, (dict, list, tuple)):
            return self.text(_plain(value), line)
        if not value:
            return self._encode(",")(value)
        deeper = line + self._indent
        if _SCALARS.issuperset(map(type, value.values() if isinstance(value, dict) else value)):
            # the fast encoder does it all where a new line is all that there is between members
            flat = self._encode(f",{deeper}")(value)
            return f"{flat[0]}{deeper}{flat[1:-1]}{line}{flat[-1]}"
        if not isinstance(value, dict):
            return f"[{deeper}{f',{deeper}'.join([self.text(item, deeper) for item in value])}{line}]"
        items = sorted(value.items()) if self._style.sort_keys else value.items()
        members = [f"{self.name(name)}: {self.text(item, deeper)}" for name, item in items]
        return f"{{{deeper}{f',{deeper}'.join(members)}{line}}}"

    def pieces(self, members: Members, line: str) -> Iterator[str]:
        """Yield the text of an object, whose members come one by one, in pieces; see `dump_members`."""
        deeper = line + self._indent
        before = "{"
        for name, value in members:
            yield f"{before}{deeper}{self.name(name)}: "
            if isinstance(value, Iterator):
                yield from self.pieces(value, deeper)
            else:
                yield self.text(value, deeper)
            before = ","
        yield f"{line}}}" if before == "," else "{}"

    def name(self, name: Any) -> str:
        """Return the text of a member's name; one that is no text is written as that of an object, which knows how."""
        return self._quote(name) if type(name) is str else self._encode(",")({name: 0})[1:].rpartition(":")[0]

    def _encode(self, separator: str) -> Callable[[Any], str]:
        found = self._encoders.get(separator)
        if found is None:
            found = self._encoders[separator] = self._encoder(separator)
        return found

    def _encoder(self, separator: str) -> Callable[[Any], str]:
        """Return what writes a value on one line, but for the separators; made once, since making it takes longer."""
        make: Any = getattr(json_encoder, "c_make_encoder", None)
        if make is None:  # not CPython
            return _encoder(self._style, (separator, ": ")).encode
        pieces = make({}, _plain, self._quote, None, ": ", separator, self._style.sort_keys, False, True)
        return lambda value: "".join(pieces(value, 0))


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


def rewrite(
    documents: Mapping[str, bytes],
    key: str,
    changes: Mapping[str, Any],
    fresh: Style,
    old: Mapping[str, Any] | None = None,
) -> bytes:
    """Write a document again with some members changed: byte for byte as it was where nothing is.

    `old` is what the document says now, where the caller has parsed it already.
    """
    raw = documents.get(key)
    if raw is None:
        return dump(changes, key, fresh)
    old = load(raw, key) if old is None else old
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
