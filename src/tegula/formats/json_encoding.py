"""JSON encoding of documents, in the layout of an existing document or of the libraries that write the format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from json import encoder as json_encoder
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, Final, TypeAlias

from tegula.config.budget import text_of
from tegula.errors import MetadataError
from tegula.formats.keys import Style

__all__ = ["Indenter", "as_bytes", "dump", "dump_members", "style_of"]

Members: TypeAlias = Iterable[tuple[str, Any]]
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def dump(value: Mapping[str, Any], key: str, style: Style) -> bytes:
    """Write a JSON object.

    Parameters
    ----------
    value : mapping
        The object; NumPy scalars and arrays in it are written as numbers and lists.
    key : str
        Key of the document, for errors.
    style : Style
        The layout.

    Raises
    ------
    MetadataError
        If a value has no JSON form.

    Examples
    --------
    >>> dump({"shape": (3, 4)}, "zarr.json", Style(indent=None))
    b'{"shape":[3,4]}'
    """
    with _json_errors(key, value):
        if style.indent is None:
            text = _encoder(style, (", ", ": ") if style.spaced else (",", ":")).encode(value)
        else:
            text = Indenter(style).text(value, "\n")
        return as_bytes(text + style.ending)


def dump_members(members: Members, key: str, style: Style) -> bytes:
    """Write a JSON object from an iterator over its members, so that memory holds only the text.

    Parameters
    ----------
    members : iterable of (str, Any)
        Names and values, in the order to write. A value that is an iterator is also written as an object, in this way.
    key : str
        Key of the document, for errors.
    style : Style
        The layout, with an indent.

    Raises
    ------
    MetadataError
        If a value has no JSON form.

    Examples
    --------
    >>> dump_members([("a", 1), ("b", iter([("c", 2)]))], "zarr.json", Style(indent=1))
    b'{\\n "a": 1,\\n "b": {\\n  "c": 2\\n }\\n}'
    """
    out = BytesIO()
    with _json_errors(key):
        for piece in Indenter(style).pieces(members, "\n"):
            out.write(as_bytes(piece))
        out.write(as_bytes(style.ending))
    return out.getvalue()


def as_bytes(text: str) -> bytes:
    """Encode JSON text in UTF-8; lone surrogates, which UTF-8 can't hold, become their JSON escapes.

    Examples
    --------
    >>> as_bytes('"\\ud800"')
    b'"\\\\ud800"'
    """
    return text.encode("utf-8", "backslashreplace")


@contextmanager
def _json_errors(key: str, value: Any = None) -> Iterator[None]:
    """Convert the exceptions of an encoder to `MetadataError`, which names the member of `value` without JSON form."""
    try:
        yield
    except RecursionError as error:
        raise MetadataError("the value is nested too deeply for JSON", key=key) from error
    except MetadataError:  # of a member that is read only now
        raise
    except (TypeError, ValueError) as error:
        field = ".".join(_unwritable(value)) or None
        raise MetadataError(f"the value can't be written as JSON: {error}", key=key, field=field) from error


def _unwritable(value: Any) -> Iterator[str]:
    """Yield the names of the members that lead to the first value without JSON form, outermost first."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            try:
                json.dumps(item, default=_plain)
            except TypeError:
                yield str(name)
                yield from _unwritable(item)
                return
            except ValueError:  # such as a value that contains itself
                yield str(name)
                return


def _encoder(style: Style, separators: tuple[str, str]) -> json.JSONEncoder:
    return json.JSONEncoder(
        ensure_ascii=style.ascii, separators=separators, sort_keys=style.sort_keys, default=_plain
    )  # fmt: skip


class Indenter:
    """An encoder of indented JSON that gives the result of ``json.dumps(indent=…)``, but faster.

    With an indent, ``json.dumps`` does not use its encoder in C. This class uses it for every container that holds only
    scalars, in which indentation adds only line breaks.

    Parameters
    ----------
    style : Style
        The layout, with an indent.

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
        self._encoders: dict[str, Callable[[Any, int], Iterable[str]]] = {}

    def text(self, value: Any, line: str) -> str:
        """Return the text of a value.

        Parameters
        ----------
        value : Any
            The value.
        line : str
            Line break and indent of the level that the value is in.
        """
        # scalars
        if type(value) is str:
            return self._quote(value)
        if type(value) is int:
            return repr(value)
        if value is None or isinstance(value, (str, int, float)):
            return self._encode(value, ",")
        if not isinstance(value, (dict, list, tuple)):
            return self.text(_plain(value), line)
        if not value:
            return self._encode(value, ",")

        # containers of scalars: the separator of the C encoder is a comma, a line break and the indent
        deeper = line + self._indent
        if _SCALARS.issuperset(map(type, value.values() if isinstance(value, dict) else value)):
            flat = self._encode(value, f",{deeper}")
            return f"{flat[0]}{deeper}{flat[1:-1]}{line}{flat[-1]}"

        # any other container, value by value
        if not isinstance(value, dict):
            return f"[{deeper}{f',{deeper}'.join([self.text(item, deeper) for item in value])}{line}]"
        items, quote = sorted(value.items()) if self._style.sort_keys else value.items(), self._quote
        members = [
            f"{quote(name) if type(name) is str else self.name(name)}: "
            f"{quote(item) if type(item) is str else repr(item) if type(item) is int else self.text(item, deeper)}"
            for name, item in items
        ]
        return f"{{{deeper}{f',{deeper}'.join(members)}{line}}}"

    def pieces(self, members: Members, line: str) -> Iterator[str]:
        """Yield the text of an object in pieces, from an iterator over its members; see `dump_members`."""
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
        """Return the text of a member's name; the encoder converts names that are not strings, as in an object."""
        return self._quote(name) if type(name) is str else self._encode({name: 0}, ",")[1:].rpartition(":")[0]

    def _encode(self, value: Any, separator: str) -> str:
        """Return the text of a value with `separator` between members; encoders are kept, since making one is slow."""
        encoder = self._encoders.get(separator)
        if encoder is None:
            make: Any = getattr(json_encoder, "c_make_encoder", None)
            if make is None:  # not CPython
                return _encoder(self._style, (separator, ": ")).encode(value)
            encoder = make({}, _plain, self._quote, None, ": ", separator, self._style.sort_keys, False, True)
            self._encoders[separator] = encoder
        return "".join(encoder(value, 0))


def _plain(value: Any) -> Any:
    """Convert NumPy scalars, NumPy arrays and mappings to types that the encoder knows."""
    if isinstance(value, Mapping):
        return dict(value)
    plain = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(plain, (bool, int, float, str, list)):
        return plain
    raise TypeError(f"{type(value).__name__} has no JSON form")


def style_of(raw: bytes) -> Style:
    """Detect the layout of a document, so that writing it again changes as few bytes as possible.

    Examples
    --------
    >>> style_of(b'{\\n  "a": 1\\n}').indent
    2
    """
    if json.detect_encoding(raw) != "utf-8":
        raw = text_of(raw).encode()
    match = re.match(rb"\s*\{\n( *)", raw)
    ending = raw[len(raw.rstrip()) :].decode("ascii", "replace")
    spaced = match is None and b'": ' in raw
    # compact documents come from TensorStore, which writes UTF-8 without escapes
    escapes = raw.isascii() and (match is not None or spaced or b"\\u" in raw)
    return Style(len(match[1]) if match else None, escapes, ending, spaced=spaced)
