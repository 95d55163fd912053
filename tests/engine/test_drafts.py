"""bcolz arrays under creation: opening them is an error until they are complete."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.waiting import until

import tegula
from tegula import bcolz, config
from tegula.arrays.creation import completing, new_array
from tegula.stores import Generation

ROWS = 50
VALUES = np.full(ROWS, 7, "i4")


def convert(store: tegula.Store) -> None:
    source = tegula.create_array({}, shape=ROWS, dtype="i4", chunks=5, fill_value=7)
    tegula.convert(source, store, format="bcolz", chunks=5)


CREATIONS: dict[str, Callable[[Any], Any]] = {
    "create_array": lambda s: tegula.create_array(
        s, shape=ROWS, dtype="i4", chunks=5, fill_value=7, format="bcolz", attributes={"a": 1}
    ),
    "save": lambda s: tegula.save(s, VALUES, format="bcolz"),
    "convert": convert,
    "create_table": lambda s: tegula.create_table(s, {"x": VALUES}, chunks=5),
    "add_column": lambda s: tegula.create_table(s, {"y": VALUES}, chunks=5).add_column("x", VALUES),
}


class Watching(tegula.MemoryStore):
    """A store that opens the array before and after each change."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.busy = False

    def look(self) -> None:
        if self.busy:
            return
        self.busy = True
        path = "x" if self._values.keys() & {"x/meta/storage", "x/meta/sizes"} else ""
        try:
            array = tegula.open_array(self, path=path)
            self.seen.append("whole" if array.shape == (ROWS,) and (array[:] == 7).all() else f"{array.shape}")
        except tegula.NotFoundError:
            self.seen.append("nothing")
        except tegula.MetadataError as error:
            self.seen.append("incomplete" if "create it again with overwrite=True" in str(error) else str(error))
        finally:
            self.busy = False

    def set(self, key: str, value: Any, *, if_generation: Generation | None = None) -> Generation:
        self.look()
        done = super().set(key, value, if_generation=if_generation)
        self.look()
        return done


@pytest.mark.parametrize("how", CREATIONS)
def test_an_array_under_creation_can_not_be_opened(how: str) -> None:
    store = Watching()
    CREATIONS[how](store)
    order = [state for position, state in enumerate(store.seen) if state != store.seen[position - 1] or not position]
    assert order == ["nothing", "incomplete", "whole"]


@pytest.mark.parametrize("executor", ["reference", "auto"])
@pytest.mark.parametrize(
    "make",
    [
        lambda **options: bcolz.carray(VALUES, **options),
        lambda **options: bcolz.fill(ROWS, 7, "i4", **options),
        lambda **options: bcolz.arange(ROWS, dtype="i4", **options),
        lambda **options: bcolz.fromiter(iter(VALUES), "i4", ROWS, **options),
    ],
    ids=["carray", "fill", "arange", "fromiter"],
)
def test_a_carray_of_the_bcolz_interface(
    make: Callable[..., Any], executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    write = tegula.LocalStore.set

    def watched(store: Any, key: str, *args: Any, **options: Any) -> Any:
        done = write(store, key, *args, **options)
        try:
            seen.append(tegula.open_array(tmp_path / "x").shape)
        except tegula.MetadataError:
            seen.append("incomplete")
        return done

    monkeypatch.setattr(tegula.LocalStore, "set", watched)
    with config.configure(executor=executor):
        make(rootdir=tmp_path / "x", chunklen=5)
    assert seen == ["incomplete"] * (len(seen) - 1) + [(ROWS,)]
    assert len(seen) > (10 if executor == "reference" else 2)  # the kernel stores chunks without calling `set`


def test_an_array_that_is_meant_to_be_empty(tmp_path: Path) -> None:
    for path, made in (
        ("a", tegula.create_array(tmp_path / "a", shape=(0, 3), dtype="i4", format="bcolz")),
        ("b", tegula.save(tmp_path / "b", np.empty((0, 3), "i4"), format="bcolz")),
        ("c", bcolz.carray(np.empty((0, 3), "i4"), rootdir=tmp_path / "c")),
    ):
        assert tegula.open_array(tmp_path / path).shape == (0, 3), made
        assert json.loads((tmp_path / path / "meta" / "sizes").read_bytes())["shape"] == [0, 3]


def test_it_is_counted_as_before() -> None:
    """The documents are those of an array that was created without rows and then filled."""
    one, two = tegula.MemoryStore(), tegula.MemoryStore()
    options: dict[str, Any] = {"dtype": "i4", "chunks": 5, "format": "bcolz", "fill_value": 7}
    tegula.create_array(one, shape=ROWS, **options)
    array = new_array(two, "", shape=0, extra={"expectedlen": ROWS}, **options)
    array.append(VALUES)
    for key in ("meta/storage", "meta/sizes", "__attrs__"):
        assert one.get(key) == two.get(key)


def killed(place: Path) -> None:
    """Leave the files of a creator that was killed after some chunks."""
    array = new_array(tegula.LocalStore(place), "", shape=ROWS, dtype="i4", chunks=5, format="bcolz", filled=False)
    array[:20] = 7


def test_the_error_after_a_killed_creator_says_what_to_do(tmp_path: Path) -> None:
    killed(tmp_path / "x")
    text = "process that created it was killed; in that case create it again with overwrite=True"
    for act in (
        lambda: tegula.open(tmp_path / "x"),
        lambda: tegula.open(tmp_path / "x", "a", shape=4),
        lambda: tegula.create_array(tmp_path / "x", shape=4, dtype="i4", format="bcolz"),
        lambda: bcolz.open(tmp_path / "x"),
    ):
        with pytest.raises(tegula.MetadataError, match=text):
            act()
    findings = tegula.check(tmp_path / "x").findings
    assert any(text in finding.message for finding in findings)
    tegula.create_array(tmp_path / "x", shape=4, dtype="i4", format="bcolz", overwrite=True)
    assert tegula.open_array(tmp_path / "x")[:].tolist() == [0] * 4
    assert not tegula.check(tmp_path / "x").findings


def test_an_error_during_creation_leaves_nothing(tmp_path: Path) -> None:
    def stop() -> None:
        with completing(draft(tmp_path / "x")) as array:
            array[:20] = 7
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert not (tmp_path / "x").exists() or not [*(tmp_path / "x").rglob("*")]
    assert tegula.create_array(tmp_path / "x", shape=4, dtype="i4", format="bcolz").shape == (4,)


def draft(place: Any, rows: int = ROWS) -> tegula.Array:
    store = place if isinstance(place, tegula.Store) else tegula.LocalStore(place)
    return new_array(store, "", shape=rows, dtype="i4", chunks=5, format="bcolz", filled=False, overwrite=True)


@pytest.mark.parametrize("complete", [True, False])
def test_an_overwritten_creator_does_not_change_the_new_array(tmp_path: Path, complete: bool) -> None:
    first = draft(tmp_path / "x", 0)
    others: list[tegula.Array] = []

    def finish() -> None:
        with completing(others[0]):
            others[0].append(VALUES[:12] + 1)

    def create() -> None:
        with completing(first):
            first.append(VALUES)
            others.append(draft(tmp_path / "x", 0))
            if complete:
                finish()
            with pytest.raises(tegula.NotFoundError, match="replaced since"):
                first.append(VALUES)

    with pytest.raises(tegula.NotFoundError, match="replaced since"):
        create()
    if not complete:
        with pytest.raises(tegula.MetadataError, match="still being created"):
            tegula.open_array(tmp_path / "x")
        finish()
    assert tegula.open_array(tmp_path / "x")[:].tolist() == [8] * 12


def test_sizes_that_another_array_left_do_not_complete_a_new_one() -> None:
    store = Watching()
    store._values.update({"meta/sizes": (b'{"shape": [3], "nbytes": 12, "cbytes": 20}\n', "old")})
    tegula.create_array(store, shape=ROWS, dtype="i4", chunks=5, fill_value=7, format="bcolz")
    assert {*store.seen} == {"nothing", "incomplete", "whole"}


CREATE = """
import sys, numpy as np, tegula
for number in range(1000):
    tegula.create_array(f"{sys.argv[1]}/{number}", shape=2000, chunks=50, dtype="i4", fill_value=7, format="bcolz")
"""


@pytest.mark.slow
def test_a_killed_creator_leaves_nothing_a_draft_or_the_whole_array(tmp_path: Path) -> None:
    found = {"whole": 0, "incomplete": 0, "nothing": 0}
    for number in range(8):
        place = tmp_path / str(number)
        process = subprocess.Popen([sys.executable, "-c", CREATE, place])
        until(lambda place=place: place.exists() and len(os.listdir(place)) >= 3)
        time.sleep(0.003 * number)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        for path in place.iterdir():
            try:
                array = tegula.open_array(path)
            except tegula.NotFoundError:
                found["nothing"] += 1
            except tegula.MetadataError as error:
                found["incomplete" if "overwrite=True" in str(error) else str(error)] += 1
            else:
                assert array.shape == (2000,)
                assert (array[:] == 7).all()
                found["whole"] += 1
    assert found["whole"] >= 16
