"""Paths in the form of this system, and drives that give files no numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from tests.waiting import run_threads

import tegula
from tegula.errors import ConflictError
from tegula.stores import ABSENT, LocalStore
from tegula.stores.local import kernel


@pytest.mark.parametrize("form", [str, Path.as_posix, Path.as_uri], ids=["path", "slashes", "URL"])
def test_references_name_files_by_paths_of_this_system(tmp_path: Path, form: Callable[[Path], str]) -> None:
    folder = tmp_path / "a.zarr"
    tegula.create_array(folder, data=np.arange(6, dtype="i2"), chunks=3, format="zarr2", codecs=None)
    refs: dict[str, Any] = {".zarray": (folder / ".zarray").read_text()}
    refs |= {key: [form(folder / key)] for key in ("0", "1")}
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    for where in (tmp_path / "refs.json", f"reference::{form(tmp_path / 'refs.json')}"):
        assert tegula.open_array(where, mode="r")[...].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.fixture
def numberless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_reference: None) -> LocalStore:
    """A store on a drive, as some network drives are on Windows: all files and devices have the number 0."""

    def of(real: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def call(*args: Any, **options: Any) -> os.stat_result:
            found = real(*args, **options)
            times = {name: getattr(found, name) for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")}
            return os.stat_result((found.st_mode, 0, 0, *found[3:]), times)

        return call

    for name in ("stat", "fstat", "lstat"):
        monkeypatch.setattr(os, name, of(getattr(os, name)))
    monkeypatch.setattr(kernel, "is_allowed", False)
    return LocalStore(tmp_path / "root")


def test_no_update_is_lost_on_a_drive_without_numbers(numberless: LocalStore) -> None:
    first = numberless.set("n", b"0", if_generation=ABSENT)
    assert numberless.get("n", with_generation=True)[1] == first

    def add() -> None:
        for _ in range(25):
            while True:
                raw, generation = numberless.get("n", with_generation=True)
                try:
                    numberless.set("n", b"%d" % (int(raw) + 1), if_generation=generation)
                    break
                except ConflictError:
                    pass

    run_threads([Thread(target=add) for _ in range(4)])
    assert numberless.get("n") == b"100"
    with pytest.raises(ConflictError):
        numberless.delete("n", if_generation=first)
    with numberless.lock("n") as held:
        assert held
        numberless.set("n", b"locked")
    assert [*numberless.list()] == ["n"]


def test_arrays_on_a_drive_without_numbers(numberless: LocalStore) -> None:
    array = tegula.create_array(numberless, data=np.arange(6), chunks=4)
    array.append(np.arange(3))
    array[1] = 9
    assert tegula.open_array(numberless)[...].tolist() == [0, 9, 2, 3, 4, 5, 0, 1, 2]
    tegula.create_array(numberless, data=np.arange(2), overwrite=True)
    assert tegula.open_array(numberless)[...].tolist() == [0, 1]
    with pytest.raises(tegula.TegulaError):
        array[0] = 5
    numberless.delete_prefix("")
    assert [*numberless.list()] == []
