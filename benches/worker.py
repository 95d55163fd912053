"""A process of its own for a contender: jobs come in as lines of JSON, and answers go out as such.

``worker.py NAME`` imports the contender NAME. The jobs ``begin``, ``sample`` and ``end`` are those of a runner.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from cases import Case
from contenders import make
from contenders.interface import Lacking
from groups import ask_contender
from places import Place
from runners import LocalRunner


def answer(runner: LocalRunner, job: dict[str, Any]) -> dict[str, Any]:
    match job["do"]:
        case "version":
            return {"version": runner.contender.version()}
        case "begin":
            case = Case(**job["case"])
            runner.begin(job["regime"], case, Place(Path(job["root"]), case))
            return {"single": runner.single}
        case "sample":
            return {"seconds": runner.sample(job["times"])}
        case "group":
            return {"seconds": ask_contender(runner.contender, job["regime"], Path(job["path"]), job["count"])}
        case "end":
            runner.end()
            return {}
        case other:
            raise Lacking(f"no such job: {other}")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it by closing its input
    # what a library prints must not get between the answers
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        runner = LocalRunner(make(sys.argv[1]))
    except (ImportError, Lacking) as error:
        print(json.dumps({"error": str(error)}), file=output, flush=True)
        return
    for line in sys.stdin:
        try:
            found = answer(runner, json.loads(line))
        except Lacking as error:
            found = {"error": str(error)}
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), file=output, flush=True)


if __name__ == "__main__":
    main()
