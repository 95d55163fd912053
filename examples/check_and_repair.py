"""Find what is damaged in a hierarchy, repair what can be repaired without loss, and restore the rest from a copy.

Run it from the clone, as often as you like::

    python examples/check_and_repair.py [FOLDER]

It writes to ``example-output`` unless told otherwise, and prints::

    check:
    error: damaged-chunk: counts/c/0/1: the checksum does not match the data (codec 'crc32c')
    warning: unequal-columns: readings/time/zarr.json: the columns differ in length: time 100, value 102
    warning: consolidated-differs: zarr.json: the copy of 'counts' differs from the document
    warning: consolidated-differs: zarr.json: the copy of 'readings/value' differs from the document
    repair:
    error: damaged-chunk: counts/c/0/1: the checksum does not match the data (codec 'crc32c')
    repaired: unequal-columns: readings/time/zarr.json: the columns differ in length: time 100, value 102
    repaired: consolidated-differs: zarr.json: the copy of 'counts' differs from the document
    repaired: consolidated-differs: zarr.json: the copy of 'readings/value' differs from the document
    restored:
    1 group, 1 table, 3 arrays, 6 chunks: nothing wrong
"""

import sys
from pathlib import Path

import numpy as np

import tegula


def build(lab: Path) -> None:
    """Make a group with an array and a table, whose metadata are consolidated."""
    group = tegula.create_group(lab, overwrite=True)
    numbers = np.arange(10_000, dtype="u2").reshape(100, 100)
    group.create_array("counts", data=numbers, chunks=(50, 50), checksum=True)
    readings = {"time": np.arange(100), "value": np.sqrt(np.arange(100))}
    tegula.create_table(lab / "readings", readings, chunks=1000, format="zarr3")
    group.consolidate()


def damage(lab: Path) -> None:
    """Do what bad transfers, killed programs and other libraries do."""
    chunk = lab / "counts" / "c" / "0" / "1"
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 16  # one bit
    chunk.write_bytes(data)
    tegula.open_array(lab / "readings" / "value", mode="r+").append([10, 11])  # rows of one column only
    tegula.open_array(lab / "counts", mode="r+").attrs["units"] = "1"  # the consolidated metadata are out of date


def main(folder: Path) -> int:
    """Damage a hierarchy, look for the damage, and mend it."""
    lab, backup = folder / "lab.zarr", folder / "backup.zarr"
    build(lab)
    tegula.copy(lab, backup, overwrite=True)
    damage(lab)

    print("check:", *tegula.check(lab).findings, sep="\n")
    report = tegula.check(lab, repair=True)
    print("repair:", *report.findings, sep="\n")

    for finding in report.findings:
        if not finding.repaired:  # what the values were, only a copy knows
            tegula.copy(backup / finding.path, lab / finding.path, overwrite=True)
    tegula.open_group(lab, mode="r+").consolidate()
    report = tegula.check(lab)
    print("restored:", report.summary, sep="\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-output")))
