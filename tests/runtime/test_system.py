"""What operating systems do differently, with imitations of the calls of macOS."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tegula.jobs.owners import Owner, new_claim
from tegula.runtime import system


class Macos:
    """The C library of macOS: processes by number, with the second and microsecond of their start, and a spelling."""

    def __init__(self, processes: dict[int, tuple[int, int]], spelling: bytes | None = None) -> None:
        self.processes, self.spelling = processes, spelling

    def sysctl(self, names: Any, count: int, answer: Any, size: Any, new: None, new_size: Any) -> int:
        assert [*names][:3] == [1, 14, 1]
        assert (count, len(answer), size._obj.value) == (4, 648, 648)
        began = self.processes.get(names[3])
        if names[3] == 13:
            return -1
        size._obj.value = 0 if began is None else 648
        if began is not None:
            struct.pack_into("=qi", answer, 0, *began)
        return 0

    def getattrlist(self, path: bytes, wanted: bytes, answer: Any, size: Any, options: Any) -> int:
        assert struct.unpack("=HHIIIII", wanted) == (5, 0, 1, 0, 0, 0, 0)
        assert (size.value, options.value) == (len(answer), 1)
        if self.spelling is None:
            return -1
        name = self.spelling + b"\0"
        struct.pack_into(f"=IiI{len(name)}s", answer, 0, 12 + len(name), 8, len(name), name)
        return 0


def test_a_process_of_macos_is_told_from_earlier_ones_by_its_start() -> None:
    library = Macos({7: (1_800_000_000, 5), 8: (1_800_000_000, 50)})
    assert system._start_on_macos(library, 7) == "1800000000.000005"
    assert system._start_on_macos(library, 8) == "1800000000.000050"
    assert system._start_on_macos(library, 9) is None
    assert system._start_on_macos(library, 13) == ""


def test_the_spelling_of_a_name_on_macos() -> None:
    assert system._name_on_macos(Macos({}, "Größe".encode()), "/a/grösse") == "Größe"
    assert system._name_on_macos(Macos({}), "/a/x") is None


def test_spellings_are_those_of_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Name").touch()
    assert system.spells(str(tmp_path), "Name")
    assert not system.spells(str(tmp_path), "nothing")
    monkeypatch.setattr(system.sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Macos({}, b"Name"))
    assert system.spells(str(tmp_path), "Name")
    assert not system.spells(str(tmp_path), "NAME")


@pytest.mark.slow
def test_a_process_that_has_ended_has_no_start() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert system.start_of(process.pid) not in (None, "", system.start_of(os.getpid()))
        process.communicate(b"\n")
    assert system.start_of(process.pid) is None


@pytest.mark.parametrize("ago", [60, 3600])
def test_where_no_start_is_known_signs_of_life_decide(monkeypatch: pytest.MonkeyPatch, ago: int) -> None:
    monkeypatch.setattr("tegula.jobs.owners.start_of", lambda _: "")
    facts = Owner.here(new_claim())
    assert Owner({**facts, "seen": facts["seen"] - ago}).is_alive == (ago == 60)
    monkeypatch.setattr("tegula.jobs.owners.start_of", lambda _: None)
    assert not Owner(facts).is_alive


def status(**facts: int) -> Any:
    return SimpleNamespace(**{"st_ino": 0, "st_dev": 1, "st_size": 3, "st_mtime_ns": 5, "st_ctime_ns": 7, **facts})


def test_files_without_numbers_are_told_apart_by_size_and_times() -> None:
    assert system.same_file(status(), status())
    for other in ({"st_size": 4}, {"st_mtime_ns": 6}, {"st_ctime_ns": 8}, {"st_ino": 1}, {"st_dev": 2}):
        assert not system.same_file(status(), status(**other))
    assert system.same_file(status(st_ino=2), status(st_ino=2, st_size=9))
    assert not system.same_file(status(st_ino=2), status(st_ino=2, st_dev=2))


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.ENOTTY, errno.EIO])
def test_names_reach_the_drive_of_a_mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    flushed: list[int] = []

    def flush(fd: int, command: int) -> None:
        flushed.append(command)
        if len(flushed) > 1:
            raise OSError(number, "not here")

    monkeypatch.setattr(system.sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "fcntl", SimpleNamespace(fcntl=flush, F_FULLFSYNC=51))
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        system.sync_file(fd)
        if number == errno.EIO:
            with pytest.raises(OSError, match="not here"):
                system.sync_file(fd)
        else:
            system.sync_file(fd)
    finally:
        os.close(fd)
    assert flushed == [51, 51]
