"""The table and the file of the outcomes of a run."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torture.libraries import ENTRIES
from torture.outcome import Outcome

BEGIN, END = "<!-- torture:begin -->", "<!-- torture:end -->"


def surroundings(versions: dict[str, str], why: dict[str, str], command: str) -> list[str]:
    """Say what was run on what, and which libraries are missing."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    known = {ENTRIES[name].title: text for name, text in versions.items() if not ENTRIES[name].variant_of}
    about = [
        f"{platform.system()} {platform.release()}, {cores} cores, load {os.getloadavg()[0]:.1f} at the start;"
        f" Python {platform.python_version()}. Command: `{command}`.",
        "Versions: " + ", ".join(f"{name} {text}" for name, text in known.items()) + ".",
    ]
    return about + [f"Without {ENTRIES[name].title}: {reason}." for name, reason in why.items()]


def rows(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], dict[str, str]]:
    """Return a cell's text by section and promise, then by library; variants of a library stand in its cell."""
    table: dict[tuple[str, str], dict[str, str]] = {}
    for outcome in outcomes:
        row = table.setdefault((outcome.section, outcome.promise), {})
        entry = ENTRIES[outcome.library]
        if entry.variant_of:
            row[entry.variant_of] = f"{row.get(entry.variant_of, '-')} ({entry.title}: {outcome.text})"
        else:
            row[outcome.library] = outcome.text
    return table


def markdown(outcomes: Sequence[Outcome], about: Sequence[str]) -> str:
    """Return the table, one row for each promise, and below it how it was made.

    Examples
    --------
    >>> print(markdown([Outcome("kills", "nothing is torn", "ts", "0 of 9")], ["By hand."]))
    | promise | TensorStore |
    |---|---|
    | nothing is torn | 0 of 9 |
    <BLANKLINE>
    By hand.
    <BLANKLINE>
    """
    table = rows(outcomes)
    taking_part = [name for name in ENTRIES if any(name in row for row in table.values())]
    head = ["promise", *(ENTRIES[name].title for name in taking_part)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for (_, promise), row in table.items():
        lines.append("| " + " | ".join([promise, *(row.get(name, "-") for name in taking_part)]) + " |")
    return "\n".join(lines) + "\n\n" + "\n".join(f"{line}\n" for line in about)


def insert(path: Path, text: str) -> None:
    """Write the table: between the two markers where the file has them, else as the file."""
    old = path.read_text() if path.exists() else ""
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}" if begin and end else text)


def write_json(path: Path, outcomes: Sequence[Outcome], about: Sequence[str], versions: dict[str, str]) -> None:
    """Write all facts of a run to a file."""
    found: dict[str, Any] = {
        "about": list(about),
        "versions": versions,
        "outcomes": [vars(outcome) for outcome in outcomes],
    }
    path.write_text(json.dumps(found, indent=1))


def read_json(paths: Sequence[Path]) -> tuple[list[Outcome], list[str], dict[str, str]]:
    """Merge the files of several runs; the last one wins."""
    found: dict[tuple[str, str, str], Outcome] = {}
    about: list[str] = []
    versions: dict[str, str] = {}
    for path in paths:
        kept = json.loads(path.read_text())
        about += [line for line in kept["about"] if line not in about]
        versions.update(kept["versions"])
        for item in kept["outcomes"]:
            found[item["section"], item["promise"], item["library"]] = Outcome(**item)
    return [*found.values()], about, versions
