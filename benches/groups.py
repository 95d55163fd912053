"""Groups of many arrays: their names, all of them opened, and one of them by consolidated metadata."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from contenders.interface import Lacking
from timing import Effort, Row

WANTED = "a00123"
REGIMES = ("names", "arrays", "member")


def _array(format: str) -> dict[str, Any]:
    if format == "zarr2":
        return {
            "zarr_format": 2,
            "shape": [10],
            "chunks": [10],
            "dtype": "<i4",
            "compressor": None,
            "fill_value": 0,
            "order": "C",
            "filters": None,
        }
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [10],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
    }


def write_group(path: Path, format: str, count: int) -> None:
    """Write the documents of a group of `count` arrays, and the consolidated one."""
    names = [f"a{number:05d}" for number in range(count)]
    array = _array(format)
    document = ".zarray" if format == "zarr2" else "zarr.json"
    for name in names:
        (path / name).mkdir(parents=True)
        (path / name / document).write_text(json.dumps(array, indent=2))
    if format == "zarr2":
        (path / ".zgroup").write_text('{"zarr_format": 2}')
        metadata = {".zgroup": {"zarr_format": 2}, **{f"{name}/.zarray": array for name in names}}
        (path / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": metadata}))
    else:
        inline = {"kind": "inline", "must_understand": False, "metadata": dict.fromkeys(names, array)}
        group = {"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata": inline}
        (path / "zarr.json").write_text(json.dumps(group))


def _ask(runner: Any, regime: str, path: Path, format: str, count: int) -> float:
    """Return the seconds that a contender takes, in its process."""
    if runner.name == "limit":
        return _limit(regime, path, format)
    if hasattr(runner, "process"):
        if runner.name == "zarr2" and format != "zarr2":
            raise Lacking("it knows Zarr v2 only")
        return float(runner.process.ask(do="group", regime=regime, path=str(path), count=count)["seconds"])
    return ask_contender(runner.contender, regime, path, count)


def _limit(regime: str, path: Path, format: str) -> float:
    """Return the seconds of listing a group, of reading all documents, or of finding a member in one."""
    document, consolidated = (".zarray", ".zmetadata") if format == "zarr2" else ("zarr.json", "zarr.json")
    start = time.perf_counter()
    if regime == "member":
        (path / consolidated).read_bytes().find(f'"{WANTED}'.encode())
    else:
        for name in [entry.name for entry in os.scandir(path) if entry.name[0] == "a"]:
            if regime == "arrays":
                file = os.open(f"{path}/{name}/{document}", os.O_RDONLY)
                os.pread(file, 4096, 0)
                os.close(file)
    return time.perf_counter() - start


def ask_contender(contender: Any, regime: str, path: Path, count: int) -> float:
    """Do one of the regimes, compare the result, and return the seconds."""
    if contender.synced:
        raise Lacking("reading is the same without waiting for the disk")
    own = path.with_suffix(f".{contender.name}")
    if contender.own_files:
        if not own.exists():
            contender.make_group(own, count)
        path = own
    with contender.active():
        start = time.perf_counter()
        found = contender.member(path, WANTED) if regime == "member" else getattr(contender, regime)(path)
        seconds = time.perf_counter() - start
    expected = (10,) if regime == "member" else count
    if found != expected:
        raise Lacking(f"it found {found}, not {expected}")
    return seconds


def measure_groups(runners: list[Any], root: Path, count: int, regimes: list[str], effort: Effort) -> list[Row]:
    """Time the regimes on a group of each format."""
    rows = []
    for format in ("zarr2", "zarr3"):
        path = root / f"group-{format}"
        write_group(path, format, count)
        for regime in regimes:
            row = Row(f"group-{format}-{count}", regime, "ms", 1)
            spent = dict.fromkeys((runner.name for runner in runners), 0.0)
            for _ in range(min(3, effort.rounds)):
                for runner in runners:
                    if runner.name in row.why or spent[runner.name] > effort.seconds:
                        continue
                    try:
                        seconds = _ask(runner, regime, path, format, count)
                    except Exception as error:
                        row.why[runner.name] = str(error) or type(error).__name__
                        row.samples.pop(runner.name, None)
                        continue
                    spent[runner.name] += seconds
                    row.samples.setdefault(runner.name, []).append(seconds)
            rows.append(row)
        shutil.rmtree(path)
    return rows
