"""``missing_chunks``, as a setting and of one node: chunks that are not stored read as fill values, or are an error."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
from tegula import config
from tegula.errors import MetadataError, NotFoundError

SETTINGS: list[dict[str, Any]] = [{}, {"executor": "reference"}, {"cache_bytes": 2**20}]


@pytest.fixture(params=["zarr1", "zarr2", "zarr3", "shards"])
def array(request: pytest.FixtureRequest) -> Any:
    """An array of six chunks, of which one is missing."""
    shards = request.param == "shards"
    options: dict[str, Any] = {"chunks": (2, 2), "shards": (4, 4)} if shards else {"chunks": (4, 4)}
    made = tegula.create_array({}, shape=(8, 12), dtype="i4", format="zarr3" if shards else request.param, **options)
    made[...] = np.arange(1, 97).reshape(8, 12)
    made[4:, :4] = 0
    return made


@pytest.fixture(params=[None, "file", "memory"])
def sharded(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An array of four shards with four inner chunks each: one shard and one inner chunk are missing."""
    target = {None: {}, "file": tmp_path / "a.zarr", "memory": tegula.MemoryStore()}[request.param]
    made = tegula.create_array(target, data=np.arange(1, 65).reshape(8, 8), chunks=(2, 2), shards=(4, 4))
    made[4:, 4:] = 0
    made[2:4, 4:6] = 0
    return tegula.open(made.store, missing_chunks="error")


@pytest.fixture
def _error() -> Iterator[None]:
    with config.configure(missing_chunks="error"):
        yield


@pytest.mark.usefixtures("_error")
def test_reading_a_missing_chunk_is_an_error_that_names_it(array: Any) -> None:
    assert array[0, 5] == 6
    assert array[:4].sum() == sum(range(1, 49))
    for read in (
        lambda: array[...], lambda: array[5, 1], lambda: array[:, 2], lambda: array.oindex[[0, 5], [1]],
        lambda: array.vindex[[5], [1]], lambda: np.asarray(array), lambda: array.lazy[4:][...],
        lambda: array.lazy[4:].read().result(), lambda: array.blocks[1, 0], lambda: array.read(np.s_[4:, :2]).result(),
    ):  # fmt: skip
        with pytest.raises(NotFoundError, match=r"the chunk \(1, 0\) is not stored") as raised:
            read()
        assert raised.value.key == array.stored.key((1, 0))
        assert raised.value.path == array.location
    with config.configure(missing_chunks="fill"):
        assert array[4:, :4].tolist() == [[0] * 4] * 4


@pytest.mark.usefixtures("_error")
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_executor_says_so(array: Any, setting: dict[str, Any]) -> None:
    with config.configure(**setting):
        for _ in range(2):
            assert array[0, 0] == 1
            with pytest.raises(NotFoundError):
                array[4:]


@pytest.mark.parametrize("setting", SETTINGS)
def test_an_inner_chunk_that_its_shard_lacks_is_missing(sharded: Any, setting: dict[str, Any]) -> None:
    with config.configure(**setting):
        for _ in range(2):
            assert sharded[:2, 4:].sum() == (5 + 6 + 7 + 8) * 2 + 32
            assert sharded[3, 6] == 31
            for selection in (np.s_[2, 4], np.s_[:4], np.s_[3:, 5]):
                with pytest.raises(NotFoundError, match=r"inner chunk \(1, 0\) of the shard \(0, 1\)") as raised:
                    sharded[selection]
                assert raised.value.key == "c/0/1"
            for selection in (np.s_[7, 7], np.s_[4:, 6:]):
                with pytest.raises(NotFoundError, match=r"the chunk \(1, 1\) is not stored") as raised:
                    sharded[selection]
                assert raised.value.key == "c/1/1"
    sharded.missing_chunks = "fill"
    assert sharded[2, 4] == sharded[7, 7] == 0


@pytest.mark.parametrize("setting", SETTINGS)
def test_shards_in_shards(setting: dict[str, Any]) -> None:
    inner = {"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": ["bytes"]}}
    codec = {"name": "sharding_indexed", "configuration": {"chunk_shape": [4], "codecs": [inner]}}
    array = tegula.create_array({}, shape=8, chunks=8, dtype="u1", codecs=codec)
    array[:6] = 1
    array.missing_chunks = "error"
    with config.configure(**setting):
        assert array[:6].tolist() == [1] * 6
        with pytest.raises(NotFoundError, match=r"inner chunk \(1,\) in \(1,\) of the shard \(0,\)"):
            array[...]
    assert "1 inner chunk not stored, first inner chunk (1,): (1,)" in str(tegula.check(array))


def test_of_one_node(array: Any) -> None:
    strict = tegula.open(array.store, missing_chunks="error")
    assert (array.missing_chunks, strict.missing_chunks) == (None, "error")
    assert array[4:, :4].sum() == 0
    copies = [strict, tegula.open_array(array.store, missing_chunks="error"), pickle.loads(pickle.dumps(strict))]
    for each in copies:
        with pytest.raises(NotFoundError, match="not stored"):
            each[4:]
        with pytest.raises(NotFoundError, match="not stored"):
            each.lazy[4:].T[...]
    with config.configure(missing_chunks="error"):  # the node's own rule is the stronger one
        assert tegula.open(array.store, missing_chunks="fill")[4:, :4].sum() == 0
    with pytest.raises(MetadataError):
        tegula.open(array.store, missing_chunks="ignore")  # type: ignore[arg-type]
    with pytest.raises(MetadataError):
        strict.missing_chunks = True
    assert strict.missing_chunks == "error"


def test_it_stays_when_an_array_changes() -> None:
    array = tegula.open({}, "w", shape=(4, 2), chunks=(2, 2), dtype="i4", missing_chunks="error")
    array[:2] = 1
    array.attrs["a"] = 1
    array.resize((8, 2))
    array.append([[5, 6]] * 2)
    array.refresh()
    assert array[8:].tolist() == [[5, 6]] * 2
    assert array.missing_chunks == "error"
    with pytest.raises(NotFoundError, match=r"chunk \([123], 0\) is not stored"):
        array[...]
    array[3, 0] = 2  # a part of a missing chunk is written as ever
    assert array[2:4].tolist() == [[0, 0], [2, 0]]


@pytest.mark.parametrize("consolidated", [False, True])
def test_groups_and_tables_pass_it_on(consolidated: bool) -> None:
    store = tegula.MemoryStore()
    made = tegula.create_group(store)
    made.create_array("a/b", shape=4, chunks=2, dtype="i4")
    tegula.create_table(store, {"x": np.zeros(4, "i4")}, path="t", format="zarr3", chunks=2)
    made.consolidate()
    group = tegula.open_group(store, "r+", missing_chunks="error", consolidated=consolidated)
    tables = [tegula.open_table(store, path="t", missing_chunks="error"), tegula.Table(store, "t", group["t"].metadata,
              read_only=True)]  # fmt: skip
    tables[1].missing_chunks = "error"
    nodes = [group["a/b"], group["a"]["b"], dict(group["a"])["b"], *(t["x"] for t in tables)]
    nodes += [pickle.loads(pickle.dumps(group))["a/b"], pickle.loads(pickle.dumps(tables[0]))["x"]]
    nodes += [node for _, node in group.walk() if isinstance(node, tegula.Array)]
    assert len(nodes) == 9
    for node in nodes:
        with pytest.raises(NotFoundError, match=r"the chunk \(0,\) is not stored"):
            node[:]
    with pytest.raises(NotFoundError, match="not stored"):
        tables[0][:2]
    assert group.create_array("new", shape=1, dtype="i4").missing_chunks == "error"
    assert group.create_group("g").missing_chunks == "error"
    table = tegula.open_table(store, "r+", path="t", missing_chunks="error")
    added = table.add_column("y", np.zeros(4), chunks=2)
    table.refresh()
    assert added.missing_chunks == table["y"].missing_chunks == "error"


def test_documents_of_views_keep_it(tmp_path: Path) -> None:
    array = tegula.create_array(tmp_path / "a.zarr", shape=4, chunks=2, dtype="i4", format="zarr2")
    array[:2] = 1
    array.missing_chunks = "error"
    for view in (array.lazy[1:], tegula.concat([array, array])):
        tegula.save_view(view, tmp_path / "v.json")
        opened = tegula.open(tmp_path / "v.json")
        assert opened[:1][...] == [1]
        with pytest.raises(NotFoundError):
            opened[...]
        assert tegula.open(tmp_path / "v.json", missing_chunks="fill")[...].sum() > 0


@pytest.mark.usefixtures("_error")
def test_parts_of_missing_chunks_are_written_as_before(array: Any) -> None:
    array[4, 0] = 7
    assert array[4, 0] == 7
    array.missing_chunks = "fill"
    assert array[4:6, :2].tolist() == [[7, 0], [0, 0]]


@pytest.mark.usefixtures("_error")
def test_strings() -> None:
    texts = tegula.create_array({}, shape=4, chunks=2, dtype=str)
    texts[:2] = ["a", "b"]
    assert texts[:2].tolist() == ["a", "b"]
    with pytest.raises(NotFoundError):
        texts[...]


def test_a_deleted_array_has_no_missing_chunks(tmp_path: Path) -> None:
    for target in ({}, tmp_path / "a.zarr", tegula.MemoryStore()):
        array = tegula.create_array(target, data=[1, 2])
        array.missing_chunks = "error"
        tegula.delete(array.store)
        with pytest.raises(NotFoundError) as raised:
            array[:]
        assert raised.value.is_stale


def test_in_coroutines(sharded: Any) -> None:
    async def read() -> Any:
        return await sharded.read(np.s_[2:4])

    with pytest.raises(NotFoundError, match="inner chunk"):
        asyncio.run(read())


JOBS: dict[str, Callable[[Any], Any]] = {
    "statistics": tegula.statistics, "checksum": tegula.checksum,
    "convert": lambda array: tegula.convert(array, {}, dtype="i8"),
    "chunks": lambda array: tegula.convert(array, {}),
    "shards": lambda array: tegula.convert(array, {}, chunks=array.chunks, shards=tuple(2 * n for n in array.chunks)),
    "downsample": lambda array: tegula.downsample(array, {}, levels=1, factors=(2, 2)),
}  # fmt: skip


@pytest.mark.parametrize("job", JOBS)
def test_jobs_that_read_elements_end_in_the_error(job: str) -> None:
    array = tegula.create_array({}, shape=(2000, 2000), chunks=(10, 10), dtype="i4")
    array[:10, :10] = 1
    JOBS[job](array)
    with config.configure(missing_chunks="error"), pytest.raises(NotFoundError, match="not stored"):
        JOBS[job](array)
    with pytest.raises(NotFoundError, match="not stored"):
        JOBS[job](tegula.open(array.store, missing_chunks="error"))


@pytest.mark.parametrize("job", JOBS)
def test_jobs_know_inner_chunks(job: str) -> None:
    array = tegula.create_array({}, shape=(8, 8), chunks=(2, 2), shards=(4, 4), dtype="i4")
    array[...] = 1
    array[:2, :2] = 0
    array.missing_chunks = "error"
    with pytest.raises(NotFoundError, match=r"inner chunk \(0, 0\) of the shard \(0, 0\) is not stored"):
        JOBS[job](array)


@pytest.mark.usefixtures("_error")
def test_a_comparison_reports_the_error(array: Any) -> None:
    other = tegula.create_array({}, shape=array.shape, chunks=(8, 12), dtype="i4", fill_value=1)
    report = tegula.compare(array, other)
    assert not report.equal
    assert "the chunk (1, 0) is not stored" in str(report)


def test_check_reports_them(array: Any, sharded: Any) -> None:
    for node in (array, sharded):
        node.missing_chunks = None
        assert tegula.check(node).ok
    with config.configure(missing_chunks="error"):
        report = tegula.check(array)
        assert report.counts["missing-chunk"] == 1
        assert not report.ok
    sharded.missing_chunks = "error"
    for options in ({}, {"ledger": tegula.MemoryStore()}):
        report = tegula.check(sharded, **options)
        assert report.counts["missing-chunk"] == 2
        assert "1 inner chunk not stored, first (1, 0)" in str(report)


def test_the_setting_has_two_values() -> None:
    with pytest.raises(MetadataError):
        config.Config(missing_chunks="ignore")


@pytest.mark.parametrize("shards", [None, (4, 6)])
def test_tensorstore_misses_the_same_chunks(shards: Any, tmp_path: Path) -> None:
    ts = pytest.importorskip("tensorstore")
    random = np.random.default_rng(7)
    array = tegula.create_array(tmp_path / "a.zarr", shape=(11, 16), chunks=(2, 3), shards=shards, dtype="i4")
    for block in random.permutation(24)[:14]:
        row, column = divmod(int(block), 6)
        array[2 * row : 2 * row + 2, 3 * column : 3 * column + 3] = int(block) + 1
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a.zarr/", "fill_missing_data_reads": False}
    other = ts.open(spec).result()
    strict = tegula.open(tmp_path / "a.zarr", missing_chunks="error")
    face = import_module("tegula.tensorstore").open(spec).result()
    results = []
    for _ in range(120):
        rows, columns = (slice(*sorted(random.integers(0, size, 2).tolist())) for size in array.shape)
        try:
            expected = other[rows, columns].read().result()
        except ValueError:
            expected = None
        results.append(expected is None)
        for read in (lambda: strict[rows, columns], lambda: face[rows, columns].read().result()):  # noqa: B023
            if expected is None:
                with pytest.raises((NotFoundError, ValueError), match=r"is missing|not stored"):
                    read()
            else:
                np.testing.assert_array_equal(read(), expected)
    assert 10 < sum(results) < 110
