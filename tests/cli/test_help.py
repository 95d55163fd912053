"""The help of every command names only options that the command has."""

import re
import shlex
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from tegula.cli.program import _COMMANDS, _command, app


def _commands() -> Iterator[list[str]]:
    for name in _COMMANDS:
        command = _command(name)
        subcommands = getattr(command, "commands", None)
        yield from ([name, sub] for sub in subcommands) if subcommands else [[name]]


@pytest.mark.parametrize("words", [*_commands()], ids=" ".join)
def test_help_names_only_options_that_exist(words: list[str]) -> None:
    """Options that the texts mention belong to the command."""
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    lines = re.findall(r"^ +((?:-\w, )?--[a-z-]+(?:(?:, | / )--[a-z-]+)*)", shown.output, re.MULTILINE)
    known = {name for line in lines for name in re.findall(r"--[a-z-]+", line)}
    assert set(re.findall(r"--[a-z][a-z-]*[a-z]", shown.output)) <= known


def test_groups_of_commands_offer_completion_only_at_the_top() -> None:
    """`tegula attrs --install-completion` would install it for a program that does not exist."""
    for name in ("attrs", "jobs"):
        shown = CliRunner().invoke(app, [name, "--help"])
        assert "--install-completion" not in shown.output
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).output


@pytest.mark.parametrize("words", [[], ["attrs"], ["jobs"], *_commands()], ids=" ".join)
def test_help_has_a_plain_usage_fits_80_columns_and_ends_with_two_examples(words: list[str]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], prog_name="tegula").output
    usage, _, others = shown.partition("\n")
    assert not re.search(r"[{}]|\[\[", usage)
    assert not re.search(r"\w\.\.\.\n|<(str|int|float)\b", others)  # nothing is cut, no type of Python named
    assert max(map(len, shown.splitlines())) <= 80
    *_, examples = shown.split("Examples:\n")
    lines = [shlex.split(line) for line in examples.splitlines()]
    assert len(lines) == 2
    for tegula, *example in lines:
        assert (tegula, example[: len(words)]) == ("tegula", words)
        command = _command(example[0])
        rest = example[1:]
        if (words != [] and hasattr(command, "commands")) or (rest and rest[0] in getattr(command, "commands", {})):
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context(example[0], rest)  # raises an error for a wrong option, value or number of arguments


def test_many_options_are_in_groups() -> None:
    shown = CliRunner().invoke(app, ["convert", "--help"]).output
    titles = re.findall(r"^(\w[\w ]+):$", shown, re.MULTILINE)
    assert titles == [
        "Arguments", "Options", "Format and encoding", "How the work is done", "Access", "Output", "Examples",
    ]  # fmt: skip
    assert "Access:" not in CliRunner().invoke(app, ["info", "--help"]).output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["era.zarr"], "No such command 'era.zarr': a command comes first, as in: tegula info era.zarr"),
        (["attrs", "era.zarr"], "No such command 'era.zarr': a command comes first, as in: tegula attrs get era.zarr"),
        (["jobs", "."], "No such command '.': a command comes first, as in: tegula jobs list ."),
        (["inof", "era.zarr"], "No such command 'inof'. Did you mean 'info'?"),
        (["attrs", "gte", "era.zarr"], "No such command 'gte'. Did you mean 'get'"),
    ],
)
def test_a_word_in_place_of_a_command_is_answered_with_what_goes_there(words: list[str], says: str) -> None:
    assert says in CliRunner().invoke(app, words).stderr
