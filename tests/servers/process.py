"""Server processes that end with the process that started them, also if that one is killed.

The starting process holds the writing end of a pipe that is the standard input of the server. When it ends, in whatever
way, the pipe closes, and servers of our own end themselves. Programs that do not watch their input are run by
``python -m tests.servers.process PROGRAM …``, which ends them.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Self

ROOT = Path(__file__).parents[2]
ANSWER_MARK = "answer: "
"""What answers to commands begin with, since errors are written to the same pipe."""

_ENDPOINT = re.compile(r"http://(?:127\.0\.0\.1|localhost|\[::1\]):([1-9]\d*)")


class ServerProcess:
    """A server in a process of its own, which has reported its port when this object exists.

    Parameters
    ----------
    command : sequence of str
        The arguments after ``python -m``, if `python`, or the program and its arguments.
    python : bool
        Whether the command is a module of ours, which watches its input.
    timeout : float
        Seconds to wait for the server to listen.
    variables : Mapping of str to str
        Environment variables for the server, besides those of this process.

    Raises
    ------
    RuntimeError
        If the server ends or reports no port in time; the message has its output.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        python: bool = True,
        timeout: float = 60,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        launcher = [] if python else ["tests.servers.process"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", *launcher, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            start_new_session=True,  # Ctrl+C, which signals to the group of the tests, would end it too early
            # like `python -m` in the root, whatever the current process has on its path
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **variables},
        )
        self._said: list[str] = []
        self._lines: list[str] = []
        self._arrived = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.endpoint = self._wait_for_endpoint(time.monotonic() + timeout)
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        """Keep reading the server's output, or it would block when the pipe is full."""
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with self._arrived:
                    self._lines.append(line)
                    self._said = [*self._said[-50:], line]
                    self._arrived.notify_all()
        with self._arrived:
            self._lines.append("")
            self._arrived.notify_all()

    def answer(self, deadline: float) -> str:
        """Return the server's next answer."""
        while line := self._line(deadline):
            if line.startswith(ANSWER_MARK):
                return line.removeprefix(ANSWER_MARK)
        raise RuntimeError(self._failure("has ended"))

    def _line(self, deadline: float) -> str:
        """Return the server's next line of output, or an empty one after the last."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: self._lines, max(0, deadline - time.monotonic())):
                raise RuntimeError(self._failure("did not answer in time"))
            return self._lines.pop(0) if self._lines[0] else ""

    def send(self, line: str) -> None:
        """Send a line to the server's standard input."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError:
            raise RuntimeError(self._failure("has ended")) from None

    def _wait_for_endpoint(self, deadline: float) -> str:
        while line := self._line(deadline):
            if found := _ENDPOINT.search(line):
                return f"http://127.0.0.1:{found[1]}"
        raise RuntimeError(self._failure("ended before it listened"))

    def _failure(self, what: str) -> str:
        return f"the server `{' '.join(map(str, self._process.args[1:]))}` {what}; it said:\n{''.join(self._said)}"

    @property
    def pid(self) -> int:
        """The process id of the server, or of its launcher."""
        return self._process.pid

    def close(self) -> None:
        """End the server, and wait until it has ended."""
        assert self._process.stdin is not None
        with suppress(OSError):  # it may have ended already
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
        self._reader.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def run_program(command: Sequence[str]) -> int:
    """Run a program until it ends or our standard input is closed; then end it and the processes that it started."""
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os.killpg(0, signal.SIGKILL)  # this process, too; `ServerProcess` has made it the leader of a group

    threading.Thread(target=watch, daemon=True).start()
    return program.wait()


if __name__ == "__main__":
    sys.exit(run_program(sys.argv[1:]))
