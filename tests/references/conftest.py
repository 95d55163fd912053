"""The arrays and tables of the fixtures, each by the archive it is in, and their values."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tegula
from tegula.errors import TegulaError

FIXTURES = Path(__file__).parent.parent / "fixtures"


class Node(NamedTuple):
    """An array or table of the fixtures that tegula reads: its name, and its arrays by their paths in references."""

    name: str
    node: Any
    arrays: dict[str, Any]


class Corpus:
    """The fixtures, unpacked when they are asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def nodes(self, archive: str) -> list[Node]:
        """Return the arrays and tables of an archive; those that only the compiled kernel reads are left out."""
        folder = self.root / archive
        if not folder.exists():
            with zipfile.ZipFile(FIXTURES / f"{archive}.zip") as opened:
                opened.extractall(folder)
                index = json.loads(opened.read("index.json"))
            for name, original in index.get("copies", {}).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / original, folder / name)
        index = json.loads((folder / "index.json").read_text())
        cases = {(case["case"], case.get("store", ""), case["path"]): case for case in index["cases"]}
        found = []
        for (case, store, path), entry in cases.items():
            if entry["kind"] not in ("array", "table") or store.endswith(".zip"):
                continue
            try:
                node = tegula.open(folder / case / "store" / store, path=path, allow_pickle=True)
                if isinstance(node, tegula.Array):
                    arrays = {"x": node[...]}
                else:
                    arrays = {f"x/{name}": node[name][...] for name in node.names}
            except TegulaError:
                continue
            found.append(Node(f"{case}/{path}".rstrip("/"), node, arrays))
        return found


ARCHIVES = sorted(path.stem for path in FIXTURES.glob("*.zip") if not path.stem.startswith("anndata"))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The fixtures."""
    return Corpus(tmp_path_factory.mktemp("fixtures"))


@pytest.fixture(params=ARCHIVES)
def archive(request: pytest.FixtureRequest) -> str:
    """The name of one archive of fixtures after the other."""
    name: str = request.param
    return name


def equal(one: Any, two: Any) -> bool:
    """Return whether two arrays hold the same values, NaN included, whatever their byte order."""
    one, two = np.asarray(one), np.asarray(two)
    if one.shape != two.shape:
        return False
    if one.dtype.kind in "biufcmMSUV" and one.dtype.names is None and one.dtype.kind == two.dtype.kind:
        two = two.astype(one.dtype)
        if one.dtype.kind in "fc":
            with np.errstate(invalid="ignore"):  # some are signalling
                return bool(((one == two) | (np.isnan(one) & np.isnan(two))).all())
        return one.tobytes() == two.tobytes()
    return repr(one.tolist()) == repr(two.tolist())


@pytest.fixture(scope="session")
def same() -> Any:
    """The function that compares values."""
    return equal
