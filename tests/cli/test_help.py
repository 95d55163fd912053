"""The help of every command names only options that the command has."""

import re
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
