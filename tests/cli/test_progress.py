"""The progress line: the total of a hierarchy, and the bytes done."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

import tegula
from tegula.cli import progress
from tegula.cli.program import app
from tegula.cli.progress import _Line as Line
from tegula.cli.progress import amounts, byte_line, progress_line
from tegula.jobs.managing import Done


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def hierarchy() -> tegula.Group:
    group = tegula.create_group({})
    group["a"] = [1.0] * 100
    group["deep/b"] = [1.0] * 300
    huge = group.create_array("huge", shape=10**15, chunks=100, dtype="u1")
    huge[0] = huge[10**14] = 1
    return group


def test_the_total_is_the_bytes_of_all_arrays(hierarchy: tegula.Group) -> None:
    assert dict(amounts(hierarchy)) == {"a": 800, "deep/b": 2400, "huge": 200}
    table = tegula.create_table({}, {"x": [1, 2], "y": [0.5, 1]})
    assert dict(amounts(table)) == {"x": 16, "y": 16}


def test_no_line_without_a_terminal(hierarchy: tegula.Group, monkeypatch: pytest.MonkeyPatch) -> None:
    with progress_line(False, hierarchy) as show:
        assert show is None
    monkeypatch.setattr(progress.sys, "stderr", Terminal())
    with progress_line(True, hierarchy) as show, byte_line(True, lambda: 1) as other:
        assert show is other is None


def test_one_line_for_all_arrays(hierarchy: tegula.Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.sys, "stderr", Terminal())
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(progress._Line, "total", lambda self, number, before: seen.append(("total", number, before)))
    monkeypatch.setattr(progress._Line, "show", lambda self, path, done: seen.append((path, done)))
    with progress_line(False, hierarchy) as show:
        assert show is not None
        show("a", 400, 800)
        show("a", 800, 800)
        show("huge", 10**15, 10**15)
        show("deep/b", 1200, 2400)
    assert seen == [("total", 3400, 0), ("a", 400), ("a", 800), ("huge", 1000), ("deep/b", 2200)]


def test_several_arrays_may_be_under_way(hierarchy: tegula.Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.sys, "stderr", Terminal())
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr(progress._Line, "show", lambda self, path, done: seen.append((path, done)))
    with progress_line(False, hierarchy) as show:
        assert show is not None
        for path, done, total in [("a", 400, 1600), ("deep/b", 2400, 4800), ("a", 1600, 1600), ("deep/b", 4800, 4800)]:
            show(path, done, total)
    assert seen == [("a", 200), ("deep/b", 1400), ("a", 2000), ("deep/b", 3200)]


def test_a_real_line(hierarchy: tegula.Group, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with progress_line(False, hierarchy) as show:
        assert show is not None
        show("[red]a", 800, 800)
    assert "[red]a" in terminal.getvalue()
    assert "23 %" in terminal.getvalue()
    assert "0.8/3.3 KiB" in terminal.getvalue()


def test_after_resuming_the_line_begins_where_the_earlier_run_ended(
    hierarchy: tegula.Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress.sys, "stderr", Terminal())
    lines: list[Any] = []
    monkeypatch.setattr(progress, "_Line", lambda bar: lines.append(Line(bar)) or lines[-1])
    clock = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: clock[0])
    earlier = {"a": Done(1.0, 800), "deep/b": Done(0.5, 1200), "gone": Done(1.0, 7)}
    with progress_line(False, hierarchy, earlier=lambda: earlier) as show:
        assert show is not None
        line = lines[0]
        assert (line._now.completed, line._now.total, line.rate, line.left) == (2000, 3400, 0, 0)
        clock[0] = 2
        show("a", 800, 800)  # which takes no time, and is no work of this run
        show("deep/b", 400, 2400)
        assert (line._now.completed, line.rate) == (2000, 0)
        clock[0] = 4
        show("deep/b", 1800, 2400)
        assert (line._now.completed, line.rate, line.left) == (2600, 150, (3400 - 2600) / 150)
        assert line.shown == {"percent": "76 %", "rate": "150 B/s", "left": "5 s left"}
    with byte_line(False, lambda: 3400, earlier=lambda: earlier):
        assert lines[1]._now.completed == 2007


def test_the_rate_is_that_of_the_last_half_minute_or_of_the_last_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.sys, "stderr", Terminal())
    lines: list[Any] = []
    monkeypatch.setattr(progress, "_Line", lambda bar: lines.append(Line(bar)) or lines[-1])
    clock = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: clock[0])
    with byte_line(False, lambda: 10_000) as show:
        assert show is not None
        for now, done, rate in [(100, 1000, 10), (200, 3000, 20), (210, 4000, 3000 / 110), (235, 5000, 2000 / 35)]:
            clock[0] = now
            show("x", 1, done)
            assert lines[0].rate == rate
        clock[0] = 245
        show("x", 1, 6000)
        assert (lines[0].rate, lines[0].left) == (2000 / 35, 70)
        clock[0] = 265  # the rest takes as long, and time has passed
        assert lines[0].left == 50
        clock[0] = 10_000
        assert (lines[0].left, lines[0].shown["left"]) == (0, "")


def test_the_rate_after_a_resume_is_that_of_this_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.sys, "stderr", Terminal())
    clock, end, lines = [0.0], [400], []

    class Ticking(Line):
        """Each step takes a second; one of them is interrupted."""

        def __init__(self, bar: Any) -> None:
            super().__init__(bar)
            lines.append(self)

        def show(self, path: str, done: int) -> None:
            clock[0] += done > self._steps[-1][1]
            super().show(path, done)
            if done >= end[0]:
                raise KeyboardInterrupt

    monkeypatch.setattr(progress, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress, "_Line", Ticking)
    tegula.save(tmp_path / "a.zarr", **{f"x{number}": np.arange(100, dtype="u1") for number in range(10)})
    command = ["convert", str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"), "--codecs", "zlib", "--resume"]
    assert get_command(app).main(command, standalone_mode=False) == 130
    clock[0] += 1000
    end[0] = 10_000
    assert get_command(app).main(command, standalone_mode=False) is None
    first, second = lines
    assert (first.rate, first._now.completed) == (100, 400)
    # what the first run did is no work of the second one, nor is the time between them
    (begin, before), *_, (now, done) = second._steps
    assert (begin, before, now, done) == (1004, 400, 1010, 1000)
    assert second.rate == 100
