"""The archives in ``tests/fixtures``: each has nodes that another library has written, and an index of them."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tegula

FIXTURES = Path(__file__).parent / "fixtures"
Case = tuple[str, dict[str, Any]]


def load_cases() -> list[Case]:
    cases: list[Case] = []
    for archive in sorted(FIXTURES.glob("*.zip")):
        with zipfile.ZipFile(archive) as opened:
            index = json.loads(opened.read("index.json"))
        cases += [(archive.stem, case) for case in index["cases"]]
    return cases


CASES = load_cases()
"""Name of the archive, and entry of its index, of each node."""


def of_kind(*kinds: str, but: str = "none") -> pytest.MarkDecorator:
    """Give a test the parameters `archive` and `case`, for nodes of some kinds.

    Archives whose names begin with `but` are left out.
    """
    chosen = [
        pytest.param(archive, case, id=f"{archive}-{case['case']}-{case['path']}".rstrip("-"))
        for archive, case in CASES
        if case["kind"] in kinds and not archive.startswith(but)
    ]
    return pytest.mark.parametrize(("archive", "case"), chosen)


def unpack_all(root: Path) -> Path:
    """Unpack each archive into a directory of its name."""
    for archive in FIXTURES.glob("*.zip"):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(root / archive.stem)
            copies = json.loads(opened.read("index.json")).get("copies", {})
        for name, original in copies.items():
            (root / archive.stem / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / archive.stem / original, root / archive.stem / name)
    return root


def open_case(folder: Path, case: dict[str, Any], **options: Any) -> Any:
    return tegula.open(folder / case["case"] / "store" / case.get("store", ""), path=case["path"], **options)
