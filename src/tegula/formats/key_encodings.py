"""Chunk key encodings of Zarr v3: those of the core specification, and extensions: a suffix, and short directories."""

from __future__ import annotations

from typing import Any, Final

from tegula.errors import MetadataError, UnsupportedError
from tegula.formats.keys import ZARR3_KEY as KEY
from tegula.formats.zarr3_codecs import extension_from_json
from tegula.metadata.chunk_keys import ChunkKeyEncoding, default_keys, fanout_keys, v2_keys
from tegula.runtime.frozen import replace

__all__ = ["keys_from_json", "keys_to_json"]

_FIELD: Final = "chunk_key_encoding"
_PLAIN: Final = {"default": (default_keys, "/"), "v2": (v2_keys, ".")}
_BASES: Final = ("base-encoding", "base_encoding")  # the proposal has both
_LONGEST: Final = 100
_MOST_DIGITS: Final = 18


def keys_from_json(value: Any) -> ChunkKeyEncoding:
    """Read a ``chunk_key_encoding``.

    ``suffix``, as proposed for the registry, adds a suffix to the keys of another encoding, and
    ``zarrs.default_suffix`` to those of ``default``. ``fanout`` is read as its proposal of 2026 describes it.

    Raises
    ------
    MetadataError
        If a separator or suffix is not valid.
    UnsupportedError
        If the encoding or one of its options is not known.

    Examples
    --------
    >>> keys = keys_from_json({"name": "suffix", "configuration": {"suffix": ".tiff", "base-encoding": "v2"}})
    >>> keys.encode((0, 3)), keys.decode("0.3.tiff", 2)
    ('0.3.tiff', (0, 3))
    """
    encoding = extension_from_json(value, _FIELD)
    name, options = encoding.name, dict(encoding.configuration)
    base: Any = name
    suffix: Any = None
    if name == "suffix":
        suffix, base = options.pop("suffix", None), "default"
        for member in _BASES:
            base = options.pop(member, base)
    elif name == "zarrs.default_suffix":
        suffix = options.pop("suffix", None)
        base, options = {"name": "default", "configuration": options}, {}
    elif name == "fanout":
        return _fanout(options)
    elif name not in _PLAIN:
        raise UnsupportedError(f"unknown chunk key encoding {name!r:.40}", key=KEY, field=_FIELD)
    separator = options.pop("separator", _PLAIN[name][1]) if name in _PLAIN else "/"
    for member in options:
        raise UnsupportedError(f"the chunk key encoding {name!r} has no option {member!r:.40}", key=KEY, field=_FIELD)
    if name in _PLAIN:
        if separator not in (".", "/"):
            raise MetadataError(f"the separator must be . or /, not {separator!r:.40}", key=KEY, field=_FIELD)
        return _PLAIN[name][0](separator)
    if not isinstance(suffix, str) or not suffix or len(suffix) > _LONGEST or set(suffix) & {"/", "\0", "\\"}:
        raise MetadataError(f"{suffix!r:.40} is no suffix of keys", key=KEY, field=_FIELD)
    keys = keys_from_json(base)
    return replace(keys, suffix=keys.suffix + suffix, scalar=keys.scalar + suffix)


def _fanout(options: dict[str, Any]) -> ChunkKeyEncoding:
    most = options.pop("max_children", 1000)
    for member in options:
        raise UnsupportedError(f"the chunk key encoding 'fanout' has no option {member!r:.40}", key=KEY, field=_FIELD)
    # Python writes no integer of thousands of digits
    shown = f"{most!r:.40}" if type(most) is not int or abs(most) <= 10**_LONGEST else f"one of over {_LONGEST} digits"
    if type(most) is not int or most < 3:
        raise MetadataError(f"max_children must be a power of 10, not {shown}", key=KEY, field=_FIELD)
    digits = len(str(min(most, 10**_LONGEST))) - 1
    if most != 10**digits or not 2 <= digits <= _MOST_DIGITS:
        raise UnsupportedError(
            f"max_children of 'fanout' must be 100, 1000 or another power of 10, not {shown}; an older draft "
            "allows other numbers, but gives chunks other keys, such as d0/1/23/c: write the array again with the "
            "program that has written it, with a power of 10 or the encoding 'default'",
            key=KEY,
            field=_FIELD,
        )
    return fanout_keys(digits)


def keys_to_json(keys: ChunkKeyEncoding) -> dict[str, Any]:
    """Convert a chunk key encoding to the member of a document.

    Examples
    --------
    >>> keys_to_json(default_keys("."))
    {'name': 'default', 'configuration': {'separator': '.'}}
    """
    plain: dict[str, Any] = {"name": "default" if keys.prefix else "v2", "configuration": {"separator": keys.separator}}
    if keys.digits:
        plain = {"name": "fanout", "configuration": {"max_children": 10**keys.digits}}
    if not keys.suffix:
        return plain
    return {"name": "suffix", "configuration": {"suffix": keys.suffix, _BASES[0]: plain}}
