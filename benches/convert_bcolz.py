"""Time the conversion of a bcolz carray to Zarr and back: compressed chunks copied, compressed anew, and zarr-python.

Every way is taken in turn, round after round, so that whatever else the machine does hits them alike; the table gives
the minimum and the median of each, and how many times faster than each of the others copying is. ``plain files`` reads
and writes as many bytes in as many files with nothing in between, which is as fast as copying can get there. Run it
with ``python benches/convert_bcolz.py [DIRECTORY]``; a directory in memory (``/dev/shm``) leaves the disk out of it.
``--json FILE`` keeps the figures, and ``--rounds N`` sets the number of rounds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bcolz
import numpy as np
import zarr

import tegula

ROWS = 10_000_000
CHUNKLEN = 65536
# what the source has, so that the codecs are asked for and yet the same; the block size makes them differ
ANEW = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 2**19}
Work = Callable[[Path], Any]


def write_source(root: Path) -> None:
    """Write 80 MB of a random walk, as bcolz compresses it by default."""
    values = np.random.default_rng(1).integers(-3, 4, ROWS).cumsum()
    params = bcolz.cparams(cname="lz4", clevel=5, shuffle=1)
    bcolz.carray(values, rootdir=str(root / "carray"), chunklen=CHUNKLEN, cparams=params).flush()
    tegula.convert(root / "carray", root / "zarr", format="zarr2", verify=True)


def plain_files(root: Path) -> Work:
    def work(target: Path) -> None:
        target.mkdir()
        for path in (root / "carray" / "data").iterdir():
            (target / path.name).write_bytes(path.read_bytes())

    return work


def through_memory(source: Path) -> Work:
    """Copy between two stores in memory: what copying costs without any file."""
    store = tegula.MemoryStore()
    tegula.convert(source, store, format="bcolz")
    return lambda target: tegula.convert(store, tegula.MemoryStore(), format="zarr2")


def with_zarr(root: Path) -> Work:
    """Decode with bcolz and encode with zarr-python, 64 chunks at a time."""

    def work(target: Path) -> None:
        source = bcolz.open(str(root / "carray"), mode="r")
        codec = zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=8)
        new = zarr.create_array(
            str(target), shape=source.shape, chunks=(CHUNKLEN,), dtype=source.dtype, compressors=codec, zarr_format=3
        )
        for start in range(0, len(source), 64 * CHUNKLEN):
            new[start : start + 64 * CHUNKLEN] = source[start : start + 64 * CHUNKLEN]

    return work


def converted(source: Path, **options: Any) -> Work:
    def work(target: Path) -> None:
        report = tegula.convert(source, target, **options)
        assert report.ok
        copied = report.arrays[0].chunks_copied
        assert (copied == 0) == ("codecs" in options), f"{copied} chunks were copied"

    return work


def ways(root: Path) -> dict[str, Work]:
    carray, old = root / "carray", root / "zarr"
    return {
        "bcolz to zarr2, copied": converted(carray, format="zarr2"),
        "bcolz to zarr3, copied": converted(carray, format="zarr3"),
        "zarr2 to bcolz, copied": converted(old, format="bcolz"),
        "bcolz to zarr2 in memory, copied": through_memory(carray),
        "plain files": plain_files(root),
        "bcolz to zarr2, compressed anew": converted(carray, format="zarr2", codecs=ANEW),
        "bcolz to zarr3, bcolz and zarr-python": with_zarr(root),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="tegula-", dir=options.directory))
    try:
        write_source(root)
        contenders = ways(root)
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(options.rounds):
            for name, work in contenders.items():
                start = time.perf_counter()
                work(root / "target")
                times[name].append(time.perf_counter() - start)
                shutil.rmtree(root / "target", ignore_errors=True)
    finally:
        shutil.rmtree(root)
    best = {name: (min(found), statistics.median(found)) for name, found in times.items()}
    copied = best["bcolz to zarr2, copied"][0]
    print(f"{ROWS * 8 / 1e6:.0f} MB in {-(-ROWS // CHUNKLEN)} chunks, milliseconds: minimum, median, against copying")
    for name, (least, median) in best.items():
        print(f"{name:40} {least * 1e3:8.1f} {median * 1e3:8.1f} {least / copied:7.1f}")
    if options.json:
        options.json.write_text(json.dumps(best, indent=1))


if __name__ == "__main__":
    main()
