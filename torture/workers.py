"""Workers: the libraries that take part, each behind a fork server that starts a process for each job."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torture.libraries import ENTRIES, Entry, Lacking

_ROOT = Path(__file__).parents[1]


def job(do: str, *, follows: bool = False, **arguments: Any) -> dict[str, Any]:
    """Describe a job: a function of this package, by ``module:name``, and its arguments.

    One that `follows` is told when the others have ended.
    """
    return {"do": f"torture.{do}", "follows": follows, "arguments": arguments}


class Failed(Exception):
    """A job has raised an error, or its process died; the message says which."""


class Worker:
    """A library that takes part, and its fork server."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entry: Entry = ENTRIES[name]
        paths = [str(_ROOT), str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, **self.entry.environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        command = [self.entry.python(), "-m", "torture.fork_server", name]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        hello = self._line()
        if "version" not in hello:
            self.stop()
            raise Lacking(hello["lacks"])
        self.version: str = hello["version"]

    def _line(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Lacking(f"its process ended with {self._process.wait()}")
        return json.loads(line)

    def run(self, jobs: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
        """Run jobs at once, each in a process of its own, and return their answers.

        Parameters
        ----------
        jobs : list of dict
            Made by `job`.
        **options
            ``together`` if they wait for each other; ``kill``, the seconds after which all but the followers are
            killed; ``limit``, the seconds after which all are.

        Raises
        ------
        Lacking
            If the library can't do what a job wants.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jobs": jobs, **options}) + "\n")
        self._process.stdin.flush()
        answers: list[dict[str, Any]] = self._line()
        for answer in answers:
            if "lacks" in answer:
                raise Lacking(answer["lacks"])
        return answers

    def ask(self, do: str, **arguments: Any) -> Any:
        """Run one job and return its value.

        Raises
        ------
        Lacking
            If the library can't do that.
        Failed
            If the job raised anything else, or its process died.
        """
        (answer,) = self.run([job(do, **arguments)])
        if "value" not in answer:
            raise Failed(answer.get("error", f"its process ended with {answer['status']}"))
        return answer["value"]

    def stop(self) -> None:
        """End its processes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def start_workers(names: Iterable[str], why: dict[str, str]) -> list[Worker]:
    """Start the libraries that are installed, and note in `why` what the others lack."""
    workers = []
    for name in names:
        try:
            workers.append(Worker(name))
        except (Lacking, OSError) as error:
            why[name] = str(error)
    return workers
