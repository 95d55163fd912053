"""Time tegula against other libraries on arrays in a bucket, where each answer takes as long as over a long line.

One server holds the bucket in memory and waits before each answer; all contenders read the same values from it, each in
a process of its own, and take their turn in every round. The peers have 64 requests under way at once; tegula begins
with as many, and finds out itself whether more pay off. What they read is compared, and another contender reads what
they write. The *limit* is what the operation takes at least: as often the latency as requests have to wait for each
other, 64 at once, and the time in which the server sends that many answers and bytes to a client that does nothing with
them. Libraries keep their store of a bucket, and its connections, from one round to the next.

    python benches/remote.py --quick
    python benches/remote.py --latency 20,100 --markdown docs/benchmarks.md
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import report
from contenders import LIMIT
from contenders.interface import Lacking
from contenders.remote_arrays import BUCKET, REMOTE
from process import Process
from remote_cases import CASES, CONCURRENCY, REGIMES, RemoteCase, touched, waves
from timing import Row

HERE = Path(__file__).parent
_ATTEMPTS = 3
BEGIN, END = "<!-- remote: begin -->", "<!-- remote: end -->"


def options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller arrays, one latency, and two rounds")
    parser.add_argument("--latency", help="milliseconds, with commas between (default: 20,100; --quick: 20)")
    parser.add_argument("--rounds", type=int, help="samples of each contender in a row (default: 5; --quick: 2)")
    parser.add_argument("--cases", default="", metavar="REGEX", help="only cases whose name this finds")
    parser.add_argument("--regimes", default="", metavar="REGEX", help="only regimes whose name this finds")
    parser.add_argument("--contenders", default="", metavar="REGEX", help=f"only some of {', '.join(REMOTE)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all figures")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table, between markers if it has any")
    parser.add_argument("--verbose", action="store_true", help="say why a contender is missing in a row")
    return parser.parse_args()


class Server:
    """The server, and the rate at which it answers a client that does nothing."""

    def __init__(self) -> None:
        self.process = Process([sys.executable, str(HERE / "remote_server.py")])
        self.port = int(self.process.answer()["port"])
        self.per_second = 1 / self._seconds(1000, 10_000)
        self.bytes_per_second = 2e6 / self._seconds(2_000_000, 500)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def do(self, what: str, **arguments: Any) -> Any:
        return self.process.ask(do=what, **arguments)["value"]

    def _seconds(self, size: int, requests: int) -> float:
        """Return how long a request for a value of that size takes, of many at once; the least of several attempts."""
        self.do("value", path="/value", size=size)
        client = [sys.executable, str(HERE / "remote_client.py"), str(self.port), "/value", str(requests)]
        found = [
            subprocess.run([*client, str(CONCURRENCY)], check=True, capture_output=True, text=True).stdout
            for _ in range(_ATTEMPTS)
        ]
        self.do("remove", prefix="/value")
        return min(map(float, found)) / requests

    def put(self, path: str, documents: dict[str, bytes]) -> None:
        for name, raw in documents.items():
            self.do("text", path=f"/{BUCKET}/{path}/{name}", text=raw.decode())


class Run:
    """The rows of one run, printed as they come."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        self.server = Server()
        self.workers: dict[str, Process] = {}
        self.versions: dict[str, str] = {}
        self.rounds = chosen.rounds or (2 if chosen.quick else 5)
        self.verbose = chosen.verbose
        self.rows: list[Row] = []
        for name in REMOTE:
            if re.search(chosen.contenders, name) or name == "tegula":
                self._start(name)

    def _start(self, name: str) -> None:
        worker = Process([sys.executable, str(HERE / "remote_worker.py"), name, self.server.endpoint])
        try:
            worker.answer()
            self.versions[name] = worker.ask(do="version")["value"]
        except Lacking as error:
            print(f"without {name}: {error}")
        else:
            self.workers[name] = worker

    def case(self, case: RemoteCase, latency: float, regimes: list[str]) -> None:
        """Measure all regimes of a case."""
        source = f"{case.name}-{case.rows}"
        self._fill(case, source, case.rows)
        for regime in [name for name in regimes if REGIMES[name].suits(case)]:
            row = Row(f"{case.name}, {latency * 1e3:g} ms", regime, "ms", 1)
            rows = REGIMES[regime].rows
            template = source
            if rows is not None and (before := rows(case)) != case.rows:
                template = f"{source}-{before}"
                self._fill(case, template, before)
            self.server.do("set_latency", seconds=latency)
            names = [*self.workers]
            row.samples = {name: [] for name in names}
            for number in range(self.rounds + 1):  # the first one warms up
                turn = number % len(names)  # another contender begins: the last one may still be busy
                for name in [name for name in names[turn:] + names[:turn] if name not in row.why]:
                    self._sample(row, name, case, template, is_first=not number)
            row.samples[LIMIT] = [self._limit(regime, case, source, latency)]
            self._show(row)
            self.server.do("set_latency", seconds=0)

    def _fill(self, case: RemoteCase, path: str, rows: int) -> None:
        """Store an array with `rows` rows, or its documents only."""
        self.server.do("set_latency", seconds=0)
        self.server.put(path, case.documents(rows or None))
        if rows:
            self.workers["tegula"].ask(do="fill", case=vars(case), path=path)

    def _sample(self, row: Row, name: str, case: RemoteCase, template: str, *, is_first: bool) -> None:
        writes = REGIMES[row.regime].rows is not None
        path = f"of-{name}" if writes else template
        if writes:
            self.server.do("copy", old=f"/{BUCKET}/{template}/", new=f"/{BUCKET}/{path}/")
        try:
            seconds = self.workers[name].ask(do="sample", regime=row.regime, case=vars(case), path=path)["value"]
            if is_first and writes:
                self._check_written(name, case, path)
        except Lacking as error:
            row.why[name] = str(error)
            row.samples.pop(name, None)
            return
        if not is_first:
            row.samples[name].append(seconds)

    def _check_written(self, name: str, case: RemoteCase, path: str) -> None:
        """Let another contender read what one has written."""
        reader = next((other for other in self.workers if other != name), name)
        if not self.workers[reader].ask(do="check", case=vars(case), path=path)["value"]:
            raise Lacking("it writes other values")

    def _limit(self, regime: str, case: RemoteCase, source: str, latency: float) -> float:
        files, part = touched(regime, case)
        all_files = -(-case.shape[0] // case.file[0]) * -(-case.shape[1] // case.file[1])
        stored = self.server.do("stored", prefix=f"/{BUCKET}/{source}/c/") / all_files * files * part
        sent = stored * (2 if regime.startswith("update") else 1)
        requests = files * (2 if regime.startswith("update") else 1)
        working = max(requests / self.server.per_second, sent / self.server.bytes_per_second)
        return waves(regime, case) * latency + working

    def _show(self, row: Row) -> None:
        self.rows.append(row)
        cells = report.line(row)
        print(f"{cells[0]:24s} {cells[1]:22s}  x{cells[5]:>6s} {cells[7]:>5s}   {report.everyone(row)}", flush=True)
        if self.verbose:
            for name, reason in row.why.items():
                print(f"    {name}: {reason}")

    def stop(self) -> None:
        for process in [*self.workers.values(), self.server.process]:
            process.stop()


def main() -> None:
    chosen = options()
    run = Run(chosen)
    server = run.server
    about = report.surroundings(run.versions, HERE, "memory", f"just bench-remote {shlex.join(sys.argv[1:])}".strip())
    about.append(
        f"The server answers {server.per_second:,.0f} requests/s, or {server.bytes_per_second / 1e6:,.0f} MB/s, "
        f"to {CONCURRENCY} connections without latency."
    )
    print(*about, sep="\n")
    latencies = [float(text) / 1e3 for text in (chosen.latency or ("20" if chosen.quick else "20,100")).split(",")]
    regimes = [name for name in REGIMES if re.search(chosen.regimes, name)]
    try:
        for latency in latencies:
            for case in CASES:
                if re.search(chosen.cases, case.name):
                    run.case(case, latency, regimes)
    except KeyboardInterrupt:
        print("stopped; what was measured so far:")
    finally:
        run.stop()
    print("\n".join(report.summary(run.rows)))
    if chosen.json:
        chosen.json.write_text(json.dumps(report.as_json(run.rows, about, run.versions), indent=1))
    if chosen.markdown:
        report.insert(chosen.markdown, report.markdown(run.rows, about), BEGIN, END)


if __name__ == "__main__":
    main()
