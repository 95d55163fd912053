"""``tegula downsample``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app


def run(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["downsample", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def source(tmp_path: Path) -> Path:
    group = tegula.create_group(tmp_path / "x.zarr")
    group.create_array(
        "image", data=np.arange(3 * 40 * 30).reshape(3, 40, 30), chunks=(1, 10, 10), dimension_names=["c", "y", "x"]
    )
    return tmp_path / "x.zarr"


def test_levels_are_written_beside_the_array(source: Path) -> None:
    lines = run(f"{source}::image").stdout.splitlines()
    assert lines[0].split() == ["array", "shape", "chunks", "scale", "of", "c,y,x"]
    assert [line.split()[0] for line in lines[1:]] == ["/image", "/s1", "/s2"]
    assert lines[-1].split()[-1] == "1,4,4"
    assert tegula.open(source)["s2"].shape == (3, 10, 8)
    result = run(f"{source}::image", code=1)
    assert "pass --overwrite to replace it" in result.stderr
    run(source / "image", "--overwrite", "-q", "--levels", 1)
    assert [*tegula.open(source)] == ["image", "s1"]


def test_levels_are_written_into_another_group(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "y.zarr"
    options = ("--factors", "y=4", "--scale", "y=0.5,x=2", "--axes", "c,y,x", "--method", "mode", "--chunks", "1,8,8")
    output = json.loads(run(source / "image", f"{target}::deep", *options, "--levels", 1, "--json").stdout)
    assert [level["shape"] for level in output["levels"]] == [[3, 40, 30], [3, 10, 30]]
    assert output["levels"][1]["scale"] == [1.0, 2.0, 2.0]
    assert tegula.open(target)["deep/s1"].chunks == (1, 8, 8)
    ome = tegula.open(target)["deep"].attrs["ome"]["multiscales"][0]
    assert ome["type"] == "mode"
    axes = json.dumps([{"name": "z", "type": "space", "unit": "meter"}, "y", "x"])
    run(f"{source}::image", target, "--overwrite", "--axes", axes, "--factors", "1,2,2", "-q")
    assert tegula.open(target).attrs["ome"]["multiscales"][0]["axes"][0]["unit"] == "meter"


def test_a_pyramid_of_one_of_several_variables_gets_a_group(source: Path, tmp_path: Path) -> None:
    tegula.open(source, mode="r+").create_array("y", data=np.arange(40.0), dimension_names=["y"])
    result = run(f"{source}::image")
    assert f"the pyramid has a group of its own: {source.as_uri()}/image_pyramid" in result.stderr
    assert [*tegula.open(source)["image_pyramid"]] == ["s0", "s1", "s2"]
    assert run(f"{source}::image", "--into", "deep/small", "--levels", 1).stderr == ""
    assert [*tegula.open(source)["deep/small"]] == ["s0", "s1"]
    assert [*tegula.open(source)] == ["deep", "image", "image_pyramid", "y"]
    assert "such as image_pyramid" in run(f"{source}::image", source, code=1).stderr
    for arguments in ((tmp_path / "z", "--into", "x"), ("--into", "/")):
        assert "--into" in run(f"{source}::image", *arguments, code=2).stderr


def test_mistakes_in_options_are_reported_and_write_nothing(source: Path, tmp_path: Path) -> None:
    for option, value in (("--factors", "x"), ("--scale", "y=a"), ("--chunks", "x"), ("--method", "sum")):
        assert option in run(source / "image", tmp_path / "y", option, value, code=2).stderr
    assert "only arrays have pyramids" in run(source, tmp_path / "y", code=1).stderr
    assert not (tmp_path / "y").exists()
