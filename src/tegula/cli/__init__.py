"""The command line program ``tegula``.

Data is written to standard output, messages to standard error. The exit code is 0 on success, 1 after an error, which
is reported in one line, and 2 if the command line is not valid.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module

from tegula.runtime.optional import tegula_command

__all__ = ["main"]

_EXTRA = ("typer", "rich", "click")


def main() -> int:
    """Run the program with the arguments of the process.

    Returns
    -------
    int
        1 if the packages of the extra ``cli`` are missing, 130 if Ctrl-C comes before the program has been imported;
        otherwise typer ends the process.
    """
    try:
        program = import_module("tegula.cli.program")  # imported here, so that importing tegula.cli needs no extra
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        print(f"tegula: error: the package {missing} is not installed: {tegula_command('cli')}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    # a service may start the program without standard streams
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the number that is free, so that no other file gets it
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - stays open
    # escape names that the terminal's encoding can't represent
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # a replaced stream may lack it
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    # warnings are one line, as errors are, without the line of code
    warnings.showwarning = lambda message, *_, **__: print(f"tegula: warning: {message}", file=sys.stderr)
    if "_TEGULA_COMPLETE" in os.environ:
        import_module("tegula.cli.completion").join_words(os.environ)
    program.app(prog_name="tegula")
    return 0
