"""The page about extensions of Zarr v3 says what works; ``python -m tests.docs.test_extensions_page`` rewrites it."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path

import pytest
from tests.docs.extension_cases import CASES, PEERS, outcome_of

from tegula.runtime import executors

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "extensions.md"
LIBRARIES = {"zarr": "zarr-python", "tensorstore": "TensorStore", "zarrs": "zarrs"}


def tables() -> str:
    """Return the tables of the page."""
    peers = json.loads(PEERS.read_text())
    heads = [f"{title} {peers[peer]['version']}" for peer, title in LIBRARIES.items() if peer != "zarrs"]
    heads.append(f"zarrs (zarrista {peers['zarrs']['version']})")
    parts = []
    for kind, cases in groupby(CASES, key=lambda case: case.kind):
        lines = [f"| {kind} | tegula | runs in | {' | '.join(heads)} |", "|---" * (3 + len(heads)) + "|"]
        for case in cases:
            answers = [peers[peer]["reads"].get(f"{kind} {case.name}", False) for peer in LIBRARIES]
            said = ["reads" if answer else "no" for answer in answers]
            lines.append(f"| `{case.name}` | {' | '.join((*outcome_of(case), *said))} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def split_page() -> tuple[str, str, str]:
    """Return the page before, in and after its tables."""
    found = re.fullmatch(r"(?s)(.*?\n)(\| data type .*?\n)(\n## .*)", PAGE.read_text(encoding="utf-8"))
    assert found is not None
    return found[1], found[2], found[3]


def test_the_page_says_what_works() -> None:
    pytest.importorskip("ml_dtypes")
    pytest.importorskip("zfpy")
    if executors.kernel() is None:
        pytest.skip("the page says what runs in the kernel")
    assert split_page()[1].splitlines() == tables().splitlines()


def test_every_answer_is_about_a_case() -> None:
    names = {f"{case.kind} {case.name}" for case in CASES}
    for peer in json.loads(PEERS.read_text()).values():
        assert set(peer["reads"]) <= names


if __name__ == "__main__":
    before, _, after = split_page()
    PAGE.write_text(before + tables() + after, encoding="utf-8")
