"""What people type: selections and codecs of the command line, expressions over tables."""

from __future__ import annotations

import functools
import importlib
import random
from typing import Any

import numpy as np

import tegula

from ..mutations import HUGE, TEXTS, change_text
from ..outcomes import Case, Skipped, Violation, short

__all__ = ["Expressions", "Texts"]

_SELECTIONS = (
    "0:10, ..., -1",
    "[::2, 'wind speed', u]",
    "x.zarr::a[0, ::2]",
    "['a', \"b\"]",
    "-1",
    "[a, b]",
    "x[[a]]",
    "::-1",
)
_CODECS = (
    "shuffle,zstd", "auto", "none", '{"name": "zstd", "configuration": {"level": 9}}', "blosc", "gzip,crc32c",
    '[{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 1}]', "numcodecs.lzma", "sharding_indexed", "",
)  # fmt: skip
_LENGTHS = ("10,20", "auto", "-1,5", "1", "[3, 4],5")
_MARKS = (
    "[",
    "]",
    "'",
    '"',
    ",",
    ":",
    "...",
    "::",
    "\\",
    "\\'",
    "-",
    "+",
    "(",
    ")",
    " ",
    "{",
    "}",
    "[[",
    "]]",
    "0" * 30,
)


class Texts:
    """Selections, codecs and lengths as options of the command line."""

    name = "texts"

    def make(self, rng: random.Random) -> Case:
        """Change a text."""
        kind, sound = rng.choice(
            (("selection", _SELECTIONS), ("split", _SELECTIONS), ("codecs", _CODECS), ("lengths", _LENGTHS))
        )
        text = change_text(rng, rng.choice(sound), _MARKS + TEXTS)
        if rng.random() < 0.01:
            text *= rng.choice((10, 500))
        return {"kind": kind, "text": text}

    def run(self, case: Case) -> str:
        """Read it, and make an array with the codecs in it, if any."""
        try:
            parse = importlib.import_module("tegula.extracts.selections")
            options = importlib.import_module("tegula.cli.encoding")
        except ImportError:  # without typer there is no command line
            raise Skipped from None
        text = case["text"]
        if case["kind"] == "selection":
            items = parse.parse_selection(text)
            if not all(isinstance(item, (int, slice, str, list, type(...))) for item in items):
                raise Violation("selection", short(items))
        elif case["kind"] == "split":
            place, _ = parse.split_selection(text)
            if not text.startswith(place):
                raise Violation("selection", short(place))
        else:
            try:
                codecs = (options.parse_lengths if case["kind"] == "lengths" else options.parse_codecs)(text)
            except (ValueError, RecursionError):  # the command line says that it is a bad parameter
                return "refused ValueError"
            if case["kind"] == "codecs":
                self._create(codecs)
        return "accepted"

    def _create(self, codecs: Any) -> None:
        for form in ("zarr3", "zarr2"):
            array = tegula.create_array(
                tegula.MemoryStore(), shape=4, chunks=2, dtype="<i4", codecs=codecs, format=form
            )
            array[...] = [1, 2, 3, 4]
            array[...]


_EXPRESSIONS = (
    "a > 2", "(a >= 1) & (x < 0.5)", "s == 'c'", "~(flag) | (a != 3)", "a + x * 2 > 3", "abs(x) <= 1e-3",
    "a in (1, 2, 3)",
    "contains(s, 'b')", "not flag and a > 1", "where(flag, a, x) > 1", "sqrt(x) < 1 or a == 0", "1 < a <= 5",
    "a % 2 == 0",
    "a ** 2 > 4", "t > '2020-01-01'", "sin(x) + cos(x) > 0", "startswith(s, 'a')", "a // 2 == 1", "a << 1 > 2",
    "-a < 0", "(a > 1) == flag", "n['x'] > 1", "sum(a) > 1", "x == nan", "floor(x)==1",
)  # fmt: skip
_WORDS = (
    "__import__('os')", "a.__class__", "lambda: 0", "(", ")", "[", "]", "'", "a", "x", "s", "flag", "t", "**", "<<",
    ">>", "//",
    "9**9**9", "1e400", "1j", "None", "True", "...", ":=", " if 1 else 0", "for x in a", "\n", ";", "#", "\\",
    "f'{a}'", "b''",
    "exec", "a" * 100, "((((((((((", "not ", "-" * 50, "~" * 50, "1 if a else 2", "*a", "in", "is", "@", "0x", "1_0",
    "é", "\0",
    "'a' * 99999999", "2 ** 70", "<", "==", "and", "or", "&", "|", "^", "%", "/", ",", "sum(", "where(", "abs()",
    "complex(a, x)",
)  # fmt: skip


@functools.cache
def _table() -> tuple[Any, dict[str, Any]]:
    columns = {
        "a": np.arange(-3, 9), "x": np.linspace(-1, 1, 12), "s": np.array([*"abcdefabcdef"]),
        "flag": np.arange(12) % 3 == 0, "t": np.arange("2020-01-01", "2020-01-13", dtype="M8[D]"),
    }  # fmt: skip
    return tegula.create_table(tegula.MemoryStore(), columns, format="zarr3"), columns


class Expressions:
    """Conditions on the rows of a table."""

    name = "expressions"

    def make(self, rng: random.Random) -> Case:
        """Change an expression, or put pieces together."""
        if rng.random() < 0.8:
            text = change_text(rng, rng.choice(_EXPRESSIONS), _WORDS)
        else:
            text = " ".join(rng.choice((rng.choice(_WORDS), str(rng.choice(HUGE)))) for _ in range(rng.randint(1, 12)))
        if rng.random() < 0.2:
            text = f"({text}) {rng.choice(('&', '|', 'and', '==', '+'))} ({rng.choice(_EXPRESSIONS)})"
        if rng.random() < 0.003:
            text = rng.choice(("(" * 5000 + text, "-" * 3000 + "a > 1", text + "+1" * 3000, "not " * 2000 + "flag"))
        return {"text": text}

    def run(self, case: Case) -> str:
        """Select the rows; the columns do not change."""
        table, columns = _table()
        with np.errstate(all="ignore"):
            rows = table.where(case["text"])
        if len(rows) > 12 or rows.dtype != table.dtype:
            raise Violation("rows", short(rows))
        if not np.isin(rows["a"], columns["a"]).all():
            raise Violation("rows", short(rows))
        return "accepted"
