"""Commands with URLs: every command that takes a path reaches a bucket, and none shows a secret."""

from __future__ import annotations

import inspect
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import typer
from tests.servers.buckets import Server
from typer.testing import CliRunner

import tegula
from tegula.cli import completion
from tegula.cli.completion import complete_target
from tegula.cli.program import _COMMANDS, app
from tegula.cli.targets import Setting, parse_setting

SECRET = "wJalrXUtnFEMI"
COMMANDS: dict[str, list[list[str]]] = {
    "info": [["{x}"], ["{x}", "--json"]],
    "tree": [["{g}"]],
    "ls": [["{g}"], ["{g}", "-l"], ["{x}", "--json"]],
    "head": [["{x}"], ["{g}::y"]],
    "tail": [["{x}"], ["{g}::y"]],
    "cat": [["{x}"], ["{g}::y[0]"]],
    "stats": [["{g}"]],
    "attrs": [["get", "{x}"], ["set", "{x}", "unit=m"], ["unset", "{x}", "unit"]],
    "convert": [["{x}", "{new}"], ["{g}::y", "{new}2::inner"]],
    "references": [["{x}", "{new}.json"], ["{g}", "{new}.parq", "--form", "parquet"]],
    "downsample": [["{image}", "{new}"], ["{image}", "{g}::deep", "--factors", "3"]],
    "compare": [["{x}", "{x}"]],
    "sync": [["{x}", "{new}"], ["{g}::y", "{new}2"]],
    "diff": [["{x}", "{new}"], ["{g}", "{new}"]],
    "checksum": [["{g}"], ["{g}::y", "--quiet"]],
    "check": [["{g}"], ["{g}", "--repair"]],
    "jobs": [["list", "{g}"]],
    "consolidate": [["{g}"]],
    "cp": [["{x}", "{new}"], ["{g}::y", "{new}/"]],
    "mv": [["{x}", "{new}"], ["{g}::y", "{g}::z"]],
    "rm": [["{x}"], ["{g}::y"]],
    "doctor": [["{x}"], ["{g}", "--write"], ["{x}", "--json"]],
}


def functions(name: str) -> list[Any]:
    command = _COMMANDS[name]
    result = getattr(import_module(f"tegula.cli.commands.{command.module}"), command.name)
    return [each.callback for each in result.registered_commands] if isinstance(result, typer.Typer) else [result]


def paths(function: Any) -> list[str]:
    """Return the names of a command's arguments that are completed as paths."""
    hints = get_type_hints(function, include_extras=True)
    return [
        name for name, hint in hints.items()
        if any(getattr(each, "autocompletion", None) is complete_target for each in get_args(hint)[1:])
    ]  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_each_path_has_storage_options(name: str) -> None:
    for function in functions(name):
        options = [key for key in inspect.signature(function).parameters if key.endswith("storage_option")]
        assert len(paths(function)) == len(options) > 0
        assert "storage_option" in options


def test_each_command_is_tried() -> None:
    assert COMMANDS.keys() == _COMMANDS.keys() - {"serve", "plot"}  # which have tests of their own


@pytest.fixture
def data_bucket(s3_server: Any) -> Any:
    """A bucket with an array and a group."""
    bucket = s3_server.bucket()
    tegula.save(f"{bucket.url}/x.zarr", np.arange(3), storage_options=bucket.storage_options)
    tegula.save(f"{bucket.url}/image.zarr", np.eye(20), storage_options=bucket.storage_options)
    tegula.save(f"{bucket.url}/g.zarr", y=np.arange(4), storage_options=bucket.storage_options)
    return bucket


def words(options: dict[str, Any]) -> list[str]:
    return [word for name, value in options.items() for word in ("--storage-option", f"{name}={value}")]


def run(name: str, arguments: list[str], url: str, options: dict[str, str]) -> Any:
    known = {"x": f"{url}/x.zarr", "g": f"{url}/g.zarr", "new": f"{url}/new", "image": f"{url}/image.zarr"}
    return CliRunner().invoke(app, [name, *(word.format(**known) for word in arguments), *words(options)])


@pytest.mark.sampled(one_in=32)
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_in_a_bucket(name: str, data_bucket: Any) -> None:
    for arguments in COMMANDS[name]:
        result = run(name, arguments, data_bucket.url, {**data_bucket.storage_options, "secret_access_key": SECRET})
        differs = name == "diff"  # from a target that is not there
        assert (result.exit_code, result.stderr) == (int(differs), ""), arguments
        assert SECRET not in result.output


def test_what_commands_do_in_a_bucket(data_bucket: Any) -> None:
    options = data_bucket.storage_options
    for name, arguments in (
        ("attrs", ["set", "{x}", "unit=m"]), ("convert", ["{x}", "{new}", "--format", "zarr2"]),
        ("mv", ["{g}::y", "{g}::z"]), ("cp", ["{x}", "{g}::x"]), ("rm", ["{x}"]),
    ):  # fmt: skip
        assert run(name, arguments, data_bucket.url, options).exit_code == 0, name
    new = tegula.open(f"{data_bucket.url}/new", storage_options=options)
    assert (new.format, [*new[:]], new.attrs["unit"]) == ("zarr2", [0, 1, 2], "m")
    assert [*tegula.open(f"{data_bucket.url}/g.zarr", storage_options=options)] == ["x", "z"]
    with pytest.raises(tegula.NotFoundError):
        tegula.open(f"{data_bucket.url}/x.zarr", storage_options=options)


def test_options_of_both_ends(data_bucket: Any, s3_server: Any, tmp_path: Path) -> None:
    tegula.save(tmp_path / "x.zarr", np.arange(3))
    url, options = f"{data_bucket.url}/new", data_bucket.storage_options
    theirs = [f"--target{word[1:]}" if word.startswith("--") else word for word in words(options)]
    invoke = CliRunner().invoke
    assert invoke(app, ["cp", str(tmp_path / "x.zarr"), url, *theirs]).exit_code == 0
    theirs = [f"--second{word[1:]}" if word.startswith("--") else word for word in words(options)]
    assert invoke(app, ["compare", str(tmp_path / "x.zarr"), url, *theirs]).exit_code == 0
    other = s3_server.bucket()
    theirs = [f"--target{word[1:]}" if word.startswith("--") else word for word in words(other.storage_options)]
    assert invoke(app, ["convert", url, f"{other.url}/y", *words(options), *theirs]).exit_code == 0
    wrong = invoke(app, ["cp", str(tmp_path / "x.zarr"), f"{data_bucket.url}/z", *words(options)])
    assert wrong.exit_code == 1
    assert "pass its options as --target-storage-option" in wrong.stderr


@pytest.mark.sampled(one_in=23)
@pytest.mark.parametrize("name", COMMANDS)
def test_failures_show_no_secret(name: str, data_bucket: Any, tmp_path: Path) -> None:
    """User info of a URL, values of options, and options without a name."""
    secret_url = data_bucket.url.replace("://", f"://me:{SECRET}@")
    options = {**data_bucket.storage_options, "secret_access_key": SECRET}
    for arguments in COMMANDS[name]:
        for url, settings in (
            (secret_url, {**options, "allow_http": "false", "retries": "0"}),
            (data_bucket.url, {**options, "nosuch": SECRET}),
            (str(tmp_path), options),
            (f"nosuch://me:{SECRET}@host", options),
        ):
            result = run(name, arguments, url, settings)
            assert result.exit_code in (1, 2), (arguments, url)
            assert SECRET not in result.output + result.stderr
        known = [word.format(x="a", g="b", new="c", image="d") for word in arguments]
        result = CliRunner().invoke(app, [name, *known, "--storage-option", SECRET])
        assert result.exit_code == 2
        assert SECRET not in result.output + result.stderr


def test_a_question_shows_no_secret(data_bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.cli.commands.moving._can_ask", lambda: True)
    url = f"{data_bucket.url.replace('://', f'://me:{SECRET}@')}/x.zarr"
    result = CliRunner().invoke(app, ["rm", url, *words(data_bucket.storage_options)], input="n\n")
    assert SECRET not in result.output + result.stderr


def test_values_of_options() -> None:
    for text, value in (
        ("a=1", 1), ("a=true", True), ("a=x=y", "x=y"), ("a=", ""), ('a="1"', "1"), ('a={"b": 1}', {"b": 1}),
        ("a=01", "01"),
    ):  # fmt: skip
        assert parse_setting(text) == Setting("a", value)
    for text in (SECRET, f"={SECRET}", ""):
        with pytest.raises(typer.BadParameter) as raised:
            parse_setting(text)
        assert SECRET not in str(raised.value)


# --- doctor


def test_doctor_says_what_holds(data_bucket: Any) -> None:
    def facts(*more: str) -> Any:
        result = run("doctor", ["{x}", "--json", *more], data_bucket.url, data_bucket.storage_options)
        assert result.exit_code == 0
        return json.loads(result.stdout)

    output = facts()
    assert "writing" not in output
    assert (output["reading"], output["listing"], output["node"]) == (None, None, "array of the format zarr3")
    assert output["credentials"]["--storage-option"] == ["access_key_id", "secret_access_key"]
    assert 0 < output["latency_seconds"] < 30
    store = tegula.store_of(data_bucket.url, storage_options=data_bucket.storage_options)
    before = {*store.list()}
    tried = facts("--write")["writing"]
    assert (tried["failure"], tried["creates_once"], tried["updates_once"]) == (None, True, True)
    assert tried["fresh_generations"] == store.capabilities.fresh_generations
    assert {*store.list()} == before


def test_doctor_does_not_say_what_it_has_not_tried(s3_server: Any) -> None:
    bucket = s3_server.bucket()
    row = "Conditional delete  "
    assert f"{row}not tried; without it" in run("doctor", ["{x}"], bucket.url, bucket.storage_options).stdout
    assert f"{row}holds" in run("doctor", ["{x}", "--write"], bucket.url, bucket.storage_options).stdout


def test_doctor_notices_storage_that_ignores_conditions(data_bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(tegula.store_of(data_bucket.url, storage_options=data_bucket.storage_options))
    obeying = kind.set

    def ignoring(self: Any, key: str, value: Any, *, if_generation: Any = None) -> Any:
        return obeying(self, key, value)

    monkeypatch.setattr(kind, "set", ignoring)
    text = run("doctor", ["{x}", "--write"], data_bucket.url, data_bucket.storage_options).stdout
    assert "does not hold for creating a value: the storage ignores conditions" in text
    assert "one process at a time may write" in text


def test_doctor_of_what_is_not_reached(data_bucket: Any) -> None:
    result = run(
        "doctor", ["{x}"], data_bucket.url, {**data_bucket.storage_options, "allow_http": "false", "retries": "0"}
    )
    assert result.exit_code == 1
    rows = dict(line.split("  ", 1) for line in result.stdout.splitlines())
    assert "can't read" in rows["Reading"]
    assert "can't list" in rows["Listing"]
    assert "Writers" not in rows


def rows_of(url: str, options: dict[str, Any], *more: str) -> dict[str, str]:
    """Return what `tegula doctor` says of storage that can't be read, and check the rest of the contract."""
    begin = time.monotonic()
    result = CliRunner().invoke(app, ["doctor", url, *more, *words({**options, "retries": 1})])
    assert (result.exit_code, result.stderr) == (1, "")
    assert time.monotonic() - begin < 60
    assert str(options["secret_access_key"]) not in result.stdout
    actual = dict(line.split("  ", 1) for line in result.stdout.splitlines())
    assert "Writers" not in actual
    return {title: text.strip() for title, text in actual.items()}


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--write"]])
def test_doctor_of_a_bucket_that_does_not_exist(s3_server: Server, more: list[str]) -> None:
    rows = rows_of("s3://no-such-bucket/x", s3_server.bucket().storage_options, *more)
    for title in ("Reading", "Listing", "Holds", *(["Writing"] if more else [])):
        assert "there is no such bucket; create it first, or check its name" in rows[title]
    assert rows["Latency"] == "unknown"


@pytest.mark.slow
def test_doctor_with_wrong_credentials(rclone_server: Server) -> None:
    bucket = rclone_server.bucket()
    rows = rows_of(bucket.url, {**bucket.storage_options, "secret_access_key": "not-the-right-one"})
    for title in ("Reading", "Listing", "Holds"):
        assert "403 Forbidden" in rows[title]
        assert "credentials" in rows[title]
    assert rows["Credentials"].startswith("access_key_id, secret_access_key")


@pytest.mark.slow
def test_doctor_of_an_endpoint_that_is_not_reached(s3_server: Server) -> None:
    options = s3_server.bucket().storage_options
    rows = rows_of("s3://bucket", {**options, "endpoint": "http://127.0.0.1:9"})
    assert "the connection was refused" in rows["Reading"]
    rows = rows_of("s3://bucket", {**options, "endpoint": "http://no-such-host.invalid"})
    assert "the name of the server can't be resolved" in rows["Reading"]


def test_doctor_of_a_local_path(tmp_path: Path) -> None:
    for name in ("x.zarr", "x.zip"):
        tegula.save(tmp_path / name, [1, 2])
        result = CliRunner().invoke(app, ["doctor", str(tmp_path / name)])
        assert (result.exit_code, result.stderr) == (0, "")
        assert "array of the format zarr3" in result.stdout
    result = CliRunner().invoke(app, ["doctor", str(tmp_path / "x.zarr"), "--write"])
    assert "any number of processes may write at the same time" in result.stdout
    assert tegula.check(tmp_path / "x.zarr").ok
    result = CliRunner().invoke(app, ["doctor", str(tmp_path / "x.zip"), "--write"])
    assert "one process at a time may write" in result.stdout
    assert tegula.check(tmp_path / "x.zip").ok


def test_doctor_creates_nothing_that_stays(tmp_path: Path) -> None:
    for target in (f"{tmp_path}/new", f"{tmp_path}/new/below/it", f"{tmp_path.as_uri()}/new"):
        result = CliRunner().invoke(app, ["doctor", target, "--write"])
        assert (result.exit_code, result.stderr) == (0, "")
        assert "holds" in result.stdout
    result = CliRunner().invoke(app, ["doctor", str(tmp_path / "new.zip"), "--write"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no zip archive" in result.stderr
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("target", ["nosuch", "nosuch.zarr", "nosuch.zip", "no/such", "nosuch::x"])
def test_doctor_of_a_path_where_nothing_is(tmp_path: Path, target: str) -> None:
    for path in (f"{tmp_path}/{target}", f"{tmp_path.as_uri()}/{target}"):
        result = CliRunner().invoke(app, ["doctor", path])
        assert (result.exit_code, result.stdout) == (1, "")
        assert "nothing exists at this path" in result.stderr
        assert "nosuch" in result.stderr or "no/such" in result.stderr


def test_doctor_of_a_member_that_can_not_be_opened(tmp_path: Path) -> None:
    tegula.save(tmp_path / "x.zarr", a=[1], b=[2])
    (tmp_path / "x.zarr/b/zarr.json").write_text("{")
    for member, code, text in (("a", 0, "array of"), ("b", 1, "JSON"), ("c", 1, "there is no array or group")):
        result = CliRunner().invoke(app, ["doctor", f"{tmp_path}/x.zarr::{member}"])
        assert (result.exit_code, result.stderr) == (code, "")
        assert text in result.stdout
        facts = json.loads(CliRunner().invoke(app, ["doctor", f"{tmp_path}/x.zarr::{member}", "--json"]).stdout)
        assert facts["node_opened"] == (code == 0)


# --- completion


class _Context:
    def __init__(self, **params: Any) -> None:
        self.params = params


def test_members_in_a_bucket(data_bucket: Any) -> None:
    arguments = [Setting(*each) for each in data_bucket.storage_options.items()]
    url = f"{data_bucket.url}/g.zarr"
    assert complete_target(f"{url}::", _Context(storage_option=arguments)) == [f"{url}::y"]
    assert complete_target(f"{url}::q", _Context(storage_option=arguments)) == []
    assert complete_target("s3://buck") == []


def test_completion_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = import_module("threading").Event()
    monkeypatch.setattr(completion, "_PATIENCE", 0.05)
    monkeypatch.setattr(completion, "_members", lambda *_: [] if stop.wait(20) else ["late"])
    assert complete_target("https://host/x.zarr::a") == []
    stop.set()


def test_completion_through_the_script(data_bucket: Any) -> None:
    env = {"_TEGULA_COMPLETE": "complete_zsh"}
    url = f"{data_bucket.url}/g.zarr"
    typed = " ".join(["tegula", "info", *words(data_bucket.storage_options), f"{url}::"])
    result = import_module("subprocess").run(
        [sys.executable, "-m", "tegula"], env={**import_module("os").environ, **env, "_TYPER_COMPLETE_ARGS": typed},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "::y" in result.stdout.replace("\\", ""), result.stderr


# --- other URLs


def test_an_archive_in_a_bucket(data_bucket: Any, tmp_path: Path) -> None:
    tegula.save(tmp_path / "x.zip", depth=np.arange(3))
    tegula.store_of(data_bucket.url, storage_options=data_bucket.storage_options).set(
        "x.zip", (tmp_path / "x.zip").read_bytes()
    )
    for name, arguments in (
        ("info", ["::depth"]), ("cat", ["::depth[1:]"]), ("ls", [""]), ("doctor", [""]), ("check", [""]),
        ("stats", [""]),
    ):  # fmt: skip
        for url in (f"{data_bucket.url}/x.zip", f"zip::{data_bucket.url}/x.zip"):
            result = CliRunner().invoke(app, [name, f"{url}{arguments[0]}", *words(data_bucket.storage_options)])
            assert (result.exit_code, result.stderr) == (0, ""), (name, url, result.stdout)
    url = f"{data_bucket.url}/x.zip::depth"
    assert complete_target(url[:-3], _Context(storage_option=[*data_bucket.storage_options.items()])) == [url]


def test_a_web_server(http_server: Any) -> None:
    bucket = http_server.bucket()
    tegula.save(http_server.directory(bucket) / "x.zarr", np.arange(3))
    url = f"{bucket.url}/x.zarr"
    result = CliRunner().invoke(app, ["cat", url, "--storage-option", "timeout=20"])
    assert result.stdout.split() == ["0", "1", "2"]
    for more in ([], ["--write"]):
        result = CliRunner().invoke(app, ["doctor", url, *more])
        assert result.exit_code == 0
        rows = dict(line.split("  ", 1) for line in result.stdout.splitlines())
        assert "can't be listed" in rows["Listing"]
        assert rows["Holds"].strip() == "array of the format zarr3"
        assert rows["Writing"].strip() == "the store is read-only"


def test_members_on_a_web_server_are_those_of_the_consolidated_metadata(http_server: Any) -> None:
    bucket = http_server.bucket()
    directory = http_server.directory(bucket)
    tegula.save(directory / "g.zarr", x=np.arange(3), y=np.ones((2, 2)))
    for name in ("info", "ls", "tree"):
        result = CliRunner().invoke(app, [name, f"{bucket.url}/g.zarr"])
        assert result.exit_code == 1
        assert "the group has no consolidated metadata that name its members" in result.stderr
    tegula.open_group(directory / "g.zarr", "r+").consolidate()
    assert CliRunner().invoke(app, ["ls", f"{bucket.url}/g.zarr"]).stdout.split() == ["x", "y"]
    for name, *more in (["ls", "-r"], ["ls", "--json"], ["tree"], ["tree", "--json"]):
        remote, local = (
            CliRunner().invoke(app, [name, *more, str(path)]) for path in (f"{bucket.url}/g.zarr", directory / "g.zarr")
        )
        assert (remote.exit_code, remote.stdout) == (0, local.stdout)
    rows = CliRunner().invoke(app, ["ls", "-l", f"{bucket.url}/g.zarr"]).stdout.splitlines()[1:]
    assert [row.split()[-2:] for row in rows] == [["-", "x"], ["-", "y"]]  # sizes would take a request for each chunk
    text = CliRunner().invoke(app, ["info", f"{bucket.url}/g.zarr"]).stdout
    assert "In all          2 arrays\n" in text
    assert "Size stored     unknown: the store can't be listed" in text
    totals = json.loads(CliRunner().invoke(app, ["info", "--json", f"{bucket.url}/g.zarr"]).stdout)["totals"]
    assert (totals["arrays"], totals["nbytes"], totals["nbytes_stored"], totals["ratio"]) == (2, 56, None, None)


def test_a_file_system_of_fsspec() -> None:
    result = CliRunner().invoke(app, ["doctor", "memory://examined", "--write"])
    assert result.exit_code == 0
    assert "through fsspec" in result.stdout
    assert "one process at a time may write" in result.stdout
