"""Daily and minute bars, written, extended and read as zipline does, by tegula and the real bcolz in turn."""

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tegula import bcolz as ours

DAILY = ("open", "high", "low", "close", "volume", "day", "id")
MINUTE = ("open", "high", "low", "close", "volume")
PER_DAY = 390


@pytest.fixture(name="real")
def _real() -> Iterator[ModuleType]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield pytest.importorskip("bcolz")


def frames() -> dict[int, pd.DataFrame]:
    rng = np.random.default_rng(0)
    out = {}
    for sid, days in {3: 40, 7: 11, 24: 40}.items():
        index = pd.date_range("2020-01-01", periods=days, name="day")
        out[sid] = pd.DataFrame(rng.integers(1, 500, (days, 5)) / 4, index, [*MINUTE])
    return out


def write_daily(bcolz: ModuleType, place: str) -> None:
    columns = {name: bcolz.carray(np.array([], dtype=np.uint32)) for name in DAILY}
    first_row, last_row, offset, total, first_day = {}, {}, {}, 0, None
    for sid, frame in frames().items():
        processed = (frame[[*MINUTE[:4]]] * 1000).round().astype("uint32")
        processed["day"] = frame.index.values.astype("M8[s]").astype("u4")
        processed["volume"] = frame.volume.astype("u4")
        table = bcolz.ctable.fromdataframe(processed)
        for name in DAILY[:-1]:
            columns[name].append(table[name])
        columns["id"].append(np.full((len(table),), sid, dtype="u4"))
        first_day = table["day"][0] if first_day is None else min(first_day, table["day"][0])
        first_row[str(sid)], last_row[str(sid)], offset[str(sid)] = total, total + len(table) - 1, 0
        total += len(table)
    full = bcolz.ctable(columns=[columns[name] for name in DAILY], names=DAILY, rootdir=place, mode="w")
    full.attrs["first_trading_day"] = first_day
    full.attrs["first_row"] = first_row
    full.attrs["last_row"] = last_row
    full.attrs["calendar_offset"] = offset
    full.attrs["calendar_name"] = "NYSE"
    full.attrs["start_session_ns"] = pd.Timestamp("2020-01-01").value
    full.flush()


def read_daily(bcolz: ModuleType, place: str) -> dict[str, Any]:
    table = bcolz.ctable(rootdir=place, mode="r")
    assert "calendar" not in table.attrs.attrs
    assert table.attrs["calendar_name"] == "NYSE"
    out: dict[str, Any] = {"attributes": dict(table.attrs), "rows": len(table), "names": table.names}
    for sid, first in table.attrs["first_row"].items():
        last = table.attrs["last_row"][sid]
        for name in DAILY:
            column = table[name]
            part = column[first : last + 1]
            assert part.dtype == np.uint32
            assert type(column[first]) is int
            out[f"{name}/{sid}"] = part.tolist(), column[last]
    out["all"] = {name: table[name][:].tolist() for name in DAILY}
    return out


def test_daily_bars(real: ModuleType, tmp_path: Path) -> None:
    found = []
    for writer in (ours, real):
        place = str(tmp_path / f"{writer.__name__}.bcolz")
        write_daily(writer, place)
        found += [read_daily(reader, place) for reader in (ours, real)]
    assert all(one == found[0] for one in found)
    frame = frames()[7]
    assert found[0]["close/7"][0] == (frame.close * 1000).round().astype(int).tolist()
    assert found[0]["rows"] == 91


class MinuteWriter:
    """Writes the minutes of each asset to a table of its own."""

    def __init__(self, bcolz: ModuleType, root: Path) -> None:
        self.bcolz, self.root = bcolz, root

    def path(self, sid: int) -> str:
        digits = f"{sid:06}"
        return str(self.root / digits[:2] / digits[2:4] / f"{digits}.bcolz")

    def table(self, sid: int) -> Any:
        path = self.path(sid)
        if os.path.exists(path):
            return self.bcolz.ctable(rootdir=path, mode="a")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        table = self.bcolz.ctable(
            rootdir=path,
            columns=[np.empty(0, np.uint32)] * 5,
            names=[*MINUTE],
            expectedlen=PER_DAY * 252 * 15,
            mode="w",
        )
        table.flush()
        return table

    def pad(self, sid: int, days: int) -> None:
        table = self.table(sid)
        table.append([np.zeros(days * PER_DAY, np.uint32)] * 5)
        table.flush()

    def write(self, sid: int, values: Any) -> None:
        table = self.table(sid)
        table.append([np.ascontiguousarray(column) for column in values.T])
        table.flush()

    def days(self, sid: int) -> int:
        with open(f"{self.path(sid)}/close/meta/sizes") as file:
            return int(json.load(file)["shape"][0]) // PER_DAY

    def truncate(self, sid: int, days: int) -> None:
        table = self.bcolz.ctable(rootdir=self.path(sid))
        if table.len > days * PER_DAY:
            table.resize(days * PER_DAY)


def test_minute_bars(real: ModuleType, tmp_path: Path) -> None:
    writers = [MinuteWriter(library, tmp_path) for library in (ours, real)]
    rng = np.random.default_rng(1)
    expected = {sid: np.empty((0, 5), np.uint32) for sid in (1, 20345)}
    for step in range(10):
        writer = writers[step % 2]
        for sid in (1, 20345):
            if step % 5 == 3:
                writer.pad(sid, 2)
                more = np.zeros((2 * PER_DAY, 5), np.uint32)
            else:
                more = rng.integers(0, 10**6, (PER_DAY, 5)).astype(np.uint32)
                writer.write(sid, more)
            expected[sid] = np.concatenate([expected[sid], more])
            if step == 6 + (sid == 1):
                writer.truncate(sid, 4)
                expected[sid] = expected[sid][: 4 * PER_DAY]
        for other in writers:
            for sid, values in expected.items():
                assert other.days(sid) == len(values) // PER_DAY
                table = other.bcolz.ctable(rootdir=other.path(sid), mode="r")
                assert len(table) == len(values)
                for number, name in enumerate(MINUTE):
                    column = table[name]
                    np.testing.assert_array_equal(column[:], values[:, number])
                    assert column[PER_DAY - 1] == values[PER_DAY - 1, number]
                    with pytest.raises(IndexError):
                        column[len(values)]
    assert writers[0].bcolz.ctable(rootdir=writers[0].path(1))["close"].chunklen == 65536
    with pytest.raises(KeyError):
        ours.ctable(rootdir=writers[0].path(99), mode="r")
