"""A process of its own for a contender of `remote.py`: ``remote_worker.py NAME ENDPOINT``."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from typing import Any

import numpy as np
from contenders.interface import Lacking
from contenders.remote_arrays import REMOTE, Remote
from remote_cases import REGIMES, RemoteCase


class Worker:
    """What a contender is asked to do."""

    def __init__(self, contender: Remote) -> None:
        self.contender = contender

    def version(self) -> str:
        return self.contender.version()

    def fill(self, case: dict[str, Any], path: str) -> None:
        """Write all rows of an array that has documents only."""
        array = self.contender.open(path)
        self.contender.write(array, (slice(None), slice(None)), RemoteCase(**case).values()[: array.shape[0]])

    def check(self, case: dict[str, Any], path: str) -> bool:
        """Return whether an array holds the values of a case."""
        values = RemoteCase(**case).values()
        array = self.contender.open(path)
        return np.array_equal(self.contender.read(array, (slice(None), slice(None))), values)

    def sample(self, regime: str, case: dict[str, Any], path: str) -> float:
        """Do it once, and return how many seconds it took."""
        made, contender = RemoteCase(**case), self.contender
        values, key = made.values(), REGIMES[regime].key(made)
        array = None if regime == "open" else contender.open(path)
        part = np.ascontiguousarray(values[key]) if key else None
        if (first := REGIMES[regime].first) is not None:
            array = contender.append(array, np.ascontiguousarray(values[first(made)]))
        start = time.perf_counter()
        found: Any = None
        match regime:
            case "open":
                array = contender.open(path)
            case "1,000 points":
                found = contender.points(array, key)
            case "append" | "further append":
                contender.append(array, part)
            case _ if REGIMES[regime].rows is not None:
                contender.write(array, key, part)
            case _:
                found = contender.read(array, key)
        seconds = time.perf_counter() - start
        assert array is not None
        if found is not None and not np.array_equal(found, part):
            raise Lacking("it reads other values")
        return seconds


def main() -> None:
    warnings.simplefilter("ignore")
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    try:
        worker = Worker(REMOTE[sys.argv[1]](sys.argv[2]))
    except (ImportError, Lacking) as error:
        print(json.dumps({"error": str(error)}), file=output, flush=True)
        return
    print(json.dumps({}), file=output, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            found = {"value": getattr(worker, job.pop("do"))(**job)}
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(found), file=output, flush=True)


if __name__ == "__main__":
    main()
