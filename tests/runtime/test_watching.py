"""Waiting ends when a named file changes, and otherwise takes its time."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from tegula.runtime.watching import Watch

pytestmark = [
    pytest.mark.once(executors="none"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has inotify"),
]


def test_only_named_files_end_the_wait(tmp_path: Path) -> None:
    watch = Watch()
    assert watch.watch({str(tmp_path): {"a"}})
    assert not watch.watch({str(tmp_path): {"a"}})
    (tmp_path / "b").write_bytes(b"")
    assert not watch.wait(0.05)
    (tmp_path / "a").write_bytes(b"1")
    assert watch.wait(60)
    assert not watch.wait(0)
    (tmp_path / "b").rename(tmp_path / "a")
    assert watch.wait(60)
    (tmp_path / "a").unlink()
    assert watch.wait(60)
    watch.close()
    assert not watch.wait(0.01)


def test_a_directory_that_is_replaced_is_watched_again(tmp_path: Path) -> None:
    watch, path = Watch(), tmp_path / "x"
    path.mkdir()
    assert watch.watch({str(path): {"a"}})
    path.rename(tmp_path / "old")
    assert watch.wait(60)
    path.mkdir()
    assert watch.watch({str(path): {"a"}})
    (tmp_path / "old/a").touch()
    assert not watch.wait(0.05)
    (path / "a").touch()
    assert watch.wait(60)
    (path / "a").unlink()
    path.rmdir()
    assert watch.wait(60)
    assert not watch.watch({str(path): {"a"}})
    watch.close()


def test_an_overflow_of_the_queue_ends_the_wait(tmp_path: Path) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 2**17:
        pytest.skip("the queue is long")
    watch = Watch()
    watch.watch({str(tmp_path): {"a"}})
    for _ in range(most // 2 + 2):  # two events each, none of which is of a watched name
        os.close(os.open(tmp_path / "b", os.O_CREAT | os.O_WRONLY))
        os.unlink(tmp_path / "b")
    assert watch.wait(60)
    watch.close()


def test_another_thread_ends_the_wait() -> None:
    watch = Watch()
    threading.Timer(0.05, watch.wake).start()
    began = time.monotonic()
    assert watch.wait(60)
    assert time.monotonic() - began < 30
    watch.close()


def test_without_descriptors_only_time_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> tuple[int, int]:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(os, "pipe", refuse)
    watch = Watch()
    assert not watch.watch({str(tmp_path): {"a"}})
    assert not watch.wait(0.01)
    threading.Timer(0.05, watch.wake).start()
    assert watch.wait(60)
    watch.close()


def test_a_forked_process_has_descriptors_of_its_own(tmp_path: Path) -> None:
    watch = Watch()
    watch.watch({str(tmp_path): {"a"}})
    child = os.fork()
    if not child:
        is_new = watch.watch({str(tmp_path): {"a"}})
        (tmp_path / "a").touch()
        os._exit(0 if is_new and watch.wait(20) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert watch.wait(60)
    watch.close()
