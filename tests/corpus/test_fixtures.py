"""Arrays that other libraries have written, kept in ``tests/fixtures``, are read exactly."""

import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.archives import CASES, FIXTURES, of_kind, open_case, unpack_all

import tegula
from tegula import config, formats
from tegula.runtime import executors

SNAPPY = {"blosc_snappy", "hand_snappy"}  # read by the kernel only


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archives, each in a directory of its name."""
    return unpack_all(tmp_path_factory.mktemp("fixtures"))


def read_all(node: Any) -> None:
    for found in [array for _, array in node.arrays()] if isinstance(node, tegula.Group) else [node]:
        found[...]


def test_the_readme_says_what_wrote_each_file() -> None:
    listed = re.findall(r"(?m)^\| `([^`]+)` \|", (FIXTURES / "README.md").read_text())
    assert sorted(listed) == sorted(file.name for file in FIXTURES.iterdir() if file.suffix not in (".py", ".md", ""))


def test_there_are_cases_of_every_library() -> None:
    assert len(CASES) > 150
    assert {archive.rpartition("-")[0] for archive, _ in CASES} == {
        "zarr", "zarr3draft", "zarrista", "tensorstore", "bcolz-zipline", "anndata",
        "zarr-n5", "tensorstore-n5", "java-n5",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.sampled(one_in=11)
@of_kind("array")
def test_array_is_read_exactly(
    archive: str, case: dict[str, Any], unpacked: Path, check_values: Callable[..., None]
) -> None:
    folder = unpacked / archive
    array = open_case(folder, case)
    assert array.shape == tuple(case["shape"])
    if case["case"] in SNAPPY and (config.current().executor == "reference" or executors.kernel() is None):
        with pytest.raises(tegula.UnsupportedError, match="snappy: only tegula's compiled kernel reads it"):
            array[...]
        return
    check_values(array[...], folder / case["case"] / case["expected"], case.get("dtype"))
    assert dict(array.attrs) == case["attributes"]
    if "fill_value" in case:
        assert np.asarray(array.fill_value, array.dtype).tobytes().hex() == case["fill_value"]


@pytest.mark.slow
@pytest.mark.sampled(one_in=8)
@of_kind("array", "group", "table")
def test_documents_come_back_byte_for_byte(archive: str, case: dict[str, Any], unpacked: Path) -> None:
    documents = open_case(unpacked / archive, case).metadata.documents
    node = formats.parse(documents)
    assert node is not None
    if case.get("documents") == "corrected" or not formats.find_format(node.format).writable:
        return
    added = {"__attrs__": b"{}\n"} if node.format == "bcolz" and not documents.get("__attrs__", b"").strip() else {}
    assert formats.find_format(node.format).serialize(node) == {**documents, **added}


@of_kind("table")
def test_table_is_read_exactly(
    archive: str, case: dict[str, Any], unpacked: Path, check_values: Callable[..., None]
) -> None:
    folder = unpacked / archive / case["case"]
    table = open_case(unpacked / archive, case, allow_pickle=True)
    assert isinstance(table, tegula.Table)
    assert dict(table.attrs) == case["attributes"]
    assert [*table.names] == [column["name"] for column in case["columns"]]
    assert len(table) == min((column["shape"][0] for column in case["columns"]), default=0)
    for position, column in enumerate(case["columns"]):
        array = table[column["name"]]
        check_values(array[: len(table)], folder / column["expected"])
        assert array.shape[0] == (case["lengths"][position] if "lengths" in case else len(table))
        assert dict(array.attrs) == case["column_attributes"].get(column["name"], {})


@of_kind("group")
def test_group(archive: str, case: dict[str, Any], unpacked: Path) -> None:
    group = open_case(unpacked / archive, case)
    assert isinstance(group, tegula.Group)
    assert dict(group.attrs) == case["attributes"]
    prefix = f"{case['path']}/" if case["path"] else ""
    paths = [other["path"] for name, other in CASES if name == archive and other["case"] == case["case"]]
    below = sorted(path.removeprefix(prefix) for path in paths if path.startswith(prefix) and path != case["path"])
    assert sorted(path for path, _ in group.walk()) == below


@pytest.mark.slow
@pytest.mark.sampled(one_in=4)
@of_kind("error")
def test_damage_is_an_error_and_never_wrong_data(archive: str, case: dict[str, Any], unpacked: Path) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(tegula.TegulaError) as raised:
            read_all(open_case(unpacked / archive, case))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(str(raised.value)) > 20
    assert peak < 2**24  # whatever the header states


@of_kind("unsupported")
def test_what_needs_an_older_library_says_so(archive: str, case: dict[str, Any], unpacked: Path) -> None:
    array = open_case(unpacked / archive, case)
    with config.configure(executor="reference"), pytest.raises(tegula.UnsupportedError, match="zstd"):
        array[...]


def test_the_kernel_reads_what_zstd_0_7_wrote(kernel: ModuleType, unpacked: Path) -> None:
    array = tegula.open(unpacked / "zarr-1.1.0" / "blosc_zstd07" / "store")
    with config.configure(executor="kernel"):
        assert array[...].tolist() == [*range(4000)]


@of_kind("pickle")
def test_pickles_are_opened_on_request_only(
    archive: str, case: dict[str, Any], unpacked: Path, check_values: Callable[..., None]
) -> None:
    with pytest.raises(tegula.UnsupportedError, match="allow_pickle"):
        open_case(unpacked / archive, case)[...]
    array = open_case(unpacked / archive, case, allow_pickle=True)
    check_values(array[...], unpacked / archive / case["case"] / case["expected"])


@of_kind("bad_pickle")
def test_damaged_pickles_are_an_error(archive: str, case: dict[str, Any], unpacked: Path) -> None:
    with pytest.raises(tegula.TegulaError) as raised:
        open_case(unpacked / archive, case, allow_pickle=True)[...]
    assert len(str(raised.value)) > 20
