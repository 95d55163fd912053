"""``tegula convert``: copied chunks in its report, rules, and tables of bcolz."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app


def convert(*arguments: Any) -> Any:
    result = CliRunner().invoke(app, ["convert", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def test_the_number_of_copied_chunks_is_printed(tmp_path: Path) -> None:
    codecs = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}
    tegula.create_array(tmp_path / "x", shape=9, chunks=3, dtype="i4", codecs=codecs, format="zarr2")[...] = 1
    head, line, end = convert(tmp_path / "x", tmp_path / "y", "--verify").stdout.splitlines()
    assert head.split("  ")[-2].strip() == "copied as is"
    assert line.split()[-2:] == ["3", "yes"]
    assert end.startswith("1 array")
    assert "converted to zarr3" in end
    line = convert(tmp_path / "x", tmp_path / "z", "--codecs", "zstd").stdout.splitlines()[1]
    assert line.split()[-2:] == ["0", "-"]
    head, line, _ = convert(tmp_path / "x", tmp_path / "n", "--dry-run").stdout.splitlines()
    assert head.split()[-1] == "codecs"
    assert line.split()[-2:] == ["bytes,", "blosc"]
    output = json.loads(convert(tmp_path / "x", tmp_path / "b", "--format", "bcolz", "--json").stdout)
    assert output["arrays"][0]["chunks_copied"] == 3


def test_precision_and_a_file_with_the_report(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "x")
    group["t"], group["p"] = np.linspace(250, 300, 101), np.linspace(0, 1, 101)
    options = ("--dtype", "t=i2", "--scale-offset", "t=0.01,273.15", "--bitround", "p=6", "--verify")
    head, *lines = convert(
        tmp_path / "x", tmp_path / "y", *options, "--report", tmp_path / "r.json"
    ).stdout.splitlines()
    assert head.endswith("largest error")
    output = json.loads((tmp_path / "r.json").read_text("utf-8"))
    errors = {each["path"]: each["max_error"] for each in output["arrays"]}
    assert 0 < errors["t"] <= 0.00501
    assert 0 < errors["p"] <= 2**-7
    for line in lines[:2]:
        assert f"{errors[line.split()[0][1:]]:.3g} (" in line
    result = tegula.open(tmp_path / "y")["t"]
    assert (str(result.dtype), result.attrs["scale_factor"], result.attrs["add_offset"]) == ("int16", 0.01, 273.15)
    convert(tmp_path / "x", tmp_path / "z", "--dry-run", "--quiet", "--report", tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert not (tmp_path / "z").exists()
    # a file that can't be written is an error before the work, not after it
    command = ["convert", str(tmp_path / "x"), str(tmp_path / "z"), "--report", str(tmp_path / "r.json" / "r.json")]
    assert CliRunner().invoke(app, command).exit_code == 1
    assert not (tmp_path / "z").exists()
    # unless its folder may be made by the work
    for option in ("--quiet", "--overwrite"):
        convert(tmp_path / "x", tmp_path / "w", option, "--report", tmp_path / "w" / "r.html")
        assert (tmp_path / "w" / "r.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    wrong = (("--report", "r.txt"), ("--dtype", "t="), ("--scale-offset", "x"), ("--bitround", "1.5"))
    for option, value in wrong:
        result = CliRunner().invoke(app, ["convert", str(tmp_path / "x"), str(tmp_path / "z"), option, value])
        assert result.exit_code == 2, result.output
        assert option in result.stderr
    result = CliRunner().invoke(
        app, ["convert", str(tmp_path / "x"), str(tmp_path / "z"), "--dtype", "t=i1", "--quiet"]
    )
    assert result.exit_code == 1
    assert "tegula: error: /t: the value 250.0 at [0] is out of the range of int8" in result.stderr


def test_a_table_there_and_back(tmp_path: Path) -> None:
    columns = {"z": np.arange(25), "a": np.arange(25) / 4}
    tegula.create_table(tmp_path / "t", columns, format="bcolz", chunks=10)
    result = convert(tmp_path / "t", tmp_path / "zarr", "--verify")
    assert [line.split()[0] for line in result.stdout.splitlines()[1:3]] == ["/z", "/a"]
    assert result.stdout.splitlines()[-1].startswith("2 arrays and 1 group converted to zarr3")
    convert(tmp_path / "zarr", tmp_path / "back", "--format", "bcolz", "--verify")
    actual = tegula.open_table(tmp_path / "back")
    assert actual.names == ("z", "a")
    assert actual[:].tolist() == tegula.open_table(tmp_path / "t")[:].tolist()


# --- rules


def climate(path: Path) -> Path:
    group = tegula.create_group(path)
    sizes = {"time": 20, "lat": 6, "lon": 8}
    for name, dims in {"time": ["time"], "crs": [], "tas": ["time", "lat", "lon"], "model/tas": ["lat", "lon"]}.items():
        shape = [sizes[dim] for dim in dims]
        group.create_array(name, shape=shape, dtype="f4", dimension_names=dims)[...] = 1
    return path


def test_rules_by_dimension_and_by_array(tmp_path: Path) -> None:
    source = climate(tmp_path / "old")
    new = tmp_path / "new"
    options = [
        "--chunks",
        "time=5,lat=3; model/* = 2,2",
        "--shards",
        "time=10",
        "--codecs",
        "tas=shuffle,zstd;/time=none",
    ]
    result = convert(source, new, *options, "--verify")
    group = tegula.open_group(new)
    assert {name: (group[name].chunks, group[name].shards) for name in ("crs", "time", "tas", "model/tas")} == {
        "crs": ((), None),
        "time": ((20,), None),  # a coordinate in one chunk
        "tas": ((5, 3, 8), (10, 3, 8)),
        "model/tas": ((2, 2), None),
    }
    assert [codec.name for codec in group["model/tas"].metadata.codecs] == ["bytes", "numcodecs.shuffle", "zstd"]
    assert "note: chunks time=5,lat=3: 1 array has none of these, which keeps its own (crs)" in result.stderr
    lines = convert(source, tmp_path / "x", *options, "--dry-run").stdout.splitlines()
    assert lines[0].split()[-2:] == ["codecs", "shards"]
    assert [line.split("  ")[-1].strip() for line in lines[1:5]] == ["-", "-", "(10, 3, 8)", "-"]
    assert not (tmp_path / "x").exists()
    output = json.loads(convert(source, tmp_path / "x", *options, "--dry-run", "--json").stdout)
    assert {each["path"]: each["shards"] for each in output["arrays"]}["tas"] == [10, 3, 8]


def test_rules_as_json_and_one_codec(tmp_path: Path) -> None:
    source = climate(tmp_path / "old")
    rules = json.dumps({"tas": {"name": "zstd", "level": 7}, "time": ["shuffle", "gzip"]})
    convert(source, tmp_path / "a", "--codecs", rules, "--chunks", '{"/tas": [[15, 5], 6, -1]}')
    group = tegula.open_group(tmp_path / "a")
    assert group["tas"].chunks == ((15, 5), 6, 8)
    assert group["tas"].metadata.codecs[-1].configuration["level"] == 7
    assert group["time"].metadata.codecs[-1].name == "gzip"
    convert(source, tmp_path / "b", "--codecs", '{"name": "bitround", "keepbits": 10}')
    convert(source, tmp_path / "c", "--codecs", 'tas={"name": "bitround", "keepbits": 10}')
    for name, expected in (("b", True), ("c", False)):
        codecs = tegula.open_group(tmp_path / name)["time"].metadata.codecs
        assert (codecs[0].name == "bitround") is expected


def test_invalid_rules(tmp_path: Path) -> None:
    source = climate(tmp_path / "old")
    for code, message, *options in [
        (2, "is not NAME=VALUE", "--chunks", "time=5,lat="),
        (2, "is not NAME=VALUE", "--chunks", "time=5;6"),
        (2, "two rules for 'time'", "--shards", "time=5,time=6"),
        (2, "is neither", "--chunks", "time=five"),
        (1, "the rule tme=5 matches no array; dimensions: ", "--chunks", "tme=5"),
        (1, "needs the option 'keepbits'", "--codecs", "tas=bitround"),
        (1, "are not multiples of the chunks", "--chunks", "time=4", "--shards", "time=10"),
    ]:
        result = CliRunner().invoke(app, ["convert", str(source), str(tmp_path / "new"), *options])
        assert result.exit_code == code, result.output
        assert message in " ".join(result.stderr.replace("│", " ").split())
        assert not (tmp_path / "new").exists()


def test_a_dry_run_in_little_memory_prints_the_passes(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x", shape=(1000, 80, 100), chunks=(1, 80, 100), dtype="f4")
    arguments = [tmp_path / "x", tmp_path / "y", "--chunks", "1000,10,10", "--max-memory", "8MB", "--dry-run"]
    last = convert(*arguments).stdout.splitlines()[-1]
    assert last.startswith("/: 2 passes through a temporary array of chunks ("), last


def test_error_for_a_changed_source_does_not_advise_to_repeat(tmp_path: Path) -> None:
    group = tegula.create_group(tmp_path / "x")
    array, *_ = (group.create_array(name, shape=9, chunks=1, dtype="i4") for name in "abcd")
    arguments = ["convert", tmp_path / "x", tmp_path / "y", "--chunks", "3", "--part", "1/2"]
    assert CliRunner().invoke(app, [*map(str, arguments)]).exit_code == 0
    array.resize((12,))
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 1
    assert "the source has changed since the job began" in result.output
    assert "repeat the first command" not in result.output


def test_a_target_that_was_complete_is_verified_again(tmp_path: Path) -> None:
    tegula.create_array(tmp_path / "x", shape=9, chunks=3, dtype="i4")[...] = 1
    arguments = [tmp_path / "x", tmp_path / "y", "--codecs", "zstd", "--resume"]
    assert "complete already" not in convert(*arguments, "--verify").output
    output = convert(*arguments, "--verify").output
    assert "1 array converted to zarr3, verified" in output
    assert "the target was complete already" in output
    assert "has not compared" not in convert(*arguments).output
