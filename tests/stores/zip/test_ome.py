"""Single-file OME-Zarr: the order of members, ZIP64, the comment, and every place where an archive is named."""

from __future__ import annotations

import gc
import json
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app
from tegula.stores.zip.ome import comment_of

_OF_OME = {"ome": {"version": "0.5"}}


def _pyramid(target: Any) -> None:
    source = tegula.create_array({}, data=np.arange(64.0).reshape(8, 8), chunks=(4, 4), dimension_names=["y", "x"])
    tegula.downsample(source, target)


def _check(path: Path, version: str | None = "0.5") -> None:
    """Check that an archive is as RFC 9 recommends."""
    with zipfile.ZipFile(path) as archive:
        listed = archive.infolist()
        comment = archive.comment
        assert archive.testzip() is None
    names = [member.filename for member in listed]
    assert names[0] == "zarr.json"
    depths = [name.count("/") if name.endswith("zarr.json") else 99 for name in names]
    assert depths == sorted(depths)
    in_file = [member.filename for member in sorted(listed, key=lambda member: member.header_offset)]
    documents = sum(name.endswith("zarr.json") for name in names)
    assert in_file[:documents] == names[:documents]
    assert {member.compress_type for member in listed} == {zipfile.ZIP_STORED}
    assert json.loads(comment or b"{}") == ({} if version is None else {"ome": {"version": version}})
    tail = path.read_bytes()[-22 - len(comment) :]
    assert struct.unpack("<4s4H2IH", tail[:22])[3:7] == (0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    assert path.read_bytes()[-42 - len(comment) :][:4] == b"PK\6\7"


def test_a_pyramid_in_one_file_is_as_recommended(tmp_path: Path) -> None:
    path = tmp_path / "x.ozx"
    _pyramid(path)
    gc.collect()
    _check(path)
    g = tegula.open(path)
    assert g.attrs["ome"]["version"] == "0.5"
    np.testing.assert_array_equal(g["s0"][:], np.arange(64.0).reshape(8, 8))


@pytest.mark.posix("packages that wine can not load")
@pytest.mark.parametrize("command", ["cp", "convert"])
def test_the_program_writes_an_archive(tmp_path: Path, command: str) -> None:
    _pyramid(tmp_path / "x.zarr")
    done = CliRunner().invoke(app, [command, str(tmp_path / "x.zarr"), str(tmp_path / "y.ozx")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "y.ozx").is_file()
    _check(tmp_path / "y.ozx")
    assert tegula.compare(tmp_path / "x.zarr", tmp_path / "y.ozx").equal
    done = CliRunner().invoke(app, ["info", f"{tmp_path / 'y.ozx'}::s0"])
    assert done.exit_code == 0
    assert "8 × 8" in done.output


def test_later_changes_keep_the_order(tmp_path: Path) -> None:
    path = tmp_path / "x.ozx"
    _pyramid(path)
    gc.collect()
    with tegula.open(path, mode="r+") as g:
        g.create_group("labels/cells", attributes={"a": 1})
        g["s0"][0, 0] = 9
    _check(path)
    g = tegula.open(path)
    assert (g["s0"][0, 0], g["labels/cells"].attrs["a"]) == (9, 1)
    with tegula.open(path, mode="r+") as g:
        g.attrs["ome"] = {**g.attrs["ome"], "version": "0.6"}
    _check(path, "0.6")


def test_a_small_write_to_an_ordered_archive_appends(tmp_path: Path) -> None:
    path = tmp_path / "x.ozx"
    _pyramid(path)
    gc.collect()
    inode = path.stat().st_ino
    with tegula.open(path, mode="r+") as g:
        g["s0"][0, 0] = 9
    assert path.stat().st_ino == inode
    _check(path)


@pytest.mark.slow
def test_the_end_of_the_program_leaves_the_order(tmp_path: Path) -> None:
    path = tmp_path / "x.ozx"
    code = f"""if True:
        import tegula
        g = tegula.create_group({str(path)!r}, attributes={_OF_OME})
        a = g.create_array("b/0", shape=4, dtype="u1", fill_value=1)
        a[:] = 2
        g.store.flush()
        g.create_array("a", shape=4, dtype="u1")
    """
    subprocess.run([sys.executable, "-c", code], check=True)
    _check(path)


def test_an_archive_of_something_else_has_no_comment(tmp_path: Path) -> None:
    path = tmp_path / "x.ozx"
    with tegula.create_group(path) as g:
        g.create_array("a", data=np.arange(3))
    _check(path, None)
    with tegula.create_group(tmp_path / "x.zip", attributes=_OF_OME):
        pass
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert archive.comment == b""


def test_only_zarr_v3_goes_into_such_a_file(tmp_path: Path) -> None:
    with pytest.raises(tegula.errors.MetadataError, match="contradicts the name"):
        tegula.create_group(tmp_path / "x.ozx", format="zarr2")
    tegula.create_array(tmp_path / "a.zarr", data=[1, 2], format="zarr2")
    tegula.convert(tmp_path / "a.zarr", tmp_path / "a.ozx")
    gc.collect()
    assert tegula.open(tmp_path / "a.ozx").format == "zarr3"


def test_every_way_to_name_an_archive_knows_the_suffix(tmp_path: Path) -> None:
    path = tmp_path / "x.ozx"
    _pyramid(path)
    gc.collect()
    url = path.as_uri()
    for target in (f"{path}::s0", f"{path}|zip:s0", f"{path}|zip:s0|zarr3:", f"{url}::s0", f"zip::{url}::s0"):
        assert tegula.open(target).shape == (8, 8), target
    assert tegula.open(f"{path}::s0").location.startswith("file:")


def test_xarray_opens_it(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    with tegula.create_group(tmp_path / "x.ozx") as g:
        g.create_array("t", data=np.arange(3), dimension_names=["x"])
    assert xr.open_dataset(tmp_path / "x.ozx")["t"].dims == ("x",)


def test_comments_of_others_are_kept() -> None:
    def root(version: str) -> Any:
        return lambda: json.dumps({"attributes": {"ome": {"version": version}}}).encode()

    old = b'{"ome": {"version": "0.5", "more": [1]}, "by": "us"}\0'
    assert json.loads(comment_of(root("0.6"), old)) == {"ome": {"version": "0.6", "more": [1]}, "by": "us"}
    assert comment_of(lambda: b"{}", old) == b""
    assert comment_of(lambda: None, b"hello") == b"hello"
    assert comment_of(lambda: b"[" * 100_000, b"") == b""
