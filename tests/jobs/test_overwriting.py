"""Jobs at a target where something is already, which may be overwritten."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.jobs.interrupting import Interrupting, contents

import tegula
from tegula import MemoryStore, Store

VALUES = np.arange(600.0).reshape(20, 30)


def a_source() -> Interrupting:
    store = Interrupting()
    tegula.create_array(store, data=VALUES, chunks=(5, 5), dimension_names=["y", "x"])
    return store


def convert(source: Any, target: Store, **options: Any) -> Any:
    return tegula.convert(source, target, **{"chunks": (10, 10), "max_memory": 2**20, **options})


def interrupted(source: Interrupting, target: Store, **options: Any) -> None:
    source.left = 12
    with pytest.raises(KeyboardInterrupt):
        convert(source, target, resume=True, **options)
    source.left = 10**9


def test_resumed_job_may_replace_another_job_and_its_output() -> None:
    for begin in (interrupted, lambda *given: convert(*given, resume=True), convert):
        source, target, clean = a_source(), MemoryStore(), MemoryStore()
        begin(source, target)
        options: dict[str, Any] = {"chunks": (4, 30), "resume": True}
        with pytest.raises(tegula.TegulaError, match="overwrite=True"):
            convert(source, target, **options)
        convert(source, target, **options, overwrite=True)
        convert(source, clean, **options)
        assert contents(target) == contents(clean)
        # the same command again
        source.reads = 0
        assert convert(source, target, **options, overwrite=True).notes[""] == ["the target was complete already"]
        assert not source.reads


def test_a_job_of_the_same_plan_goes_on_though_it_may_overwrite() -> None:
    source, target = tegula.MemoryStore(), MemoryStore()
    tegula.create_array(source, data=np.zeros((3, 2**17)), chunks=(1, 2**17))[...] = 1
    done: list[int] = []

    def stop(path: str, now: int, total: int) -> None:
        done.append(now)
        if len(done) == 1:
            raise KeyboardInterrupt

    options: dict[str, Any] = {"codecs": "zstd", "max_memory": 6 * 2**20, "resume": True, "overwrite": True}
    with pytest.raises(KeyboardInterrupt):
        tegula.convert(source, target, **options, progress=stop)
    before = tegula.jobs.show_job(target).units_done
    assert 0 < before < 3
    again: list[int] = []
    tegula.convert(source, target, **options, progress=lambda path, now, total: again.append(now))
    assert min(again) > 2**20 * before
    assert tegula.compare(source, target)


def test_an_interrupted_job_is_replaced_by_one_that_records_nothing() -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target)
    with pytest.raises(tegula.AlreadyExistsError, match="a job was interrupted here"):
        convert(source, target)
    convert(source, target, overwrite=True)
    assert tegula.compare(source, target)
    pyramid: dict[str, Any] = {"axes": "yx", "chunks": (5, 5)}
    source.left, target = 12, MemoryStore()
    with pytest.raises(KeyboardInterrupt):
        tegula.downsample(source, target, **pyramid, resume=True)
    source.left = 10**9
    tegula.downsample(source, target, **pyramid, overwrite=True)
    assert not [key for key in target.list() if ".tegula" in key]
    assert np.array_equal(tegula.open(target)["s0"][:], VALUES)


def test_a_part_overwrites_nothing_and_says_what_to_do() -> None:
    source, target = a_source(), MemoryStore()
    convert(source, target)
    before = contents(target)
    for overwrite in (False, True):
        with pytest.raises(tegula.AlreadyExistsError, match="delete it first"):
            convert(source, target, part=(1, 2), overwrite=overwrite)
    target = MemoryStore()
    convert(source, target, resume=True)
    with pytest.raises(tegula.AlreadyExistsError, match="other metadata or units; delete it to begin anew"):
        convert(source, target, part=(1, 2), chunks=(4, 30), overwrite=True)
    assert [*before] == [key for key in contents(target) if not key.endswith(".tegula_complete")]


def test_errors_name_the_target_and_an_array_at_the_top_as_what_it_is() -> None:
    source, target = a_source(), MemoryStore()
    interrupted(source, target)
    with pytest.raises(tegula.MetadataError, match="the options would give the array other metadata") as caught:
        convert(source, target, chunks=(4, 30), resume=True)
    assert target.url in str(caught.value)
    tegula.open(source, "r+").resize((25, 30))
    with pytest.raises(tegula.MetadataError, match=r"the array had shape \[20, 30\] then, shape \[25, 30\] now"):
        convert(source, target, resume=True)


def test_other_levels_are_other_options_and_no_other_source() -> None:
    source, target = a_source(), MemoryStore()
    pyramid: dict[str, Any] = {"chunks": (5, 5), "resume": True}
    tegula.downsample(source, target, **pyramid, levels=1)
    with pytest.raises(tegula.AlreadyExistsError, match="complete, but the options would give other levels; pass"):
        tegula.downsample(source, target, **pyramid, levels=2)
    tegula.downsample(source, target, **pyramid, levels=2, overwrite=True)
    assert sorted(tegula.open(target)) == ["s0", "s1", "s2"]


def test_a_directory_without_anything_has_no_jobs(tmp_path: Path) -> None:
    assert tegula.jobs.list_jobs(str(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.sampled(one_in=11)
@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("operation", ["convert", "copy"])
@pytest.mark.parametrize("is_complete", [True, False])
def test_job_begun_while_another_clears_the_target_is_not_resumed(operation: str, is_complete: bool) -> None:
    """Chunks that it has recorded may have been deleted. It begins, and is killed, before each deletion in turn."""

    class Cleared(MemoryStore):
        left = 10**9
        then: Any = None

        def delete(self, key: str, *, if_generation: Any = None) -> None:
            self.left -= 1
            if not self.left:
                self.then()
            super().delete(key, if_generation=if_generation)

    source, whole, moments = a_source(), MemoryStore(), 0
    work: Any = getattr(tegula, operation)
    work(source, whole)
    while True:
        target, moments = Cleared(), moments + 1
        for key in whole.list_prefix("") if is_complete else ():
            target.set(key, whole.get(key) or b"")

        def begin(target: Any = target) -> None:
            source.left = 5
            with suppress(KeyboardInterrupt, tegula.AlreadyExistsError):  # it is refused once there is an owner
                work(source, target, resume=True, overwrite=True)
            source.left = 10**9

        target.left, target.then = moments, begin
        work(source, target, overwrite=True, resume=True)
        if target.left > 0:
            break
        found = contents(target)
        assert {key: value for key, value in found.items() if not key.endswith(".tegula_complete")} == contents(whole)
    assert moments > 2
