"""A process to talk to in lines of JSON."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from typing import Any

from contenders.interface import Lacking


class Process:
    """A process that answers each line of JSON with a line of JSON."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **job: Any) -> dict[str, Any]:
        """Send a job, and return the answer; `Lacking` if that is an error, or the process has ended."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # then there is no answer either
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Return the next line that the process prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Lacking(f"its process ended with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Lacking(answer["error"])
        return answer

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
