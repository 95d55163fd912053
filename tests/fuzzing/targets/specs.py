"""JSON of TensorStore's interface: specs of every driver, URLs, transforms, schemas and their parts."""

from __future__ import annotations

import functools
import importlib
import json
import random
from typing import Any

from ..mutations import TEXTS, change_json, change_text, dump
from ..outcomes import Case, Violation, short
from ..seeds import specs

__all__ = ["Specs"]

_KEYWORD = ("IndexTransform", "IndexDomain", "OutputIndexMap", "Dim")
_MOST_ELEMENTS = 2**12
_MARKS = (
    "|",
    ":",
    "//",
    "/",
    "?",
    "#",
    "@",
    "%2e",
    "%",
    "zip:",
    "zarr3:",
    "memory:",
    "..",
    "json:",
    "gs://",
    "s3://",
    "auto:",
)


@functools.cache
def _kind(name: str) -> Any:
    found: Any = importlib.import_module("tegula.tensorstore")
    for part in name.split("."):
        found = getattr(found, part)
    return found


class Specs:
    """The JSON of a spec or of a part of one; what is opened is in memory."""

    name = "specs"

    def make(self, rng: random.Random) -> Case:
        """Change valid JSON."""
        kind, sound = rng.choice(specs())
        if isinstance(sound, str) and rng.random() < 0.8:
            text = json.dumps(change_text(rng, sound, _MARKS + TEXTS))
        else:
            text = dump(change_json(rng, sound))
        return {"kind": kind, "text": text}

    def run(self, case: Case) -> str:
        """Read the JSON, convert the result to JSON and back, and open and read a spec in memory."""
        try:
            value = json.loads(case["text"])
        except (ValueError, RecursionError):
            return "no JSON"
        kind, name = _kind(case["kind"]), case["kind"]
        if name in _KEYWORD:
            if name in ("OutputIndexMap", "Dim"):
                if isinstance(value, dict):
                    str(kind(**value))
                return "accepted"
            made = kind(json=value)
        else:
            made = kind(value)
        repr(made), str(made)
        if name == "Context":  # has no JSON; its spec does
            return "accepted"
        first = made.to_json()
        again = kind(json=first) if name in _KEYWORD else kind(first)
        if json.dumps(again.to_json(), sort_keys=True) != json.dumps(first, sort_keys=True):
            raise Violation("round trip", f"{short(again.to_json())} of {short(first)}")
        if name == "Spec" and "file" not in case["text"] and "zip" not in case["text"]:
            self._open(value)
        return "accepted"

    def _open(self, value: Any) -> None:
        """Open it, also in an empty context, and read a few elements."""
        ts = importlib.import_module("tegula.tensorstore")
        context = ts.Context()
        flags = (
            {"create": True}
            if isinstance(value, dict) and str(value.get("driver")).startswith(("zarr", "bcolz"))
            else {}
        )
        array = ts.open(value, context=context, **flags).result()
        repr(array), array.spec().to_json(), array.schema.to_json(), array.chunk_layout.to_json()
        if array.rank and all(size > 0 for size in array.shape):
            corner = tuple(array.domain.inclusive_min)
            array[corner].read().result()
            if array.size <= _MOST_ELEMENTS and array.mode == "rw":
                array[corner] = array[corner].read().result()
        if array.size <= _MOST_ELEMENTS:
            array.read().result()
