"""Metadata documents of every format, changed and then used: opened, inspected, read, converted."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import tegula
from tegula import config
from tegula.errors import TegulaError

from ..arrays import executors_here, outcome, same
from ..mutations import change_bytes, change_json, dump
from ..outcomes import Case, Skipped, Violation, short
from ..seeds import stores

__all__ = ["Documents", "explore"]

_NAMES = (
    "zarr.json", "meta", "attrs", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "meta/sizes", "meta/storage",
    "__attrs__", "__rootdirs__", "__hdf5__", "attributes.json",
)  # fmt: skip
_LARGEST = 2**16
_ROUNDING = {f"numcodecs.{name}" for name in ("quantize", "bitround", "fixedscaleoffset", "astype")}
_MOST_CHUNKS = 500
_FORMATS = ("zarr1", "zarr2", "zarr3", "bcolz", "n5", "zarr3_draft")


def _is_document(key: str) -> bool:
    return key.startswith("meta/root") or any(key == name or key.endswith("/" + name) for name in _NAMES)


@functools.cache
def _documents() -> list[tuple[str, str, Any]]:
    """Return store, key and JSON (``None`` if it is not JSON) of each document of the corpus."""
    found = []
    for name, store in stores().items():
        for key, data in store.items():
            if _is_document(key):
                try:
                    found.append((name, key, json.loads(data)))
                except (ValueError, RecursionError):
                    found.append((name, key, None))
    return found


class Documents:
    """A store of the corpus in which one document was changed."""

    name = "documents"

    def make(self, rng: random.Random) -> Case:
        """Choose a document and change it: mostly as JSON, else as bytes."""
        name, key, document = rng.choice(_documents())
        if document is not None and rng.random() < 0.8:
            data = dump(change_json(rng, document)).encode("utf-8", "surrogatepass")
        else:
            _, data = change_bytes(rng, stores()[name][key])
        return {
            "store": name,
            "key": key,
            "data": data,
            "more": rng.choice(("", "", "", "attributes", "convert", "format")),
        }

    def run(self, case: Case) -> str:
        """Open the store and use its nodes."""
        contents = stores().get(case["store"])
        if contents is None:
            raise Skipped
        more = case["more"]
        store = tegula.MemoryStore({**contents, case["key"]: case["data"]})
        if more == "format":
            return _try_formats(store)
        node = tegula.open(store, "r+" if more == "attributes" else "r")
        notes = explore(node)
        if more == "attributes":
            _change_attributes(store, node)
        elif more == "convert":
            _convert(store, node)
        return ",".join(["accepted", *sorted(notes)])


def _try_formats(store: tegula.MemoryStore) -> str:
    """Open a store as one of each format: one at most is right."""
    for form in _FORMATS:
        with suppress(TegulaError):
            explore(tegula.open(store, format=form))
    return "accepted"


def explore(node: Any, depth: int = 0) -> set[str]:
    """Use a node in ways that should not fail, and read it; return what was refused."""
    notes: set[str] = set()
    str(node), repr(node), dict(node.attrs), str(node.info)
    if isinstance(node, tegula.Array):
        notes |= _read(node)
    elif isinstance(node, tegula.Table):
        _try(notes, lambda: (len(node), node.dtype, node.lengths, node.is_consistent))
        _try(notes, lambda: [explore(node[name]) for name in node.names])
        _try(notes, lambda: node[:2])
    else:
        str(node.tree(3)), [*node], len(node)
        members = dict(node.members({}))
        _try(notes, lambda: [*node.walk({}, implicit=True)])
        _try(notes, lambda: [*node.with_consolidated().walk({})])
        if depth < 3:
            for member in members.values():
                _try(notes, lambda member=member: notes.update(explore(member, depth + 1)))
    return notes


def _try(notes: set[str], call: Callable[[], Any]) -> None:
    found = outcome(call)
    if isinstance(found, TegulaError):
        notes.add(f"later {type(found).__name__}")


def _read(array: Any) -> set[str]:
    """Read the first element, the last ones, and all if that is little, by each executor."""
    notes: set[str] = set()
    selections: list[Any] = [(0,) * array.ndim, (slice(-1, None),) * array.ndim]
    if array.nbytes <= _LARGEST and array.nchunks <= _MOST_CHUNKS:
        selections.append(...)
    results = []
    for executor in executors_here():
        with config.configure(executor=executor):
            results.append([outcome(lambda chosen=chosen: array[chosen]) for chosen in selections])
    for native, defined in zip(results[0], results[-1]):
        failed = [isinstance(result, TegulaError) for result in (native, defined)]
        if failed != [True, True] and (any(failed) or not same(native, defined)):
            skips = array.metadata.codecs[-1].name in ("blosc", "numcodecs.blosc", "blpk")
            if failed != [False, True] or not skips:
                raise Violation("disagreement", f"the kernel says {short(native)}, the reference {short(defined)}")
        if isinstance(defined, TegulaError):
            notes.add(f"later {type(defined).__name__}")
    return notes


def _change_attributes(store: tegula.MemoryStore, node: Any) -> None:
    """Set an attribute: what is opened afterwards has it, and all others as they were."""
    before = dict(node.attrs)
    node.attrs["fuzz"] = [1, "two"]
    after = dict(tegula.open(store).attrs)
    # nothing is known of the order, and NaN is not equal to itself
    if repr(sorted(after.items())) != repr(sorted({**before, "fuzz": [1, "two"]}.items())):
        raise Violation("attributes", f"{short(after)} after {short(before)}")


def _convert(store: tegula.MemoryStore, node: Any) -> None:
    """Convert an array to Zarr v3: its values are the same."""
    if not isinstance(node, tegula.Array) or node.nbytes > _LARGEST or node.nchunks > _MOST_CHUNKS:
        return
    before = outcome(lambda: node[...])
    target = tegula.MemoryStore()
    tegula.convert(store, target, format="zarr3")
    after = tegula.open(target)[...]
    if isinstance(before, TegulaError):
        raise Violation("convert", f"converted in spite of {short(before)}")
    if _ROUNDING & {codec.name for codec in node.metadata.codecs}:
        return  # values that were stored by another rule are rounded by the rule that the document states now
    if before.tolist() != after.tolist() and repr(before.tolist()) != repr(after.tolist()):
        raise Violation("convert", f"{short(after)} made of {short(before)}")
