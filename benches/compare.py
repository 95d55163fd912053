"""Time tegula against other libraries, and against what the machine can do at most, on the same data in one run.

All contenders take their turn in every round, so that whatever else the machine does hits them alike. Each one's result
is compared with what it has to be before it is timed. The table gives tegula's minimum and median, the fastest peer
on the same files, the ratio to it (above 1: tegula is faster), the share of the limit, and the fastest library that
keeps the values in a format of its own. ``docs/benchmarks.md`` says more.

    python benches/compare.py --quick                      a few cases with smaller arrays
    python benches/compare.py --json all.json              all cases
    python benches/compare.py --cases 'v2-8k' --regimes '^(read|points)$' --contenders 'tegula|ts'
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import cases
import groups
import processes
import report
from contenders import IN_A_WORKER, IN_PROCESS, LIMIT
from places import Place
from regimes import REGIMES
from runners import make_runners
from timing import Effort, Row, measure

FRESH = ("first open", "memory")
ALL_REGIMES = [*REGIMES, *FRESH, *groups.REGIMES, "import"]
ORDER = [
    *("tegula", "reference", "caseless", "plain", "ts", "tsdef", "zarr3", "fused", "zarrs", "zarrista", "zarr2"),
    *("blosc2", "bcolz", "h5py", LIMIT),
]


def options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few cases, with smaller arrays")
    parser.add_argument("--cases", default="", metavar="REGEX", help="only cases whose name this finds")
    parser.add_argument("--regimes", default="", metavar="REGEX", help="only regimes whose name this finds")
    parser.add_argument(
        "--contenders",
        default="^(?!reference|caseless|plain)",
        metavar="REGEX",
        help=f"only some of {', '.join(ORDER)} (default: all but reference, the executor in pure Python, and "
        "tegula on file systems that ignore case: caseless, and plain, a network drive)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="samples of each contender in a row (default: 3)")
    parser.add_argument("--seconds", type=float, help="most time of a contender in a row (default: 0.5; --quick: 0.3)")
    parser.add_argument("--cold", action="store_true", help="reads from a disk, of files dropped from memory")
    parser.add_argument("--dir", type=Path, help="where to put the arrays (default: /dev/shm, which is memory)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all figures")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table, between markers if it has any")
    parser.add_argument("--verbose", action="store_true", help="say why a contender is missing in a row")
    parser.add_argument("--list", action="store_true", help="list cases and regimes and do nothing")
    return parser.parse_args()


def filesystem(path: Path) -> str:
    """Return the kind of file system that a path is on."""
    try:
        command = ["df", "--output=fstype", str(path)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError:
        return "an unknown file system"
    return done.stdout.strip().rpartition("\n")[2] or "an unknown file system"


class Run:
    """The rows of one run, printed as they come."""

    def __init__(self, runners: list[Any], root: Path, effort: Effort, regimes: list[str], verbose: bool) -> None:
        self.runners, self.root, self.effort, self.regimes, self.verbose = runners, root, effort, regimes, verbose
        self.rows: list[Row] = []

    def add(self, row: Row) -> None:
        if not row.samples:
            return
        self.rows.append(row)
        cells = report.line(row)
        print(f"{cells[0]:20s} {cells[1]:17s} {cells[2]:4s}  x{cells[5]:>6s} {cells[7]:>5s}   {report.everyone(row)}")
        if self.verbose:
            for name, reason in row.why.items():
                print(f"    {name}: {reason}")
        sys.stdout.flush()

    def case(self, case: cases.Case) -> None:
        wanted = [name for name in self.regimes if name in REGIMES and REGIMES[name].applies(case)]
        fresh = [name for name in self.regimes if name in FRESH and processes.applies(name, case)]
        if not wanted and not fresh:
            return
        place = Place(self.root, case)
        try:
            place.prepare()
            for name in wanted:
                self.add(measure(self.runners, name, case, place, self.effort))
            for name in fresh:
                self.add(processes.measure_fresh(self.runners, name, case, place, self.effort))
        finally:
            place.remove()


def main() -> None:
    warnings.simplefilter("ignore")
    chosen = options()
    regimes = [name for name in ALL_REGIMES if re.search(chosen.regimes, name)]
    regimes = [name for name in regimes if name.startswith("cold") == chosen.cold]
    table = [case for case in cases.cases(chosen.quick) if re.search(chosen.cases, case.name)]
    if chosen.list:
        print("cases:", *(case.name for case in table), "group import\nregimes:", *(f"{name!r}" for name in regimes))
        return
    shm = Path("/dev/shm")
    usual = shm if shm.is_dir() and not chosen.cold else None
    root = Path(tempfile.mkdtemp(prefix="tegula-bench-", dir=chosen.dir or usual))
    why: dict[str, str] = {}
    wanted = [name for name in ORDER if re.search(chosen.contenders, name) or name == "tegula"]
    assert set(ORDER) == {*IN_PROCESS, *IN_A_WORKER, LIMIT}
    runners, versions = make_runners(wanted, why)
    effort = Effort(chosen.rounds, chosen.seconds or (0.3 if chosen.quick else 0.5))
    about = report.surroundings(versions, root, filesystem(root), f"just bench {shlex.join(sys.argv[1:])}".strip())
    print(*about, sep="\n")
    for name, reason in why.items():
        print(f"without {name}: {reason}")
    run = Run(runners, root, effort, regimes, chosen.verbose)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for case in table:
            run.case(case)
        members = [name for name in groups.REGIMES if name in regimes]
        if members and re.search(chosen.cases, "group"):
            for row in groups.measure_groups(runners, root, 2000 if chosen.quick else 10_000, members, effort):
                run.add(row)
        if "import" in regimes and re.search(chosen.cases, "import"):
            run.add(processes.measure_imports([runner.name for runner in runners], effort))
    except KeyboardInterrupt:
        print("stopped; what was measured so far:")
    finally:
        for runner in runners:
            runner.stop()
        shutil.rmtree(root, ignore_errors=True)
    print("\n".join(report.summary(run.rows)))
    if chosen.json:
        chosen.json.write_text(json.dumps(report.as_json(run.rows, about, versions), indent=1))
    if chosen.markdown:
        report.insert(chosen.markdown, report.markdown(run.rows, about))


if __name__ == "__main__":
    main()
