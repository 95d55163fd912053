"""Valid stores to begin with: what other implementations wrote (the fixtures), and tegula (``corpus/seeds.zip``)."""

from __future__ import annotations

import functools
import json
import zipfile
from pathlib import Path
from typing import Any

__all__ = ["CORPUS", "own_archives", "stores"]

CORPUS = Path(__file__).parent / "corpus"
_FIXTURES = Path(__file__).parent.parent / "fixtures"
_LARGEST = 8192


@functools.cache
def stores() -> dict[str, dict[str, bytes]]:
    """Return the keys and values of every store that is small, by the name of its archive and case."""
    found: dict[str, dict[str, bytes]] = {}
    for path in [*sorted(_FIXTURES.glob("*.zip")), CORPUS / "seeds.zip"]:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                case, _, rest = info.filename.partition("/")
                if rest.startswith("store/") and not rest.endswith("/"):
                    found.setdefault(f"{path.stem}:{case}", {})[rest.removeprefix("store/")] = archive.read(info)
    return {name: store for name, store in found.items() if sum(map(len, store.values())) <= _LARGEST}


@functools.cache
def own_archives() -> dict[str, bytes]:
    """Return zip archives of several writers by name."""
    with zipfile.ZipFile(CORPUS / "seeds.zip") as archive:
        names = [name for name in archive.namelist() if name.startswith("archives/")]
        return {name.removeprefix("archives/"): archive.read(name) for name in names}


@functools.cache
def specs() -> list[Any]:
    """Return specs and other JSON of TensorStore's interface: pairs of its kind and the JSON."""
    with zipfile.ZipFile(CORPUS / "seeds.zip") as archive:
        return [*json.loads(archive.read("specs.json"))]
