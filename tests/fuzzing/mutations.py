"""Changes that turn valid bytes and documents into hostile ones."""

from __future__ import annotations

import json
import random
import string
from typing import Any

__all__ = ["HUGE", "TEXTS", "change_bytes", "change_json", "change_text", "dump"]

HUGE = (
    0, 1, -1, 2, 7, 8, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62,
    2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**65, 10**30, -(2**31), -(2**63), -(2**63) - 1, -(10**30),
)  # fmt: skip
"""Numbers about which programs have been wrong."""

TEXTS = (
    "", " ", ".", "..", "/", "\\", "a/b", "../x", "0", "-1", "1e400", "NaN", "Infinity", "-Infinity", "nan",
    "0x7fc00000",
    "<f8", ">i2", "|S0", "|S3", "<U1", "|V4", "|O", "|O8", "<M8[ns]", "<m8[25s]", "<M8", "int8", "uint64", "float16",
    "bool",
    "bfloat16", "complex64", "string", "bytes", "r16", "r8", "r0", "r18446744073709551616", "numpy.datetime64",
    "struct",
    "C", "F", "little", "big", "regular", "rectilinear", "default", "v2", "zstd", "gzip", "blosc", "zlib", "lz4", "bz2",
    "lzma", "crc32c", "transpose", "sharding_indexed", "vlen-utf8", "vlen-bytes", "vlen-array", "pickle", "json2",
    "delta",
    "packbits", "astype", "fixedscaleoffset", "categorize", "base64", "shuffle", "noshuffle", "bitshuffle", "start",
    "end",
    "\0", "\ud800", "\u202e", "é", "e\u0301", "\U0001f40d", "%s%n", "{}", "[]", "null", "A" * 300, "AAAA", "====",
)  # fmt: skip
"""Words of the formats, and texts about which programs have been wrong."""

_DEPTHS = (5, 60, 900, 3000, 100_000)


def change_bytes(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """Return what was done to bytes, and the result."""
    size = len(data)
    if not size:
        return "noise", rng.randbytes(rng.randint(1, 40))
    kind = rng.choice(
        ("bytes", "bytes", "bytes", "bits", "bits", "number", "number", "truncate", "extend", "cut", "noise")
    )
    if kind == "truncate":
        return kind, data[: rng.randrange(size)]
    if kind == "extend":
        return kind, data + rng.choice((bytes(rng.randint(1, 9)), rng.randbytes(rng.randint(1, 9)), data))
    if kind == "noise" and rng.random() < 0.5:
        return kind, rng.randbytes(rng.randint(0, 60))
    changed = bytearray(data)
    if kind in ("cut", "noise"):
        at = rng.randrange(size)
        part = b"" if kind == "cut" else rng.randbytes(rng.randint(1, 8))
        changed[at : at + rng.randint(0, 8)] = part
    elif kind == "number":
        width = rng.choice((1, 2, 4, 4, 8))
        number = (rng.choice(HUGE) % 2 ** (8 * width)).to_bytes(width, rng.choice(("little", "big")))
        # lengths are at the beginning, or at the end
        at = rng.choice((rng.randrange(size), rng.randrange(min(size, 24)), max(0, size - rng.randint(1, 24))))
        changed[at : at + width] = number[: size - at]
    else:
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            at = rng.randrange(size) if rng.random() < 0.6 else rng.randrange(min(size, 32))
            if kind == "bits":
                changed[at] ^= 1 << rng.randrange(8)
            else:
                changed[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return kind, bytes(changed)


def change_text(rng: random.Random, text: str, words: tuple[str, ...] = TEXTS) -> str:
    """Return text with pieces replaced, added and removed."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randint(0, len(text))
        length = rng.choice((0, 1, 1, 3, 10))
        piece = rng.choice(
            (
                rng.choice(words),
                rng.choice(string.printable),
                str(rng.choice(HUGE)),
                "",
                text[at : at + 8] * rng.randint(0, 3),
            )
        )
        text = text[:at] + piece + text[at + length :]
    return text


class _Raw:
    """JSON that `json.dumps` would not write: written as it is."""

    def __init__(self, text: str) -> None:
        self.text = text


def _value(rng: random.Random, old: Any) -> Any:
    """Return something else for a value of a document, often of the same kind."""
    if rng.random() < 0.5:
        if isinstance(old, bool):
            return not old
        if isinstance(old, int):
            return rng.choice((old + 1, old - 1, -old, old * 2, float(old), str(old), rng.choice(HUGE)))
        if isinstance(old, str):
            return rng.choice((change_text(rng, old), rng.choice(TEXTS), old.upper(), [old], old + "\n"))
        if isinstance(old, list):
            return rng.choice((old[:-1], old + old[-1:], old[::-1], old * 3, [old], [*old, rng.choice(HUGE)], {}))
        if isinstance(old, dict):
            return rng.choice(([old], [*old], {}, [[*pair] for pair in old.items()], None))
    depth = rng.choice(_DEPTHS[:3]) if rng.random() < 0.9 else rng.choice(_DEPTHS)
    return rng.choice(
        (
            None, True, False, 0, 1, "", [], {}, [[]], rng.choice(HUGE), rng.choice(HUGE), rng.choice(TEXTS),
            rng.choice(TEXTS), 0.5, -0.0, 1.5e300, [rng.choice(HUGE)] * rng.choice((1, 2, 3, 40)),
            {"name": rng.choice(TEXTS), "configuration": {rng.choice(TEXTS): rng.choice(HUGE)}},
            {"id": rng.choice(TEXTS), rng.choice(TEXTS): rng.choice(HUGE)},
            [["a", rng.choice(TEXTS)], ["b", rng.choice(TEXTS), [rng.choice(HUGE)]]],
            _Raw(rng.choice(("NaN", "Infinity", "-Infinity", "1e999", "-0", "1E5", "01", "1.", "'a'", "nul",
            "9" * 5000))), _Raw("[" * depth + "]" * depth), _Raw('{"a":' * depth + "1" + "}" * depth),
            _Raw('"' + "x" * rng.choice((100, 70_000)) + '"'),
            _Raw(rng.choice(('"\\ud800"', '"\\u0000"', '"\\x"', '"\t"', '"\\/"', '"\\uD83D\\uDE00"'))),
        )
    )  # fmt: skip


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Collect every container and key or index in a document."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found.append((value, key))
        _places(item, found)
    return found


def change_json(rng: random.Random, document: Any) -> Any:
    """Return a document with members replaced, removed, renamed, moved, added or given twice.

    The old one is not changed. The result may hold what only `dump` can write.
    """
    document = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = _places(document, [])
        if not places or rng.random() < 0.01:
            return _value(rng, document)
        container, key = rng.choice(places)
        if isinstance(container, list) and key >= len(container):
            continue
        action = rng.choice(("replace",) * 6 + ("remove", "remove", "add", "rename", "swap", "twice"))
        if action == "replace":
            container[key] = _value(rng, container[key])
        elif action == "remove":
            del container[key]
        elif action == "swap":
            other, place = rng.choice(places)
            if isinstance(other, dict) or place < len(other):
                container[key] = json.loads(json.dumps(other[place], default=lambda raw: raw.text))
        elif isinstance(container, list):
            container.insert(rng.randint(0, len(container)), _value(rng, container[key]))
        elif action == "rename":
            container[rng.choice(TEXTS)] = container.pop(key)
        elif action == "add":
            container[rng.choice((rng.choice(TEXTS), change_text(rng, key)))] = _value(rng, container[key])
        else:
            container[_Twice(key)] = _value(rng, container[key])
    return document


class _Twice(str):
    """A name that is not equal to itself, so that a mapping can have it twice."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


def dump(value: Any) -> str:
    """Write a document that `change_json` made."""
    if isinstance(value, _Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {dump(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dump, value)) + "]"
    return json.dumps(value)
