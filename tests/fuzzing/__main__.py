"""The command: ``python -m tests.fuzzing --inputs 1000000``."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from .runner import Report, regressions, replay, run
from .targets import TARGETS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description="Give tegula hostile input.")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many (default: a million)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same inputs")
    parser.add_argument("--targets", help=f"some of {','.join(TARGETS)}")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds after which an input counts as a hang")
    parser.add_argument(
        "--findings", type=Path, default=Path("fuzz-findings"), help="where inputs that broke something go"
    )
    parser.add_argument("--json", type=Path, help="write the sums to this file")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="carry out saved inputs in this process")
    return parser


class _Progress:
    def __init__(self) -> None:
        self._next = time.monotonic() + 10

    def __call__(self, report: Report) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 10
            inputs = sum(tally.inputs for tally in report.tallies.values())
            print(
                f"{report.seconds:6.0f} s  {inputs} inputs, {len(report.findings)} findings",
                file=sys.stderr,
                flush=True,
            )


def show(sums: dict[str, Any]) -> None:
    """Print the sums as a table, and the findings."""
    heads = ("inputs", "accepted", "refused", "checksum", "skipped", "violations", "growth MiB", "inputs/s")
    print(f"{'target':12}" + "".join(f"{head:>12}" for head in heads))
    for name, tally in sums["targets"].items():
        refused, violations = sum(tally["refused"].values()), sum(tally["violations"].values())
        numbers = (
            tally["inputs"], tally["accepted"], refused, tally["checksum_detected"], tally["skipped"], violations,
            tally["growth"] >> 20, tally["inputs_per_second"] or 0,
        )  # fmt: skip
        print(f"{name:12}" + "".join(f"{number:12}" for number in numbers))
    for name, tally in sums["targets"].items():
        parts = [f"{kind} {count}" for kind, count in sorted({**tally["refused"], **tally["violations"]}.items())]
        print(f"{name}: {', '.join(parts)}")
    for finding in sums["findings"][:50]:
        print(f"\n{finding['target']} {finding['number']}: {finding['kind']}: {finding['text'][:600]}")
        if finding["file"]:
            print(f"  python -m tests.fuzzing --replay {finding['file']}")
    print(
        f"\n{sums['inputs']} inputs in {sums['seconds']} s ({sums['inputs_per_second']}/s), seed {sums['seed']}: "
        f"{sums['violations']} violations"
    )


def main() -> int:
    """Run, show and say by the exit code whether anything was broken."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does: tidy, and with the sums
    if arguments.replay:
        for path in arguments.replay:
            print(f"{path}: {replay(path)}", flush=True)
        return 0
    names = arguments.targets.split(",") if arguments.targets else None
    if unknown := {*(names or ())} - TARGETS.keys():
        print(f"no such target: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    for path in regressions():
        replay(path)
    report = run(
        arguments.inputs, seed=arguments.seed, names=names, jobs=arguments.jobs, limit=arguments.limit,
        findings=arguments.findings, progress=_Progress(),
    )  # fmt: skip
    sums = report.as_json()
    show(sums)
    if arguments.json:
        arguments.json.write_text(json.dumps(sums, indent=1) + "\n")
    return 1 if sums["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
