"""Test the promises of tegula, and what other libraries do in the same situations.

    python -m torture --quick                       a minute or two, tegula alone
    python -m torture --peers --json all.json       an hour: the whole, with every library that is installed
    python -m torture --only updates,kills --table docs/explanation/guarantees-tested.md
    python -m torture mixtures --seconds 700        reads of what others replace, in a table of their own

Everything happens in a temporary directory, and no process outlives the run. zarr-python 2 runs under the interpreter
that TEGULA_ZARR2_PYTHON names.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from torture import report
from torture.libraries import ENTRIES, OURS, Lacking
from torture.outcome import Outcome
from torture.workers import Failed, Worker, start_workers

# how much each section does: in the whole run, of peers, and in the quick one
SECTIONS = {
    "updates": (10_000, 10_000, 400),
    "kills": (1000, 200, 42),
    "fuzz": (1_000_000, 0, 2000),
    "corruption": (300, 300, 40),
    "disk": (1, 1, 1),
    "creation": (200, 200, 20),
    "grids": (2_000_000, 0, 50_000),
    "handles": (1000, 200, 40),
    "scale": (100_000, 0, 2000),
    "coarse": (10_000, 0, 400),
    "interrupts": (4000, 0, 80),
    "forks": (300, 0, 6),
    "objects": (4000, 0, 100),
    "mixtures": (500_000, 0, 2000),
}


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m torture", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few of everything")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"some of {','.join(SECTIONS)}")
    parser.add_argument("--peers", action="store_true", help="other libraries, too")
    parser.add_argument("--libraries", default="", help=f"some of {','.join(ENTRIES)}, instead")
    parser.add_argument("--scale", type=float, default=1.0, help="multiply the amount of work")
    parser.add_argument("--dir", type=Path, help="where to put the files (default: /dev/shm, where fsync is free)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all that is found")
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="write the table, between its markers if there are any"
    )
    parser.add_argument(
        "--from", type=Path, nargs="+", metavar="FILE", dest="kept", help="run nothing: take what was kept"
    )
    chosen = parser.parse_args(arguments)
    for name in chosen.only.split(","):
        if name not in SECTIONS:
            parser.error(f"there is no section {name!r}")
    for name in filter(None, chosen.libraries.split(",")):
        if name not in ENTRIES:
            parser.error(f"there is no library {name!r}")
    return chosen


def command(chosen: argparse.Namespace) -> str:
    """Return the command line as far as it decides what is done."""
    return " ".join(
        [
            "just torture",
            *(["--quick"] if chosen.quick else []),
            *([f"--only {chosen.only}"] if chosen.only != ",".join(SECTIONS) else []),
            *([f"--libraries {chosen.libraries}"] if chosen.libraries else ["--peers"] if chosen.peers else []),
            *([f"--scale {chosen.scale:g}"] if chosen.scale != 1 else []),
        ]
    )


def amount(section: str, library: str, chosen: argparse.Namespace) -> int:
    """Return how much of a section a library does."""
    ours, theirs, quick = SECTIONS[section]
    number = quick if chosen.quick else ours if library in OURS else theirs
    return max(1, round(number * chosen.scale))


def carry_out(section: str, worker: Worker, root: Path, count: int) -> Iterator[Outcome]:
    """Run a section with a library, in a directory of its own, and yield its outcomes."""
    place = root / section / worker.name
    place.mkdir(parents=True)
    try:
        yield from import_module(f"torture.{section}").run(worker, place, count)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def run(chosen: argparse.Namespace) -> list[Outcome]:
    """Run the chosen sections, and print each outcome as it comes."""
    names = chosen.libraries.split(",") if chosen.libraries else [*ENTRIES] if chosen.peers else [*OURS]
    why: dict[str, str] = {}
    shm = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="tegula-torture-", dir=chosen.dir or (shm if shm.is_dir() else None)))
    root.chmod(0o711)  # another user has to get through
    workers = start_workers(names, why)
    versions = {worker.name: worker.version for worker in workers}
    about = report.surroundings(versions, why, command(chosen))
    print(*about, sep="\n", flush=True)
    outcomes: list[Outcome] = []
    try:
        for section in chosen.only.split(","):
            for worker in workers:
                if worker.entry.variant_of and section != "updates":
                    continue
                try:
                    for outcome in carry_out(section, worker, root, amount(section, worker.name, chosen)):
                        print(f"{section:10}  {worker.name:12}  {outcome.promise}: {outcome.text}", flush=True)
                        outcomes.append(outcome)
                except (Lacking, Failed) as error:
                    print(f"{section:10}  {worker.name:12}  not done: {error}", flush=True)
                if chosen.json:
                    report.write_json(chosen.json, outcomes, about, versions)
    except KeyboardInterrupt:
        print("stopped; what was found so far is kept")
    finally:
        for worker in workers:
            worker.stop()
        shutil.rmtree(root, ignore_errors=True)
    if chosen.table:
        report.insert(chosen.table, report.markdown(outcomes, about))
    return outcomes


def main(arguments: Sequence[str] | None = None) -> None:
    """Carry out the command line."""
    arguments = sys.argv[1:] if arguments is None else [*arguments]
    if arguments[:1] == ["mixtures"]:
        import_module("torture.mixtures").main(arguments[1:])
        return
    chosen = options(arguments)
    if chosen.kept:
        outcomes, about, _ = report.read_json(chosen.kept)
        text = report.markdown(outcomes, about)
        if chosen.table:
            report.insert(chosen.table, text)
        else:
            print(text)
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run(chosen)
