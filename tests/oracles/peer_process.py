"""Another library in a process of its own, whose interpreter runs once and is asked for one thing after the other."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class PeerProcess:
    """A process that runs a script beside this one, which answers each line of its input by a line.

    Parameters
    ----------
    python : str
        The interpreter.
    script : str
        The name of the script.
    """

    def __init__(self, python: str, script: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        path = str(Path(__file__).with_name(script))
        self._process = subprocess.Popen(
            [python, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, line: object) -> str:
        """Return the answer to a line, without its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer.endswith("\n"), "the process has ended"
        return answer[:-1]

    def close(self) -> None:
        """Let the process end, and wait for it."""
        self._process.communicate(timeout=60)
