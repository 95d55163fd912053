"""Keys passed to every store: whatever they are, nothing outside the store is touched."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import weakref
from typing import Any

import tegula
from tegula.errors import TegulaError

from ..arrays import outcome
from ..mutations import TEXTS, change_text
from ..outcomes import Case, Violation, short

__all__ = ["Keys"]

_SOUND = (
    "a",
    "c/0",
    "a/b/c",
    "zarr.json",
    "é",
    "link/x",
    "dir/x",
    "file",
    "dir",
    "up/outside",
    "loop/x",
    "abs/secret",
    "tofile",
)
_PIECES = (
    "..", ".", "/", "//", "\\", "\0", "../", "/..", "..\\", "link", "up", "abs", "loop", "dir", "file", "tofile",
    "secret",
    "outside", "%2e%2e", "%2f", "\ud800", "x" * 300, "a/" * 300, ".tegula-lock", ".tegula-", "CON", "~", "$HOME",
    "\n", ":", "file:", "\u2215", "\uff0e\uff0e", "e\u0301", " ", ". ", "C:",
)  # fmt: skip
_SECRET = b"must not be visible"


def _tidy(archive: tegula.ZipStore, folder: str) -> None:
    archive.close()
    shutil.rmtree(folder, ignore_errors=True)


class Keys:
    """A key or prefix, and what is done with it in stores of every kind."""

    name = "keys"

    def __init__(self) -> None:
        top = self._top = tempfile.mkdtemp(prefix="tegula-fuzz-")
        self._outside = os.path.join(top, "outside")
        self._inside = os.path.join(top, "inside", "store")
        os.makedirs(os.path.join(self._inside, "dir"))
        os.makedirs(self._outside)
        for path in (
            os.path.join(self._outside, "secret"),
            os.path.join(top, "secret"),
            os.path.join(top, "inside", "secret"),
        ):
            with open(path, "wb") as file:
                file.write(_SECRET)
        links = {"link": "dir", "up": "../..", "abs": self._outside, "loop": "loop", "tofile": "../secret"}
        for name, target in links.items():
            os.symlink(target, os.path.join(self._inside, name))
        self._stores: dict[str, Any] = {
            "local": tegula.LocalStore(self._inside),
            "memory": tegula.MemoryStore(),
            "mapping": tegula.MappingStore({}),
            "zip": tegula.ZipStore(os.path.join(top, "inside", "x.zip"), "w"),
        }
        weakref.finalize(self, _tidy, self._stores["zip"], top)
        self._seen = self._look()

    def _look(self) -> Any:
        """Return what is in the directories around the store."""
        top = self._top
        seen = [sorted(os.listdir(path)) for path in (top, os.path.join(top, "inside"), self._outside)]
        for path in (
            os.path.join(self._outside, "secret"),
            os.path.join(top, "secret"),
            os.path.join(top, "inside", "secret"),
        ):
            with open(path, "rb") as file:
                seen.append(file.read())
        return seen

    def make(self, rng: random.Random) -> Case:
        """Put a key together."""
        if rng.random() < 0.5:
            key = change_text(rng, rng.choice(_SOUND), _PIECES + TEXTS)
        else:
            key = "/".join(rng.choice(_PIECES + _SOUND) for _ in range(rng.randint(1, 4)))
        action = rng.choice(
            ("get", "get", "set", "set", "delete", "list_prefix", "list_dir", "size", "exists", "delete_prefix")
        )
        return {
            "key": key,
            "action": action,
            "store": rng.choice(("local", "local", "local", "memory", "mapping", "zip")),
        }

    def run(self, case: Case) -> str:
        """Carry it out, and check that nothing outside has changed."""
        store, key, action = self._stores[case["store"]], case["key"], case["action"]
        found = outcome(lambda: self._act(store, action, key))
        if self._look() != self._seen:
            raise Violation("escape", f"{action} of {key!r} changed something outside of the store")
        if found == _SECRET:
            raise Violation("escape", f"{action} of {key!r} read something outside of the store")
        if isinstance(found, list) and any("secret" in str(item) for item in found):
            outside = [item for item in found if outcome(lambda item=item: store.get(item)) == _SECRET]
            if outside:
                raise Violation("escape", f"{action} of {key!r} lists {short(outside)}")
        return f"refused {type(found).__name__}" if isinstance(found, TegulaError) else "accepted"

    def _act(self, store: Any, action: str, key: str) -> Any:
        if action == "set":
            store.set(key, b"value")
            if (found := store.get(key)) != b"value":
                raise Violation("key", f"{key!r} was set, and is {short(found)}")
            store.delete(key)
            if store.get(key) is not None:
                raise Violation("key", f"{key!r} is still there")
            return None
        if action in ("list_prefix", "list_dir", "delete_prefix"):
            found = getattr(store, action)(key)
            return [*found] if found is not None else None
        return getattr(store, action)(key)
