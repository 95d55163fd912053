"""A program that syncs a slow source; run and killed by the tests of kills."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import tegula
from tegula.jobs import units
from tegula.stores import LocalStore


class SlowStore(LocalStore):
    """Local files, of which each chunk takes a while."""

    def get(self, key: str, byte_range: Any = None, *, with_generation: bool = False) -> Any:
        if "/c/" in f"/{key}":
            time.sleep(0.004)
        return super().get(key, byte_range, with_generation=with_generation)


def main() -> None:
    """Sync as the argument says: a JSON object with source, target, and options."""
    options = json.loads(sys.argv[1])
    units.BLOCK_BYTES = 1  # a unit is one chunk
    part = options.pop("part", None)
    place, storage = options.pop("source"), options.pop("storage_options", None)
    local = "://" not in place
    source = tegula.open(SlowStore(place, read_only=True) if local else place, "r", storage_options=storage)
    print("ready", flush=True)
    report = tegula.sync(source, options.pop("target"), part=None if part is None else tuple(part), **options)
    print(json.dumps({"left": report.units_left}))


if __name__ == "__main__":
    main()
