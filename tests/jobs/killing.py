"""A program that carries out a job with a ledger, and a source that records reads; run by the tests of kills."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import tegula
from tegula.jobs import units
from tegula.stores import LocalStore

LOG = "TEGULA_TEST_LOG"


class NotingStore(LocalStore):
    """Local files; the key of each chunk that is read goes to a file, in any process."""

    def get(self, key: str, byte_range: Any = None, *, with_generation: bool = False) -> Any:
        found = super().get(key, byte_range, with_generation=with_generation)
        if "/c/" in f"/{key}":
            time.sleep(0.002)
            fd = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(fd, f"{key}\n".encode())
            os.close(fd)
        return found


def main() -> None:
    """Carry out the job of the argument: a JSON object with source, target, the operation and its options."""
    options = json.loads(sys.argv[1])
    units.BLOCK_BYTES = 1  # a unit is one chunk
    part = options.pop("part", None)
    source = tegula.open(NotingStore(options.pop("source"), read_only=True))
    operation = getattr(tegula, options.pop("operation", "convert"))
    if operation is tegula.downsample:
        source = source["a"]
    report = operation(source, options.pop("target"), part=None if part is None else tuple(part), **options)
    print(json.dumps({"left": report.units_left}))


if __name__ == "__main__":
    main()
