"""Time tables of tegula, as a node and behind bcolz's names, against bcolz itself on the same data, in one run.

The table has two million rows of ``i4``, ``f8`` and ``i8``. Every operation is done by all contenders in turn, round
after round, so that whatever else the machine does hits them alike, and their answers are compared first. The report
gives the minimum and the median of each, and the ratio of bcolz to each of tegula's (above 1: tegula is faster). Run it
with ``python benches/bcolz_tables.py``; ``--root DIR`` says on which disk (``/dev/shm`` is none), ``--place memory`` or
``disk`` does one of the two, ``--json FILE`` keeps the figures, ``--rounds N`` sets the number of rounds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bcolz
import numpy as np

import tegula
import tegula.bcolz

warnings.simplefilter("ignore")
Values = np.ndarray[Any, Any]
NAMES = ("i", "x", "n")
WHERE = "x < 0.01"


class Node:
    """`tegula.Table`."""

    def __init__(self, place: Callable[[], str | None]) -> None:
        self.place = place

    def _store(self) -> Any:
        return self.place() or tegula.MemoryStore()

    def create(self, columns: dict[str, Values]) -> Any:
        return tegula.create_table(self._store(), columns, format="bcolz")

    def empty(self, columns: dict[str, Values], rows: int) -> Any:
        nothing = {name: values[:0] for name, values in columns.items()}
        return tegula.create_table(self._store(), nothing, format="bcolz", expectedlen=rows)

    def append(self, table: Any, columns: dict[str, Values]) -> None:
        table.append(columns)

    def read(self, table: Any) -> Values:
        return table[:]

    def column(self, table: Any) -> Values:
        return table["x"][:]

    def sum(self, table: Any) -> float:
        return table["x"][:].sum()

    def row(self, table: Any, index: int) -> Any:
        return table[index]

    def rows(self, table: Any, indices: Values) -> Values:
        return table[indices]

    def where(self, table: Any) -> Values:
        return table.where(WHERE)


class Module:
    """bcolz, or the module of tegula that has its names."""

    def __init__(self, module: Any, place: Callable[[], str | None]) -> None:
        self.module = module
        self.place = place

    def create(self, columns: dict[str, Values]) -> Any:
        return self.module.ctable([*columns.values()], names=[*columns], rootdir=self.place(), mode="w")

    def empty(self, columns: dict[str, Values], rows: int) -> Any:
        nothing = [values[:0] for values in columns.values()]
        return self.module.ctable(nothing, names=[*columns], rootdir=self.place(), mode="w", expectedlen=rows)

    def append(self, table: Any, columns: dict[str, Values]) -> None:
        table.append([*columns.values()])

    def read(self, table: Any) -> Values:
        return table[:]

    def column(self, table: Any) -> Values:
        return table["x"][:]

    def sum(self, table: Any) -> float:
        return table["x"].sum()

    def row(self, table: Any, index: int) -> Any:
        return table[index]

    def rows(self, table: Any, indices: Values) -> Values:
        return table[indices]

    def where(self, table: Any) -> Values:
        return table.fetchwhere(WHERE)


def data(rows: int) -> dict[str, Values]:
    random = np.random.default_rng(1)
    walk = random.integers(-3, 4, rows).cumsum()
    return {"i": walk.astype("i4"), "x": random.integers(0, 10_000, rows) / 10_000, "n": np.arange(rows, dtype="i8")}


def part(columns: dict[str, Values], start: int, stop: int) -> dict[str, Values]:
    return {name: values[start:stop] for name, values in columns.items()}


Operation = Callable[[Any, Any], Any]


def operations(columns: dict[str, Values]) -> dict[str, Operation]:
    """Return the functions that are timed, of a contender and its table."""
    rows = len(columns["i"])
    random = np.random.default_rng(2)
    few = random.integers(0, rows, 100).tolist()
    many = random.integers(0, rows, 2000)
    block = max(1, rows // 20)

    def append_blocks(contender: Any, _: Any) -> Any:
        table = contender.empty(columns, rows)
        for start in range(0, rows, block):
            contender.append(table, part(columns, start, start + block))
        return len(table)

    def append_few(contender: Any, table: Any) -> None:
        for start in range(0, 200, 10):
            contender.append(table, part(columns, start, start + 10))

    return {
        "create": lambda contender, _: len(contender.create(columns)),
        f"append blocks of {block}": append_blocks,
        "read all": lambda contender, table: contender.read(table),
        "read a column": lambda contender, table: contender.column(table),
        "sum of a column": lambda contender, table: contender.sum(table),
        "100 rows one by one": lambda contender, table: [tuple(contender.row(table, row)) for row in few],
        "2000 rows at once": lambda contender, table: contender.rows(table, many),
        "where 1 %": lambda contender, table: contender.where(table),
        "append 20 times 10 rows": append_few,  # last: the tables grow
    }


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and one.dtype.names:
        return len(one) == len(other) and all(np.array_equal(one[name], other[name]) for name in one.dtype.names)
    return bool(np.allclose(one, other)) if one is not None else other is None


def measure(contenders: dict[str, Any], tables: dict[str, Any], work: Operation, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    answers = [work(contender, tables[name]) for name, contender in contenders.items()]
    assert all(same(answers[0], answer) for answer in answers[1:])
    for _ in range(rounds):
        for name, contender in contenders.items():
            start = time.perf_counter()
            work(contender, tables[name])
            times[name].append(time.perf_counter() - start)
    return times


def run(where: str, root: Path, columns: dict[str, Values], rounds: int) -> list[dict[str, Any]]:
    made = 0

    def place() -> str | None:
        """A new directory; that of the last table that was timed only is not needed any more."""
        nonlocal made
        if where == "memory":
            return None
        made += 1
        if made > 6:  # the first three tables stay
            shutil.rmtree(root / str(made - 3), ignore_errors=True)
        return str(root / str(made))

    contenders: dict[str, Any] = {
        "tegula.Table": Node(place),
        "tegula.bcolz": Module(tegula.bcolz, place),
        "bcolz": Module(bcolz, place),
    }
    tables = {name: contender.create(columns) for name, contender in contenders.items()}
    found = []
    for operation, work in operations(columns).items():
        times = measure(contenders, tables, work, rounds)
        figures = {name: (min(samples), statistics.median(samples)) for name, samples in times.items()}
        ratios = {name: figures["bcolz"][1] / median for name, (_, median) in figures.items() if name != "bcolz"}
        found.append({"place": where, "operation": operation, "seconds": figures, "ratios": ratios})
        shown = "  ".join(f"{name} {low * 1e3:8.2f} ({mid * 1e3:8.2f})" for name, (low, mid) in figures.items())
        print(f"{where:7s} {operation:26s} {shown}  " + " ".join(f"x{ratio:.2f}" for ratio in ratios.values()))
        sys.stdout.flush()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--place", choices=["disk", "memory"], help="one of the two only")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--root", type=Path, help="where to put the tables (default: a temporary directory)")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(dir=options.root))
    columns = data(options.rows)
    print(
        f"tegula {tegula.__version__}, bcolz {bcolz.__version__}, numpy {np.__version__}; {options.rows} rows;"
        " milliseconds, min (median); ratios of bcolz's median to that of tegula.Table and tegula.bcolz"
    )
    rows = []
    try:
        for where in [options.place] if options.place else ["memory", "disk"]:
            rows += run(where, root, columns, options.rounds)
    finally:
        shutil.rmtree(root)
    for name in ("tegula.Table", "tegula.bcolz"):
        mean = statistics.geometric_mean(row["ratios"][name] for row in rows)
        print(f"geometric mean of the ratios of {name}: {mean:.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
