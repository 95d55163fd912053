"""Plan a conversion that needs little memory, interrupt it, resume it where it was, and compare every value.

Run it from the clone, as often as you like::

    python examples/resume_conversion.py [FOLDER]

It writes to ``example-output`` unless told otherwise, and prints::

    plan: 22.9 MiB to read and 22.9 MiB to write by ... requests, in 18 units of work, ...
    interrupted: ... of 18 units done
    a reader finds no array there before the conversion is complete
    1 array converted to zarr3, verified, 11.4 MiB in memory, ...
    equal: yes
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import tegula

HOW: dict[str, Any] = {"chunks": (200, 10, 10), "max_memory": "4MB"}  # time series instead of maps


def stop_halfway(path: str, done: int, total: int) -> None:
    """Stand in for Ctrl-C, a time limit or a lost machine, which may come at any moment."""
    if done > total / 2:
        raise KeyboardInterrupt


def main(folder: Path) -> int:
    """Turn maps, a chunk for each few days, into time series, a chunk for each few places."""
    source, target = folder / "maps.zarr", folder / "series.zarr"
    maps = tegula.create_array(
        source, shape=(200, 150, 100), chunks=(5, 150, 100), dtype="f4", format="zarr2", overwrite=True
    )
    maps[:] = np.random.default_rng(0).normal(15, 8, maps.shape).round(1)
    if target.exists():
        tegula.delete(target)

    plan = tegula.convert(source, target, **HOW, dry_run=True)
    print(f"plan: {plan.estimate.summary}")
    try:
        tegula.convert(source, target, **HOW, resume=True, progress=stop_halfway)
    except KeyboardInterrupt:
        job = tegula.jobs.show_job(target)
        print(f"interrupted: {job.units_done} of {job.units} units done")
    try:
        tegula.open(target)
    except tegula.NotFoundError:
        print("a reader finds no array there before the conversion is complete")

    report = tegula.convert(source, target, **HOW, resume=True, verify=True)  # units that are done are not done again
    print(report.summary)
    comparison = tegula.compare(source, target)
    print(f"equal: {'yes' if comparison.equal else 'no'}")
    return 0 if report.ok and comparison.equal else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-output")))
