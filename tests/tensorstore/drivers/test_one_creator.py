"""Creating and resizing through this interface follow the rules that hold for every node."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import run_threads

import tegula
import tegula.tensorstore as ts

DRIVERS = ("zarr", "zarr3", "zarr1", "bcolz")


def spec(driver: str, directory: Path, **members: Any) -> dict[str, Any]:
    return {"driver": driver, "kvstore": f"file://{directory}/", **members}


def create(driver: str, directory: Path, **options: Any) -> ts.TensorStore:
    members = {name: options.pop(name) for name in ("metadata_key",) if name in options}
    return ts.open(spec(driver, directory, **members), create=True, dtype=ts.int32, shape=[4], **options).result()


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
@pytest.mark.parametrize("opens", [False, True])
def test_chunks_of_an_array_that_is_gone_are_not_taken_over(driver: str, opens: bool, tmp_path: Path) -> None:
    directory = tmp_path / "a"
    create(driver, directory)[...] = 7
    (directory / (".zarray" if driver == "zarr" else "zarr.json")).unlink()
    before = files(directory)
    assert before
    with pytest.raises(ValueError, match=r"^ALREADY_EXISTS: .* chunks of a deleted array.*delete_existing=True"):
        create(driver, directory, open=opens)
    assert files(directory) == before
    again = create(driver, directory, delete_existing=True)
    assert again.read().result().tolist() == [0] * 4


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("other_format", ["zarr1", "zarr2", "zarr3", "bcolz"])
def test_a_path_holds_one_array_whatever_its_format(driver: str, other_format: str, tmp_path: Path) -> None:
    directory = tmp_path / "a"
    tegula.create_array(directory, shape=4, dtype="i4", format=other_format)[:] = 3
    before = files(directory)
    with pytest.raises(ValueError, match=r"^ALREADY_EXISTS: "):
        create(driver, directory)
    if driver.removesuffix("2") != other_format.removesuffix("2"):
        with pytest.raises(ValueError, match=r"^ALREADY_EXISTS: "):
            create(driver, directory, open=True)
    assert files(directory) == before
    create(driver, directory, delete_existing=True)
    assert tegula.open_array(directory).format == {"zarr": "zarr2"}.get(driver, driver)
    assert ts.open(spec(driver, directory)).result().read().result().tolist() == [0] * 4


@pytest.mark.parametrize("driver", DRIVERS)
def test_groups_and_their_members_are_in_the_way(driver: str, tmp_path: Path) -> None:
    for format in ("zarr2", "zarr3"):
        group = tegula.create_group(tmp_path / format, format=format)
        group.create_array("x", shape=4, dtype="i4")
        own = driver == format == "zarr3"  # its document is read, but describes no array
        with pytest.raises(ValueError, match=r"^FAILED_PRECONDITION: " if own else "^ALREADY_EXISTS: "):
            create(driver, tmp_path / format)
        assert tegula.open_group(tmp_path / format)["x"].shape == (4,)
    (tmp_path / "zarr2" / ".zgroup").unlink()  # what is left is a group without documents
    with pytest.raises(ValueError, match=r"^ALREADY_EXISTS: "):
        create(driver, tmp_path / "zarr2")


def test_a_document_of_another_name_is_no_way_around(tmp_path: Path) -> None:
    create("zarr", tmp_path / "a")[...] = 7
    with pytest.raises(ValueError, match=r'^ALREADY_EXISTS: .*writing local file ".*/document"'):
        create("zarr", tmp_path / "a", metadata_key="document")
    named = create("zarr", tmp_path / "b", metadata_key="document")
    named[...] = 7
    assert named.resize(exclusive_max=[2]).result().resize(exclusive_max=[4]).result()[2].read().result() == 0
    with pytest.raises(ValueError, match=r"^ALREADY_EXISTS: "):
        create("zarr", tmp_path / "b")
    assert files(tmp_path / "b") == ["0", "document"]
    result = ts.open(spec("zarr", tmp_path / "b", metadata_key="document")).result()
    assert result.read().result().tolist() == [7, 7, 0, 0]


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_no_groups_are_made_above(driver: str, tmp_path: Path) -> None:
    create(driver, tmp_path / "a" / "b")
    assert files(tmp_path) == ["a/b/.zarray" if driver == "zarr" else "a/b/zarr.json"]


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_the_rules_hold_in_transactions(driver: str, tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "a", shape=4, dtype="i4", format="zarr1")
    with pytest.raises(ValueError, match=r"^ALREADY_EXISTS: "), ts.Transaction() as transaction:
        create(driver, tmp_path / "a", transaction=transaction)
    with ts.Transaction() as transaction:
        create(driver, tmp_path / "a", transaction=transaction, delete_existing=True)[1] = 5
        assert tegula.open_array(tmp_path / "a").format == "zarr1"
    assert ts.open(spec(driver, tmp_path / "a")).result().read().result().tolist() == [0, 5, 0, 0]
    assert "meta" not in files(tmp_path / "a")


@pytest.mark.slow
def test_of_several_creators_one_wins(tmp_path: Path) -> None:
    for number in range(20):
        directory, won, failures = tmp_path / str(number), [], []
        start = threading.Barrier(6)

        def act(
            driver: str,
            directory: Path = directory,
            won: list[str] = won,
            failures: list[str] = failures,
            start: threading.Barrier = start,
        ) -> None:
            start.wait(60)
            try:
                create(driver, directory)
                won.append(driver)
            except ValueError as error:
                failures.append(str(error))

        threads = [threading.Thread(target=act, args=(driver,)) for driver in ("zarr", "zarr3", "zarr1") * 2]
        run_threads(threads)
        assert len(won) <= 1  # writers that see each other may all give up
        assert all(failure.startswith("ALREADY_EXISTS: ") for failure in failures)
        if won:
            assert tegula.open_array(directory).format == {"zarr": "zarr2"}.get(won[0], won[0])


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_resizing_rewrites_only_what_it_must(driver: str, tmp_path: Path) -> None:
    array = create(driver, tmp_path)
    document = tmp_path / (".zarray" if driver == "zarr" else "zarr.json")
    document.write_bytes(b" " + document.read_bytes())  # another program's white space
    before = document.read_bytes()
    array.resize(exclusive_max=[4]).result()
    assert document.read_bytes() == before
    with pytest.raises(ValueError, match="shrink_only"):
        array.resize(exclusive_max=[5], shrink_only=True).result()
    assert array.resize(exclusive_max=[5]).result().shape == (5,)
    document.unlink()
    with pytest.raises(ValueError, match=r"^FAILED_PRECONDITION: .*Metadata at .* does not exist"):
        array.resize(exclusive_max=[6]).result()


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_array_whose_directory_was_renamed_is_gone(driver: str, tmp_path: Path) -> None:
    array = create(driver, tmp_path / "a", chunk_layout=ts.ChunkLayout(chunk_shape=[2]))
    (tmp_path / "a").rename(tmp_path / "b")
    for act in (lambda: array.read().result(), lambda: array.write(5).result()):
        with pytest.raises(ValueError, match="deleted or moved"):
            act()
    assert not (tmp_path / "a").exists()
