"""A process of its own for a contender: jobs come in as lines of JSON, and answers go out as such.

``worker.py NAME`` imports the contender NAME. The jobs ``begin``, ``sample`` and ``end`` are those of a seat.
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
from seats import LocalSeat


def answer(seat: LocalSeat, job: dict[str, Any]) -> dict[str, Any]:
    match job["do"]:
        case "version":
            return {"version": seat.contender.version()}
        case "begin":
            case = Case(**job["case"])
            seat.begin(job["regime"], case, Place(Path(job["root"]), case))
            return {"single": seat.single}
        case "sample":
            return {"seconds": seat.sample(job["times"])}
        case "group":
            return {"seconds": ask_contender(seat.contender, job["regime"], Path(job["path"]), job["count"])}
        case "end":
            seat.end()
            return {}
        case other:
            raise Lacking(f"no such job: {other}")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it by closing its input
    # what a library prints must not get between the answers
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        seat = LocalSeat(make(sys.argv[1]))
    except (ImportError, Lacking) as error:
        print(json.dumps({"error": str(error)}), file=output, flush=True)
        return
    for line in sys.stdin:
        try:
            found = answer(seat, json.loads(line))
        except Lacking as error:
            found = {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - it is the answer
            found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), file=output, flush=True)


if __name__ == "__main__":
    main()
