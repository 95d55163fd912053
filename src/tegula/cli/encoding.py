"""The options of commands that write arrays anew: their format, chunks and codecs, and how these are read from text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer

from tegula.cli.completion import complete_codecs
from tegula.cli.help import ENCODING
from tegula.errors import SelectionError

__all__ = [
    "BitRound", "Chunks", "Codecs", "Consolidated", "DType", "EncodingFormat", "Format", "ScaleOffset", "Shards",
    "StoreChecksum", "consolidated_argument", "encoding_options", "parse_codecs", "parse_lengths", "parse_numbers",
    "parse_option", "parse_rules",
]  # fmt: skip

_encoding = partial(typer.Option, rich_help_panel=ENCODING)


class EncodingFormat(StrEnum):
    """The formats that can be written."""

    zarr1 = "zarr1"
    zarr2 = "zarr2"
    zarr3 = "zarr3"
    bcolz = "bcolz"
    n5 = "n5"


Format = Annotated[
    EncodingFormat | None,
    _encoding(help="Storage format. [default: by the suffix of TARGET, else zarr3]"),
]
Chunks = Annotated[
    str | None,
    _encoding(
        metavar="N,N,...|DIM=N,...|ARRAY=N,N,...;...|auto",
        help="Chunk shape, -1 for a whole axis: for all arrays of that number of dimensions, or by dimension "
        "(time=24,lat=45) or array (tas=24,45,90;model/*=auto). [default: as in SOURCE]",
    ),
]
Shards = Annotated[
    str | None,
    _encoding(
        metavar="N,N,...|DIM=N,...|ARRAY=N,N,...;...|auto|none",
        help="Shard shape, written like --chunks. [default: as in SOURCE]",
    ),
]
Codecs = Annotated[
    str | None,
    _encoding(
        metavar="NAME,...|JSON|ARRAY=NAME,...;...|auto|none",
        help="Codecs for all arrays, or by array (tas=zstd;time=none). [default: as in SOURCE]",
        autocompletion=complete_codecs,
    ),
]
DType = Annotated[
    str | None,
    _encoding(metavar="TYPE|ARRAY=TYPE;...", help="Data type, such as f4, for numbers. [default: as in SOURCE]"),
]
ScaleOffset = Annotated[
    str | None,
    _encoding(
        metavar="SCALE,OFFSET|ARRAY=SCALE,OFFSET",
        help="Pack values in --dtype: value = packed * SCALE + OFFSET.",
    ),
]
BitRound = Annotated[
    str | None,
    _encoding(metavar="BITS|ARRAY=BITS,...", help="Bits of the fraction of floating-point numbers to keep."),
]
StoreChecksum = Annotated[bool, _encoding("--checksum", help="Store a checksum with each chunk.")]
Consolidated = Annotated[
    bool | None,
    _encoding(help="Write consolidated metadata. [default: if SOURCE has it]", show_default=False),
]


def encoding_options(
    format: EncodingFormat | None,
    chunks: str | None,
    shards: str | None,
    codecs: str | None,
    dtype: str | None,
    scale_offset: str | None,
    bitround: str | None,
    *,
    checksum: bool,
) -> dict[str, Any]:
    """Return the arguments of `tegula.convert` for these options."""
    return {
        "format": None if format is None else format.value,
        "chunks": parse_option(_by_name(parse_lengths), chunks, "--chunks"),
        "shards": parse_option(_by_name(parse_lengths), shards, "--shards"),
        "codecs": parse_option(_by_name(parse_codecs), codecs, "--codecs"),
        "dtype": parse_option(_by_name(str.strip), dtype, "--dtype"),
        "scale_offset": parse_option(_by_name(parse_numbers), scale_offset, "--scale-offset"),
        "bitround": parse_option(_by_name(int), bitround, "--bitround"),
        "checksum": checksum,
    }


def consolidated_argument(wanted: bool | None) -> Any:
    """Return the argument `consolidated` of `tegula.convert`.

    Examples
    --------
    >>> consolidated_argument(None), consolidated_argument(False)
    ('auto', False)
    """
    return "auto" if wanted is None else wanted


def parse_option(parse: Any, text: str | None, option: str) -> Any:
    """Parse the value of an option that was given, with errors that name the option."""
    try:
        return None if text is None else parse(text)
    except (SelectionError, ValueError, RecursionError) as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _by_name(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: parse_rules(text, parse)


def parse_rules(text: str, parse: Callable[[str], Any]) -> Any:
    """Parse one value, or rules ``NAME=VALUE`` separated by ``,`` or ``;``.

    Parameters
    ----------
    text : str
        The value of an option.
    parse : callable
        Parses one value.

    Returns
    -------
    object
        The value, or a dict of values by name.

    Raises
    ------
    ValueError
        If a rule has no name or no value, or two rules have the same name.

    Examples
    --------
    >>> parse_rules("time=24,lat=45", parse_lengths), parse_rules("tas=24,45,90;lat=90", parse_lengths)
    ({'time': 24, 'lat': 45}, {'tas': (24, 45, 90), 'lat': 90})
    >>> parse_rules("tas=shuffle,zstd;*=none", parse_codecs), parse_rules("24,45", parse_lengths)
    ({'tas': ['shuffle', 'zstd'], '*': False}, (24, 45))
    """
    if "=" not in text or text.lstrip()[:1] in ("[", "{", '"'):
        return parse(text)
    # commas also separate the numbers of one value: a comma ends a rule only where NAME= follows
    rules: dict[str, Any] = {}
    for part in text.split(";"):
        is_json = re.match(r"[^=]*=\s*[\[{\"]", part)
        for piece in [part] if is_json else re.split(r",(?=[^,=]*=)", part):
            if not piece.strip():
                continue
            name, equals, value = (word.strip() for word in piece.partition("="))
            if not (name and equals and value):
                raise ValueError(f"{piece.strip()!r:.80} is not NAME=VALUE")
            if name in rules:
                raise ValueError(f"there are two rules for {name!r:.80}")
            rules[name] = parse(value)
    return rules


def parse_lengths(text: str) -> Any:
    """Parse the shape of chunks or shards.

    Examples
    --------
    >>> parse_lengths("100,-1"), parse_lengths("100"), parse_lengths("[[3, 4], 5]"), parse_lengths("auto")
    ((100, -1), 100, [[3, 4], 5], 'auto')
    """
    word = text.strip().lower()
    if word in ("auto", "none"):
        return "auto" if word == "auto" else False
    if word.startswith(("[", "{")):
        return json.loads(text)
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*(,\s*[+-]?[0-9]{1,18}\s*)*,?\s*", word):
        raise ValueError(f"{text!r:.80} is neither 'auto' nor a comma-separated list of ints")
    lengths = tuple(int(part) for part in word.split(",") if part.strip())
    return lengths if "," in word else lengths[0]


def parse_numbers(text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas.

    Examples
    --------
    >>> parse_numbers("0.01,273.15")
    (0.01, 273.15)
    """
    return tuple(float(part) for part in text.split(","))


def parse_codecs(text: str) -> Any:
    """Parse names of codecs, or codecs in JSON.

    Examples
    --------
    >>> parse_codecs("shuffle,zstd"), parse_codecs('{"name": "zstd", "configuration": {"level": 9}}')
    (['shuffle', 'zstd'], {'name': 'zstd', 'configuration': {'level': 9}})
    """
    word = text.strip()
    if word in ("auto", "none"):
        return "auto" if word == "auto" else False
    if word.startswith(("[", "{", '"')):
        return json.loads(word)
    names = [name.strip() for name in word.split(",")]
    if not all(names):
        raise ValueError(f"{text!r:.80} is not a comma-separated list of codec names")
    return names
