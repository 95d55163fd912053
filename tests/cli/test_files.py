"""Output files: complete or unchanged after an error."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tegula.cli.files import output


def test_a_file_is_renamed_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    with output(file) as stream:
        stream.write(b"1")
        assert not file.exists()
    assert file.read_bytes() == b"1"
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~_umask()
    assert [*tmp_path.iterdir()] == [file]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(b"precious")

    def write() -> None:
        with output(file) as stream:
            stream.write(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert [*tmp_path.iterdir()] == [file]
    assert file.read_bytes() == b"precious"


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    file, link = tmp_path / "x", tmp_path / "link"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to(file)
    with output(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_devices_are_written_and_not_replaced(tmp_path: Path) -> None:
    with output(Path(os.devnull)) as stream:
        stream.write(b"x")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_no_directory_to_write_to(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as caught, output(tmp_path / "no/x"):
        pass
    assert caught.value.filename == str(tmp_path / "no/x")
    with pytest.raises(IsADirectoryError), output(tmp_path):
        pass


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
def test_a_full_disk_is_an_error_that_names_the_file() -> None:
    with pytest.raises(OSError, match="/dev/full") as caught, output(Path("/dev/full")) as stream:
        stream.write(b"x")
    assert caught.value.filename == "/dev/full"
