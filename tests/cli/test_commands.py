"""The commands, run within this process."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula.cli.program import app


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, (result.output, result.exit_code)
    if code:
        assert "Traceback" not in result.stderr
    if code == 1:
        assert "tegula: error: " in result.stderr
    return result


def facts(*arguments, code=0):
    return json.loads(run(*arguments, "--json", code=code).stdout)


@pytest.fixture(params=["données é.zarr", "data.zip"])
def source(request, tmp_path):
    """A hierarchy in a directory whose name has a space, and in an archive."""
    path = tmp_path / request.param
    with tegula.store_of(str(path)) as store:
        group = tegula.create_group(store, attributes={"title": "Höhe", "n": 3})
        array = group.create_array(
            "era/t", shape=(5, 4, 3), chunks=(2, 2, 3), dtype="f4", dimension_names=["a", "b", "c"]
        )
        array[:] = np.arange(60).reshape(5, 4, 3) / 10
        array[0, 0, 0] = np.nan
        names = group.create_array("names", shape=3, dtype=str)
        names[:] = ["a", "b,c", "é"]
    return path


@pytest.fixture
def values():
    values = (np.arange(60).reshape(5, 4, 3) / 10).astype("f4")
    values[0, 0, 0] = np.nan
    return values


# --- info, tree, ls


def test_info_prints_metadata_and_sizes(source):
    assert run("info", f"{source}::era/t").stdout == f"{tegula.open(str(source), path='era/t').info}\n"
    output = facts("info", f"{source}::era/t")
    assert (output["kind"], output["shape"], output["dtype"], output["chunks"]) == (
        "array",
        [5, 4, 3],
        "float32",
        [2, 2, 3],
    )
    assert (output["format"], output["nchunks"], output["nchunks_stored"]) == ("zarr3", 6, 6)
    assert output["codecs"][0] == {"name": "bytes", "configuration": {"endian": "little"}}
    assert (output["fill_value"], output["shards"], output["dimension_names"]) == (0.0, None, ["a", "b", "c"])
    output = facts("info", source)
    assert (output["kind"], output["arrays"], output["groups"]) == ("group", ["names"], ["era"])
    assert output["attributes"] == {"title": "Höhe", "n": 3}
    assert "Höhe" in run("info", source, "--json").stdout


def test_tree_draws_groups_and_members(source):
    assert run("tree", source).stdout == f"{tegula.open(str(source)).tree()}\n"
    assert run("tree", source, "--depth", 1).stdout.splitlines() == ["/", "├── era", "└── names (3,) string"]
    assert run("tree", f"{source}::names").stdout == "/names (3,) string\n"
    array: dict[str, object] = {"name": "t", "kind": "array", "format": "zarr3", "shape": [5, 4, 3], "dtype": "float32"}
    array["dimension_names"] = ["a", "b", "c"]
    assert facts("tree", source)["members"][0] == {
        "name": "era",
        "kind": "group",
        "format": "zarr3",
        "members": [array],
    }
    assert facts("tree", source, "--depth", 1)["members"][0] == {"name": "era", "kind": "group", "format": "zarr3"}
    run("tree", source, "--depth", -1, code=2)


def test_colours_where_they_are_asked_for(source):
    for command in ("info", "tree"):
        plain = run(command, source).stdout
        assert "\x1b" not in plain
        assert "\x1b[36m" in run(command, source, "--colour", "always").stdout
        assert run(command, source, "--color", "never").stdout == plain


def test_json_says_what_the_text_says(tmp_path):
    group = tegula.create_group(tmp_path / "x")
    group.create_array("time", data=[1.5, 2.5], dimension_names=["time"], attributes={"units": "s"})
    group.create_array("t", data=np.ones((2, 3)), dimension_names=["time", None])
    (tmp_path / "x/b").mkdir()
    (tmp_path / "x/b/zarr.json").write_text("{")
    output = facts("info", tmp_path / "x")
    time, t = (next(each for each in output["variables"] if each["name"] == name) for name in ("time", "t"))
    assert (time["is_coordinate"], time["ends"], time["units"]) == (True, [1.5, 2.5], "s")
    assert (t["is_coordinate"], "ends" in t, t["nbytes_stored"] > 0) == (False, False, True)
    assert output["totals"]["dimensions"] == {"time": [2]}
    assert [*output["unreadable"]] == ["b"]
    assert output["jobs"] == []
    assert [*next(each for each in facts("tree", tmp_path / "x")["members"] if each["name"] == "b")] == [
        "name", "unreadable",
    ]  # fmt: skip


def test_a_selection_that_is_not_closed_is_one_only_where_it_is_taken(tmp_path):
    tegula.save(tmp_path / "x.zarr", [1, 2])
    advice = "the ']' that ends the selection is missing"
    for command, takes in (("cat", True), ("info", False), ("check", False), ("head", False)):
        said = run(command, f"{tmp_path / 'x.zarr'}[0, 1:", code=1).output
        assert (advice in said) is takes
        assert ("selections are taken by tegula cat" in said) is (command in ("info", "head"))
    said = run("cat", f"{tmp_path / 'x.zarr'}[0", "0", code=1).output
    assert advice not in said
    assert "selections are taken" not in said
    assert "closest name is 'x.zarr'" in run("info", f"{tmp_path / 'x.zarr'}[0", code=1).output


def test_a_plain_directory_is_one_in_every_command(tmp_path):
    """It has no format, at any depth."""
    tegula.create_table(tmp_path / "p/a b/t", {"day": np.arange(3)}, format="bcolz")
    tegula.save(tmp_path / "p/y.zarr", [1, 2])
    path = tmp_path / "p"
    for root in (path, f"{path}::a b"):
        found = facts("info", root), facts("tree", root)
        assert {(each["kind"], each["format"]) for each in found} == {("directory", None)}
    tree = {each["name"]: each for each in facts("tree", path)["members"]}
    listed = {each["name"]: each for each in facts("ls", path)}
    for members in (tree, listed):
        assert (members["a b"]["kind"], members["a b"]["format"]) == ("directory", None)
        assert (members["y.zarr"]["kind"], members["y.zarr"]["format"]) == ("array", "zarr3")
    rows = run("ls", "-l", path).stdout.splitlines()
    assert [row.split()[:2] for row in rows if row.endswith("a b")] == [["directory", "-"]]
    assert run("tree", path, "--depth", 1).stdout.splitlines()[1:] == ["├── a b", "└── y.zarr (2,) int64"]
    rows = [row.split() for row in run("info", path).stdout.splitlines() if row.startswith("  a b ")]
    size = tegula.open(path / "a b" / "t").nbytes_stored()
    assert rows == [["a", "b", "directory", str(size), "B"]]


def test_tree_of_a_table(tmp_path):
    tegula.create_table(tmp_path / "t", {"day": np.arange(3, dtype="i4"), "close": np.ones(3)}, format="bcolz")
    assert run("tree", tmp_path / "t").stdout.splitlines() == ["/", "├── day (3,) int32", "└── close (3,) float64"]
    assert run("tree", tmp_path / "t", "--depth", 0).stdout == "/\n"


def test_ls_lists_members(source):
    assert run("ls", source).stdout == "era\nnames\n"
    assert run("ls", "-r", source).stdout == "era\nera/t\nnames\n"
    assert run("ls", f"{source}::names").stdout == "names\n"
    titles, *rows = [line.split() for line in run("ls", "-lr", source).stdout.splitlines()]
    assert titles == ["kind", "format", "shape", "data", "type", "stored", "name"]
    assert [row[0] for row in rows] == ["group", "array", "array"]
    assert [row[-1] for row in rows] == ["era", "era/t", "names"]
    assert "(5, 4, 3)  float32" in run("ls", "-l", f"{source}::era").stdout
    output = facts("ls", "-l", f"{source}::era")
    stored = tegula.open(str(source), path="era/t").nbytes_stored()
    array: dict[str, object] = {"name": "t", "kind": "array", "format": "zarr3", "shape": [5, 4, 3], "dtype": "float32"}
    array["dimension_names"] = ["a", "b", "c"]
    assert output == [{**array, "nbytes_stored": stored}]
    assert facts("ls", source)[0] == {"name": "era", "kind": "group", "format": "zarr3"}


def test_ls_goes_on_after_a_damaged_member(tmp_path):
    group = tegula.create_group(str(tmp_path / "x"))
    for name in "abc":
        group.create_array(name, shape=1, dtype="i1")
    (tmp_path / "x/b/zarr.json").write_text("{")
    assert run("ls", tmp_path / "x").stdout.split() == ["a", "b", "c"]
    result = run("ls", "-l", tmp_path / "x", code=1)
    assert [line.split()[-1] for line in result.stdout.splitlines()] == ["name", "a", "c"]
    assert result.stderr.startswith("tegula: error: b: ")
    assert [each["name"] for each in facts("ls", tmp_path / "x", code=1)] == ["a", "c"]


def test_an_empty_group_is_listed_as_nothing(tmp_path):
    tegula.create_group(str(tmp_path / "x"))
    for options in ([], ["-l"], ["-r"]):
        assert run("ls", tmp_path / "x", *options).stdout == ""
    assert facts("ls", tmp_path / "x") == []


def test_names_that_are_commands_to_a_terminal(tmp_path, monkeypatch):
    """No command prints the letters of a name that would colour, move or rename a terminal."""
    group = tegula.create_group(str(tmp_path / "x"))
    name = "a\x1b[31m\x07\n"
    group.create_array(f"{name}1", shape=1, dtype="i1")
    group.create_array(f"{name}2", shape=1, dtype="i1")[:] = 1
    (tmp_path / f"x/{name}2/c/0").write_bytes(b"")
    group.create_array(f"{name}3", shape=1, dtype="i1")
    (tmp_path / f"x/{name}3/zarr.json").write_text("{")
    assert name in run("ls", tmp_path / "x").stdout  # for programs, as it is
    monkeypatch.setattr("tegula.cli.commands.listing.on_terminal", lambda: True)
    for command in ("tree", "ls", "ls -l", "info", "stats", "checksum", "check"):
        result = CliRunner().invoke(app, [*command.split(), str(tmp_path / "x")])
        assert result.exit_code in (0, 1)
        assert "a\\x1b[31m\\x07\\n" in result.output, command
        assert "\x1b" not in result.output, command
        assert "\x07" not in result.output, command
    assert run("tree", f"{tmp_path / 'x'}::{name}1").stdout == "/a\\x1b[31m\\x07\\n1 (1,) int8\n"
    assert "\x1b" not in str(group.tree())


def test_paths_and_names_do_not_control_a_terminal(tmp_path):
    """A path that is printed is one line, and so are names of axes in a table."""
    path = tmp_path / "e\x1b[31m\x9bm\u202e\nz.zarr"
    shown = r"e\x1b[31m\x9bm\u202e\nz.zarr"
    array = tegula.create_group(str(path)).create_array(
        "a", shape=(4, 4), dtype="i2", dimension_names=["y\x1b\u202e", "x"]
    )
    array[:] = 1
    axes = json.dumps([{"name": "y\x1b\u202e", "type": "space"}, {"name": "x", "type": "space"}])
    line = run("consolidate", path).stdout
    assert line.endswith(f"{shown}: metadata of 1 member consolidated\n")
    assert line.count("\n") == 1
    assert r"scale of y\x1b\u202e,x" in run("downsample", f"{path}::a", "--axes", axes, "--dry-run").stdout


def test_json_has_no_letters_that_control_a_terminal(tmp_path):
    """JSON is the same in a pipe and on a terminal, and every command prints it so."""
    text = "é\x9b31m\x85\u2028\u202e\x7f"
    group = tegula.create_group(str(tmp_path / "x"), attributes={"c1": text})
    group.create_array("s", shape=1, dtype=str)[:] = [text]
    for command in ("attrs get", "info --json", "cat --format json", "head --json"):
        inner = "::s" if command[:4] in ("cat ", "head") else ""
        output = run(*command.split(), f"{tmp_path / 'x'}{inner}").stdout
        assert r"é\u009b31m\u0085\u2028\u202e\u007f" in output
        assert all(line.isprintable() for line in output.split("\n"))


# --- cat


def test_cat_formats(source, values):
    array = f"{source}::era/t"
    assert run("cat", f"{array}[1]").stdout == "1.2,1.3,1.4\n1.5,1.6,1.7\n1.8,1.9,2.0\n2.1,2.2,2.3\n"
    assert run("cat", array, "-1, -1").stdout == "5.7\n5.8\n5.9\n"
    assert run("cat", array, "-1,...,0:1").stdout == "4.8\n5.1\n5.4\n5.7\n"
    assert run("cat", array, "[0, 0]").stdout == "NaN\n0.1\n0.2\n"
    assert run("cat", f"{array}[1,2,2]").stdout == "2.0\n"
    expected = np.where(np.isnan(values), "NaN", values.astype("U").astype("f8").astype(object)).tolist()
    assert json.loads(run("cat", array).stdout) == expected
    assert len(run("cat", array).stdout.splitlines()) == 5
    assert run("cat", array, "--format", "raw").stdout_bytes == values.tobytes()
    assert run("cat", f"{array}[::-2, 1:]", "--format", "raw").stdout_bytes == values[::-2, 1:].tobytes()
    assert run("cat", f"{source}::names").stdout == 'a\n"b,c"\né\n'
    assert json.loads(run("cat", f"{source}::names[1:]", "--format", "json").stdout) == ["b,c", "é"]


def test_cat_into_a_file(source, values, tmp_path):
    for name, options in [("x.npy", []), ("y", ["--format", "npy"])]:
        result = run("cat", f"{source}::era/t[:, 1]", "-o", tmp_path / name, *options)
        assert result.output == ""
        np.testing.assert_array_equal(np.load(tmp_path / name), values[:, 1])
    run("cat", f"{source}::era/t[1]", "-o", tmp_path / "x.json")
    assert len(json.loads((tmp_path / "x.json").read_text())) == 4
    run("cat", f"{source}::era/t[1]", "-o", tmp_path / "x.txt")
    assert (tmp_path / "x.txt").read_text().startswith("1.2 1.3 1.4\n")


@pytest.mark.parametrize("name", ["y.foo", "y.csv.gz", "y.parquet", "Y.FOO"])
def test_cat_refuses_a_suffix_that_it_does_not_know(source, values, tmp_path, name):
    message = run("cat", f"{source}::era/t", "-o", tmp_path / name, code=2).stderr
    assert f"no format has the suffix '{Path(name).suffix.lower()}'" in " ".join(message.split())
    assert ".npy" in message
    assert not (tmp_path / name).exists()
    run("cat", f"{source}::era/t", "-o", tmp_path / name, "--format", "raw")
    assert (tmp_path / name).read_bytes() == values.tobytes()
    run("cat", f"{source}::era/t[1]", "-o", tmp_path / "none")
    assert (tmp_path / "none").read_text().count("\n") == 4
    run("cat", f"{source}::era/t[1]", "-o", tmp_path / "y.CSV")
    assert (tmp_path / "y.CSV").read_text() == (tmp_path / "none").read_text()


def test_after_an_error_the_file_is_unchanged(source, tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("precious")
    run("cat", f"{source}::era/t", "-o", file, code=1)
    run("cat", f"{source}::era/t[9]", "-o", file, code=1)
    run("cat", f"{source}::names", "-o", file, "--format", "npy", code=1)
    assert file.read_text() == "precious"
    assert "No such file" in run("cat", f"{source}::names", "-o", tmp_path / "no/x", code=1).stderr


@pytest.mark.parametrize("selection", ["1.5", "::0", "'a", "", "a b"])
def test_cat_refuses_invalid_selections(source, selection):
    message = " ".join(run("cat", f"{source}::names", selection, code=2).stderr.split())
    assert ("the step of a slice" if selection == "::0" else "selects nothing: give") in " ".join(message.split())
    assert run("cat", f"{source}::names", selection, code=2).stdout == ""


def test_cat_failures(source):
    for arguments in (
        [f"{source}::nope"], [f"{source}::names[3]"], [f"{source}::names", "0,0"],
        [f"{source}::names['f']"],
        [f"{source}::era/t", "--format", "csv"], [f"{source}::names", "--format", "npy"],
    ):  # fmt: skip
        result = run("cat", *arguments, code=1)
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1
    run("cat", f"{source}::names", "--format", "xml", code=2)
    run("cat", f"{source}::names", "1", "2", code=2)
    run("cat", code=2)


def test_cat_of_other_elements(tmp_path):
    array = tegula.create_array(str(tmp_path / "r"), shape=2, dtype=[("a", "i4"), ("b b", "M8[D]")], format="zarr2")
    array[:] = np.array([(1, "2020-01-01"), (2, "NaT")], array.dtype)
    assert run("cat", tmp_path / "r").stdout == "a,b b\n1,2020-01-01\n2,NaT\n"
    assert run("cat", f"{tmp_path}/r['b b']").stdout == "2020-01-01\nNaT\n"
    assert run("cat", f"{tmp_path}/r[a, 1]").stdout == "2\n"
    assert run("cat", tmp_path / "r", '["a"], 0:1').stdout == "a\n1\n"
    tegula.create_array(str(tmp_path / "p"), shape=(), dtype="?", fill_value=True)
    assert run("cat", tmp_path / "p").stdout == "true\n"
    assert run("cat", tmp_path / "p", "--format", "json").stdout == "true\n"
    tegula.create_array(str(tmp_path / "e"), shape=(0, 2), dtype="i4")
    assert run("cat", tmp_path / "e").stdout == ""
    assert run("cat", tmp_path / "e", "--format", "json").stdout == "[]\n"


# --- targets


@pytest.mark.parametrize("format", ["bcolz", "zarr2"])
def test_cat_of_a_table(tmp_path, format):
    values = {"n": np.arange(5), "x": [0.5, 1.5, 2.5, 3.5, 4.5], "o": np.array([1, "a", None, (), 2], object)}
    if format == "zarr2":
        del values["o"]
    tegula.create_table(tmp_path / "t", values, format=format, allow_pickle=True)
    if format == "bcolz":
        assert "allow" in run("cat", tmp_path / "t", code=1).stderr
        assert run("cat", f"{tmp_path / 't'}[:2]", "--allow-pickle").stdout.split() == ["n,x,o", "0,0.5,1", "1,1.5,a"]
        part = f"{tmp_path / 't'}[['x', 'n'], ::-2]"
        assert run("cat", part, "--allow-pickle").stdout.split() == ["x,n", "4.5,4", "2.5,2", "0.5,0"]
    else:
        assert "a group" in run("cat", tmp_path / "t", code=1).stderr


def test_a_target_is_a_path_or_url_with_a_path_inside(source, tmp_path, monkeypatch):
    url = Path(source).as_uri()
    assert run("cat", f"{url}::names[0]").stdout == "a\n"
    monkeypatch.chdir(tmp_path)
    assert run("cat", f"{source.name}::names[0]").stdout == "a\n"
    if source.suffix != ".zip":
        assert run("cat", f"{source}/names[0]").stdout == "a\n"


def test_names_of_files_may_look_like_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tegula.save("./a", np.arange(7, 9))
    for name in ("a::b", "a.zarr::b", "s3:b", "a|b"):
        tegula.save(Path(name) if name != "s3:b" else f"./{name}", np.arange(3))
        assert run("cat", name).stdout == "0\n1\n2\n"


def test_names_of_files_may_look_like_selections(tmp_path):
    for name in ("x[1]", "a::b"):
        tegula.save(str(tmp_path / name), np.arange(3))
        assert run("cat", tmp_path / name).stdout == "0\n1\n2\n"
        assert run("cat", f"{tmp_path / name}", "1").stdout == "1\n"
    assert run("cat", f"{tmp_path}/x[1][2]").stdout == "2\n"


def test_missing_nodes_are_errors(tmp_path):
    for command in ("info", "tree", "ls", "cat"):
        for name in ("x.zarr", "x.zip", "x::y"):
            run(command, tmp_path / name, code=1)
    run("info", "s3://bucket/x", code=1)
    run("info", "", code=1)
    assert [*tmp_path.iterdir()] == []


# --- attrs


def test_attributes_are_printed_set_and_removed(source):
    assert json.loads(run("attrs", "get", source).stdout) == {"title": "Höhe", "n": 3}
    assert run("attrs", "get", source, "title", "--json").stdout == '"Höhe"\n'
    assert run("attrs", "set", source, "offset", "-0.5").output == ""
    run("attrs", "set", source, "units=K", "size=[1, null]", 'text="2"', "nan=NaN", "formula=a=b")
    run("attrs", "set", source, "equation", "x=y")
    run("attrs", "unset", source, "n")
    assert json.loads(run("attrs", "get", source).stdout) == {
        "title": "Höhe", "offset": -0.5, "units": "K", "size": [1, None], "text": "2", "nan": "NaN",
        "formula": "a=b", "equation": "x=y",
    }  # fmt: skip
    run("attrs", "set", f"{source}::era/t", "units", "m/s")
    assert tegula.open(str(source), path="era/t").attrs.asdict() == {"units": "m/s"}


def test_attribute_failures(source):
    run("attrs", "get", source, "nope", code=1)
    run("attrs", "unset", source, "nope", code=1)
    run("attrs", "set", f"{source}::nope", "a", "1", code=1)
    for words in (["a"], ["a", "b", "c"], ["a=1", "b"], ["=1"], []):
        run("attrs", "set", source, *words, code=2)
    run("attrs", "drop", source, code=2)


def test_attributes_that_json_can_not_hold(tmp_path):
    tegula.create_group(str(tmp_path / "x"), format="zarr2")
    (tmp_path / "x/.zattrs").write_text('{"a": NaN, "b": [-Infinity]}')
    assert json.loads(run("attrs", "get", tmp_path / "x").stdout) == {"a": "NaN", "b": ["-Infinity"]}


# --- convert


def test_convert_a_hierarchy(source, tmp_path, values):
    target = tmp_path / "out.zarr"
    result = run("convert", source, target, "--format", "zarr2", "--verify")
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["array", "shape", "chunks"]
    assert [line.split()[0] for line in lines[1:-1]] == ["/era/t", "/names"]
    assert lines[1].endswith("yes")
    assert lines[-1].startswith("2 arrays and 2 groups converted to zarr2")
    assert lines[-1].endswith("s")
    assert tegula.open(str(target)).attrs["title"] == "Höhe"
    np.testing.assert_array_equal(tegula.open(str(target))["era/t"][:], values)
    assert "already" in run("convert", source, target, code=1).stderr
    run("convert", source, target, "--overwrite", "-q", "--format", "zarr3")
    assert tegula.open(str(target)).format == "zarr3"


def test_convert_an_array(source, tmp_path, values):
    target = tmp_path / "out.zip"
    options = [
        "--chunks",
        "2,-1,1",
        "--shards",
        "4,2,3",
        "--codecs",
        "gzip",
        "--select",
        "1:, ::2",
        "--path",
        "a/b",
        "--verify",
    ]
    output = facts("convert", f"{source}::era/t", target, *options)
    assert (output["ok"], output["format"], output["dry_run"]) == (True, "zarr3", False)
    assert output["arrays"][0]["verified"] is True
    array = tegula.open(str(target), path="a/b")
    np.testing.assert_array_equal(array[:], values[1:, ::2])
    assert (array.chunks, array.shards) == ((2, 2, 1), (4, 2, 3))
    run(
        "convert",
        f"{source}::era/t",
        f"{tmp_path}/plain::x",
        "--codecs",
        "none",
        "--chunks",
        "auto",
        "--shards",
        "none",
        "-q",
    )
    array = tegula.open(str(tmp_path / "plain"))["x"]
    assert [codec.name for codec in array.metadata.codecs] == ["bytes"]
    assert array.chunks == (5, 4, 3)
    codecs = '[{"name": "zstd", "configuration": {"level": 3, "checksum": true}}]'
    run("convert", f"{source}::era/t", tmp_path / "json", "--codecs", codecs, "--chunks", "3")
    assert facts("info", tmp_path / "json")["codecs"][1]["configuration"] == {"level": 3, "checksum": True}
    assert facts("info", tmp_path / "json")["chunks"] == [3, 3, 3]


def test_convert_dry_run(source, tmp_path):
    result = run("convert", source, tmp_path / "out", "--dry-run")
    assert "would be converted" in result.stdout
    assert facts("convert", source, tmp_path / "out", "--dry-run")["dry_run"] is True
    assert not (tmp_path / "out").exists()


def test_convert_reports_changes_and_failures(source, tmp_path):
    result = run("convert", f"{source}::era/t", tmp_path / "one", "--format", "zarr1")
    assert result.stderr.startswith("tegula: note: /: ")
    assert run("convert", f"{source}::era/t", tmp_path / "two", "--format", "zarr1", "-q").output == ""
    result = run("convert", source, tmp_path / "out", "--format", "zarr1", code=1)
    assert "tegula: error: /names: " in result.stderr
    output = facts("convert", source, tmp_path / "out1", "--format", "zarr1", code=1)
    assert output["ok"] is False
    assert "names" in output["failed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [["--chunks", "5,x"], ["--chunks", ""], ["--codecs", "[1"], ["--codecs", "a,,b"], ["--select", "1.5"],
     ["--format", "hdf5"], ["--shards", "[1"], ["--path", "x"], ["--nope"]],
)  # fmt: skip
def test_convert_refuses_invalid_options(source, tmp_path, options):
    run("convert", f"{source}::names", f"{tmp_path}/out::y", *options, code=2)
    assert not (tmp_path / "out").exists()


def test_convert_failures(source, tmp_path):
    for options in (
        ["--codecs", "nope"],
        ["--codecs", "1"],
        ["--chunks", '["a"]'],
        ["--select", "9"],
        ["--shards", "7"],
    ):
        run("convert", f"{source}::era/t", tmp_path / "out", *options, code=1)
    run("convert", source, tmp_path / "out", "--select", "0", code=1)
    run("convert", source, f"{source}::x", code=1)
    run("convert", tmp_path / "nothing", tmp_path / "out", code=1)


# --- the program


def test_version_and_help():
    assert run("--version").stdout == f"tegula {tegula.__version__}\n"
    for command in ("info", "tree", "ls", "cat", "attrs", "convert", "attrs get", "attrs set", "attrs unset"):
        assert "Usage: " in run(*command.split(), "--help").stdout
    run("nope", code=2)
    run("info", code=2)
