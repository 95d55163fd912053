"""The table and its summary."""

from __future__ import annotations

import os
import platform
import statistics
from pathlib import Path
from typing import Any

from contenders import LIMIT, OURS
from timing import Row

IN_PLACE = ("zarrs", "zarrista")  # they replace chunks in place, so that a killed process leaves a torn one
BEGIN, END = "<!-- benchmark: begin -->", "<!-- benchmark: end -->"
HEAD = ["case", "regime", "unit", "tegula", "best peer", "x peer", "limit", "of limit", "best of other formats"]


def figure(row: Row, seconds: float) -> str:
    """Format a time in the unit of a row."""
    match row.unit:
        case "MB/s":
            value = row.amount / seconds / 1e6
        case "op/s":
            value = row.amount / seconds
        case "ms":
            value = seconds * 1e3
        case _:
            value = seconds / 1e6
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def best_of(row: Row, name: str) -> float | None:
    samples = row.samples.get(name)
    return min(samples) if samples else None


def is_peer(row: Row, name: str) -> bool:
    """Return whether a contender works on the same files, in the same format; for imports all are peers."""
    if row.case.startswith("bcolz"):
        return name == "bcolz"
    return row.regime == "import" or name not in ("blosc2", "bcolz", "h5py")


def best_peer(row: Row, *, other_formats: bool = False, atomic: bool = False) -> tuple[str, float] | None:
    """Return the fastest of the peers, or of libraries that keep the same values in files of other formats.

    With `atomic` writes count only of those that replace a chunk as a whole.
    """
    left_out = (*OURS, LIMIT, *(IN_PLACE if atomic and row.replaces else ()))
    others = [(min(s), name) for name, s in row.samples.items() if name not in left_out and s]
    peers = [(seconds, name) for seconds, name in others if is_peer(row, name) is not other_formats]
    return (min(peers)[1], min(peers)[0]) if peers else None


def ratio_to_peer(row: Row, *, atomic: bool = False) -> float | None:
    ours, peer = best_of(row, "tegula"), best_peer(row, atomic=atomic)
    return peer[1] / ours if ours and peer else None


def share_of_limit(row: Row) -> float | None:
    ours, limit = best_of(row, "tegula"), best_of(row, LIMIT)
    return limit / ours if ours and limit else None


def limit_to_peer(row: Row) -> float | None:
    limit, peer = best_of(row, LIMIT), best_peer(row)
    return peer[1] / limit if limit and peer else None


def line(row: Row) -> list[str]:
    ours, peer, limit = row.samples.get("tegula"), best_peer(row), best_of(row, LIMIT)
    other = best_peer(row, other_formats=True)
    ratio, share = ratio_to_peer(row), share_of_limit(row)
    return [
        row.case,
        row.regime,
        row.unit,
        f"{figure(row, min(ours))} ({figure(row, statistics.median(ours))})" if ours else "-",
        f"{peer[0]} {figure(row, peer[1])}" if peer else "-",
        f"{ratio:.2f}" if ratio else "-",
        figure(row, limit) if limit else "-",
        f"{share:.0%}" if share else "-",
        f"{other[0]} {figure(row, other[1])}" if other else "-",
    ]


def everyone(row: Row) -> str:
    """Return all contenders of a row, on one line."""
    return "  ".join(f"{name} {figure(row, min(samples))}" for name, samples in row.samples.items() if samples)


def _mean(found: list[float]) -> str:
    return f"{statistics.geometric_mean(found):.2f}" if found else "-"


def _atomic(row: Row) -> str:
    """Return the ratio to the peers that replace chunks as a whole, where that is another one."""
    ratio = ratio_to_peer(row, atomic=True)
    return (
        "" if ratio == ratio_to_peer(row) else f", and {ratio:.2f} of the atomic peers" if ratio else ", no atomic peer"
    )


def _wanted(row: Row) -> float:
    return 0.6 if "-8k-" in row.case else 0.8


def summary(rows: list[Row]) -> list[str]:
    """Return geometric means, and the rows that are slower than they should be."""
    told_apart = any(row.replaces for row in rows)
    head = ["regime", "rows", "x peer", *(["x atomic peer"] if told_apart else []), "of limit", "limit x peer"]
    text = ["Geometric means:", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for regime in [*dict.fromkeys(row.regime for row in rows), "all"]:
        some = [row for row in rows if regime in (row.regime, "all")]
        ratios = [ratio for row in some if (ratio := ratio_to_peer(row))]
        atomic = [ratio for row in some if (ratio := ratio_to_peer(row, atomic=True))]
        shares = [share for row in some if (share := share_of_limit(row))]
        attainable = [ratio for row in some if (ratio := limit_to_peer(row))]
        means = [ratios, *([atomic] if told_apart else []), shares, attainable]
        cells = [regime, str(len(ratios)), *map(_mean, means)]
        text.append(f"| {' | '.join(cells)} |")
    slower = [row for row in rows if (ratio_to_peer(row) or 9) < 1]
    below = [row for row in rows if (share_of_limit(row) or 9) < _wanted(row)]
    text += ["", f"Rows where a peer is faster: {len(slower)}.", ""]
    text += [f"- {row.case}, {row.regime}: {ratio_to_peer(row):.2f}{_atomic(row)}" for row in slower]
    text += ["", f"Rows below 80 % of the limit (60 % for chunks of 8 KiB): {len(below)}.", ""]
    return text + [f"- {row.case}, {row.regime}: {share_of_limit(row):.0%}" for row in below]


def surroundings(versions: dict[str, str], directory: Path, kind: str, command: str) -> list[str]:
    """Describe the machine and the versions."""
    processor = next(
        (text.split(":")[1].strip() for text in _lines("/proc/cpuinfo") if text.startswith("model name")),
        platform.processor(),
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [
        f"{processor}, {cores} cores; {platform.system()} {platform.release()}; Python {platform.python_version()}.",
        f"Files on {kind}. Load before: {os.getloadavg()[0]:.1f}. Command: `{command}`.",
        "Versions: " + ", ".join(f"{name} {text}" for name, text in versions.items()) + ".",
    ]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def markdown(rows: list[Row], about: list[str]) -> str:
    """Return the whole report."""
    text = [*about, "", "| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    text += ["| " + " | ".join(line(row)) + " |" for row in rows]
    return "\n".join([*text, "", *summary(rows)]) + "\n"


def insert(path: Path, text: str, first: str = BEGIN, last: str = END) -> None:
    """Write the report: between the two markers where the file has them, else as the file."""
    old = path.read_text() if path.exists() else ""
    before, begin, rest = old.partition(first)
    _, end, after = rest.partition(last)
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}" if begin and end else text)


def as_json(rows: list[Row], about: list[str], versions: dict[str, str]) -> dict[str, Any]:
    return {
        "about": about,
        "versions": versions,
        "rows": [
            {**vars(row), "ratio": ratio_to_peer(row), "of_limit": share_of_limit(row), "best_other": best_peer(row)}
            for row in rows
        ],
    }
