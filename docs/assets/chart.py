"""Draw two charts from the tables in docs/benchmarks.md: single rows, and the means of all regimes. ``just chart``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "benchmarks.md"
CHART = HERE / "performance.svg"
MEANS = HERE / "regimes.svg"
HEADING = "rows, and the slowest of them"

CASE = "v3-128k-lz4-u2"
# case and regime of each bar, and its label
BARS = [
    (CASE, "read", "read everything"),
    (CASE, "first read", "read everything, new memory"),
    (CASE, "write", "write a new array"),
    (CASE, "overwrite", "overwrite an array"),
    (CASE, "append", "append"),
    (CASE, "update", "update 32 × 32 squares"),
    (CASE, "windows", "read 32 × 32 squares"),
    (CASE, "columns", "read columns"),
    (CASE, "points", "single points"),
    (CASE, "vectorised points", "500 points in one call"),
    (CASE, "open", "open an array"),
    ("group-zarr3-10000", "arrays", "open 10,000 arrays of a group"),
    ("group-zarr3-10000", "names", "list 10,000 names of a group"),
    ("import", "import", "import the library"),
]
PEERS = {"ts": "TensorStore", "tsdef": "TensorStore", "zarr2": "zarr-python 2", "zarr3": "zarr-python 3"}

WIDTH, LEFT, RIGHT = 760, 210, 500  # of the picture, and of the bars in it
TOP, STEP, BAR = 40, 27, 17
LEAST, MOST = 0.5, 8  # of the axis, which is logarithmic

STYLE = """
.tegula-chart { --ink: var(--md-default-fg-color, #1f2430); --soft: var(--md-default-fg-color--light, #5b6270);
  --line: var(--md-default-fg-color--lightest, #d5d9e0); --mark: #4f63d2; --slow: #c77700;
  font-family: system-ui, Roboto, "DejaVu Sans", sans-serif; width: 100%; max-width: 760px; height: auto;
  display: block; margin: 0 auto }
.tegula-chart text { fill: var(--ink); font-size: 13px }
.tegula-chart .soft { fill: var(--soft); font-size: 12px }
.tegula-chart .grid { stroke: var(--line); stroke-width: 1 }
.tegula-chart .one { stroke: var(--soft); stroke-width: 1.5 }
.tegula-chart .fast { fill: var(--mark) }
.tegula-chart .slow { fill: var(--slow) }
@media (prefers-color-scheme: dark) { .tegula-chart { --ink: var(--md-default-fg-color, #e6e8ee);
  --soft: var(--md-default-fg-color--light, #a9b0bd); --line: var(--md-default-fg-color--lightest, #3a404b);
  --mark: #7c8df0; --slow: #e09a3e } }
"""


@dataclass(frozen=True)
class Bar:
    """One row of a chart: a label, the ratio to the fastest peer, and what stands on the right."""

    label: str
    ratio: float
    note: str


def read_bars(page: str) -> list[Bar]:
    """Return the bars that the table of a page gives."""
    rows = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if len(cells) == 9:
            rows[cells[0], cells[1]] = cells
    bars = []
    for case, regime, label in BARS:
        _, _, unit, own, peer, ratio, *_ = rows[case, regime]
        name, _, value = peer.rpartition(" ")
        fastest = f"{PEERS.get(name, name)} {measured(value, unit)}"
        bars.append(Bar(label, float(ratio), f"{measured(own.split()[0], unit)}, {fastest}"))
    return bars


def read_means(page: str) -> list[Bar]:
    """Return a bar for each regime, with its slowest row."""
    page = page.partition("<!-- benchmark: end -->")[0]
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in page.splitlines()]
    slowest: dict[str, tuple[float, str]] = {}
    for cells in rows:
        if len(cells) == 9 and cells[5].replace(".", "").isdigit():
            found = float(cells[5]), cells[0]
            slowest[cells[1]] = min(found, slowest.get(cells[1], found))
    first = next(number for number, cells in enumerate(rows) if cells[:3] == ["regime", "rows", "x peer"])
    bars = []
    for cells in rows[first + 2 :]:
        if len(cells) < 4:
            return bars
        regime, count, ratio = cells[:3]
        worst = slowest.get(regime)
        note = f"{count} rows" if worst is None else f"{count} rows, from {worst[0]:.2f} ({worst[1]})"
        bars.append(Bar(regime, float(ratio), note if count != "1" else worst[1] if worst else ""))
    return bars


def measured(value: str, unit: str) -> str:
    """Write a measured value with its unit, short."""
    number = float(value.replace(",", ""))
    if unit == "MB/s":
        return f"{number / 1000:.1f} GB/s"
    return f"{number / 1000:.1f} k/s" if unit == "op/s" else f"{number:.0f} {unit}"


def position(ratio: float) -> float:
    """Return where on the axis a ratio is."""
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + share * (RIGHT - LEFT)


def draw(bars: list[Bar], heading: str = "tegula, fastest other library") -> str:
    """Return the chart as SVG, with a heading above the notes."""
    bottom = TOP + STEP * len(bars)
    text = "; ".join(f"{bar.label}: {bar.ratio:.1f} times ({bar.note})" for bar in bars)
    lines = [
        f'<svg class="tegula-chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 8}" role="img"'
        ' aria-labelledby="chart-title chart-desc">',
        '<title id="chart-title">Speed of tegula relative to the fastest other library</title>',
        f'<desc id="chart-desc">{escape(text)}.</desc>',
        f"<style>{STYLE}</style>",
        f'<text class="soft" x="{RIGHT + 40}" y="{TOP - 20}">{heading}</text>',
    ]
    # the axis
    for ratio in (0.5, 1, 2, 4, 8):
        x, kind = position(ratio), "one" if ratio == 1 else "grid"
        lines.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 12}" y2="{bottom}"/>')
        name = "as fast" if ratio == 1 else f"{ratio:g}×"
        lines.append(f'<text class="soft" x="{x:.1f}" y="{TOP - 20}" text-anchor="middle">{name}</text>')
    # the bars
    for number, bar in enumerate(bars):
        top = TOP + STEP * number
        base = top + BAR - 4
        ends = sorted((position(1), position(bar.ratio)))
        kind = "fast" if bar.ratio >= 1 else "slow"
        lines += [
            f'<text x="{LEFT - 10}" y="{base}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect class="{kind}" x="{ends[0]:.1f}" y="{top}" width="{ends[1] - ends[0]:.1f}" height="{BAR}" rx="2"/>',
            f'<text x="{ends[1] + 6:.1f}" y="{base}">{bar.ratio:.1f}×</text>',
            f'<text class="soft" x="{RIGHT + 40}" y="{base}">{escape(bar.note)}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    CHART.write_text(draw(read_bars(page)), encoding="utf-8")
    MEANS.write_text(draw(read_means(page), HEADING), encoding="utf-8")
