"""The help of commands: usage, options in groups, and examples."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

from tegula.cli.examples import EXAMPLES

__all__ = ["ACCESS", "ENCODING", "OUTPUT", "WORK", "Command", "Commands"]

ENCODING: Final = "Format and encoding"
WORK: Final = "How the work is done"
ACCESS: Final = "Access"
OUTPUT: Final = "Output"
_FEW: Final = 12  # options of a command that are listed together


class _Helpful:
    """The parts of the help that single commands and groups of commands have in common."""

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help, which the inherited method would cut."""
        sentence: str = super().get_short_help_str(10_000)  # type: ignore[misc]
        return sentence

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, of which most need no check."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            checked = getattr(parameter, "get_runtime_param", None)  # versions of typer before 0.26 need no pydantic
            if checked is not None and not isinstance(checked, partial):
                parameter.get_runtime_param = partial(_Unchecked, parameter, checked)
        return parameters

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        with formatter.section("Examples"):
            for example in EXAMPLES[ctx.command_path.partition(" ")[2]]:
                formatter.write(f"  {example}\n")


class _Unchecked:
    """A check of a parameter that leaves to typer only what is not of the right type already.

    For these checks typer imports pydantic, which takes as long as everything that a small command does.
    """

    def __init__(self, parameter: Any, checked: Callable[[], Any]) -> None:
        self._parameter, self._checked = parameter, checked

    def coerce(self, value: Any, **options: Any) -> Any:
        """Return the value of the parameter, as the function expects it."""
        kind, several = self._parameter.type_descriptor, self._parameter.multiple or self._parameter.nargs == -1
        parser = kind.parameter_info.parser
        if value is None:
            return () if several else None
        if parser is not None:
            return [*map(parser, value)] if several else parser(value)
        if type(value) is kind.annotation and not kind.is_ranged:
            return value
        return self._checked().coerce(value, **options)


class Command(_Helpful, TyperCommand):
    """A command whose help has its arguments, its options in groups, and examples."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage: optional arguments are in brackets."""
        pieces = ["[OPTIONS]"]
        for parameter in _arguments(self, ctx):
            name = parameter.metavar or parameter.name.upper()
            pieces.append((name if parameter.required else f"[{name}]") + ("..." if parameter.nargs == -1 else ""))
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options, in groups if there are many."""
        arguments = [(parameter.metavar, parameter.help or "") for parameter in _arguments(self, ctx)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        options: list[Any] = [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "option"]
        groups: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", ENCODING, WORK, ACCESS, OUTPUT)}
        for option in options:
            group = (option.rich_help_panel if len(options) > _FEW else None) or "Options"
            if (record := option.get_help_record(ctx)) is not None:
                groups[group].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Commands(_Helpful, TyperGroup):
    """A group of commands, whose help has the first sentence of each, and examples."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; an error for a word that resembles none, such as a path, says where the command goes."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and args[0][:1] != "-" and not get_close_matches(args[0], names):
            example = EXAMPLES[ctx.command_path.partition(" ")[2]][0]
            ctx.fail(f"No such command {args[0]!r}: a command comes first, as in: {example}")
        return super().resolve_command(ctx, args)


def _arguments(command: Any, ctx: Any) -> list[Any]:
    return [parameter for parameter in command.get_params(ctx) if parameter.param_type_name == "argument"]
