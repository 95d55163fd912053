"""A process that has tegula imported and no threads, and forks a child for each operation that will be killed.

As a program it reads a JSON object a line: the name of an operation, a directory, the fault.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["ForkServer"]


class ForkServer:
    """Starts the program and sends it jobs; for ``with``."""

    def __init__(self) -> None:
        import tegula  # noqa: PLC0415 — not by the program, whose path is made of what is given here

        here = Path(__file__).parent
        paths = [str(Path(tegula.__file__).parents[1]), str(here)]
        # one thread, so that the calls come in the same order each time
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TEGULA_THREADS": "1"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, str(here / "fork_server.py")], stdin=pipe, stdout=pipe, env=environment, text=True
        )

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def run(self, operation: str, path: Path, **fault: Any) -> dict[str, Any]:
        """Carry out an operation in a child; return how that ended, and what calls it made if it came to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([operation, str(path), fault]) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def _child(operation: str, path: str, fault: dict[str, Any], out: int) -> None:
    from faults import Fault, armed  # noqa: PLC0415 — the program imports them before it forks
    from operations import OPERATIONS  # noqa: PLC0415 — as above

    known = {*sys.modules}
    calls = fault.pop("calls", None)
    hook = Fault(path, calls=None if calls is None else frozenset(calls), **fault)
    with armed(hook):
        OPERATIONS[operation].act(path)
    imported = [name for name in sys.modules if name not in known]
    with open(out, "w") as pipe:
        json.dump({"calls": hook.log, "kernel": hook.kernel, "imported": imported}, pipe)


def _main() -> None:
    import faults  # noqa: F401, PLC0415 — for the children
    import operations  # noqa: F401, PLC0415 — as above

    for line in sys.stdin:
        operation, path, fault = json.loads(line)
        inner, outer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(120)  # one that hangs ends
            try:
                _child(operation, path, fault, outer)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(outer)
        with open(inner, "rb") as pipe:
            said = pipe.read()
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answer = json.loads(said) if said else {}
        for name in answer.get("imported", ()):
            import_module(name)  # so that the next child need not
        print(json.dumps({"ended": ended, **answer}), flush=True)


if __name__ == "__main__":
    _main()
