"""The charts, and what the page about performance says of them, follow from the tables in docs/benchmarks.md."""

import re
import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.once(executors="both")

ROOT = Path(__file__).resolve().parents[2]
CHART = runpy.run_path(str(ROOT / "docs/assets/chart.py"))
PAGE = CHART["PAGE"].read_text(encoding="utf-8")


def test_the_charts_are_drawn_from_the_tables() -> None:
    drawn = CHART["CHART"].read_text(encoding="utf-8")
    assert CHART["draw"](CHART["read_bars"](PAGE)) == drawn, "run: just chart"
    drawn = CHART["MEANS"].read_text(encoding="utf-8")
    assert CHART["draw"](CHART["read_means"](PAGE), CHART["HEADING"]) == drawn, "run: just chart"


def test_the_performance_page_says_how_often_others_are_faster() -> None:
    rows = re.search(r"^\| all \| (\d+) \|", PAGE, re.MULTILINE)
    slower = re.search(r"^Rows where a peer is faster: (\d+)\.", PAGE, re.MULTILINE)
    assert rows is not None
    assert slower is not None
    text = " ".join((ROOT / "docs/performance.md").read_text(encoding="utf-8").split())
    assert f"{slower[1]} of {rows[1]} " in text
