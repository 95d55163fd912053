"""The command line program ``tegula``.

Data goes to standard output, everything else to standard error. The exit code is 0 if all went well, 1 if something
failed, which is said in one line, and 2 if the command was not understood.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module

from tegula.optional import tegula_command

__all__ = ["main"]

_EXTRA = ("typer", "rich", "click")


def main() -> int:
    """Run the program with the arguments of the process.

    Returns
    -------
    int
        1 if the packages of the extra ``cli`` are missing; otherwise the program ends the process itself.
    """
    try:
        program = import_module("tegula.cli.program")  # only now, so that importing tegula.cli needs no extra
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        print(f"tegula: error: the package {missing} is not installed: {tegula_command('cli')}", file=sys.stderr)
        return 1
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # what replaces a stream need not have it
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    # in one line, as errors are, and without the place in the code
    warnings.showwarning = lambda message, *_, **__: print(f"tegula: warning: {message}", file=sys.stderr)
    program.app(prog_name="tegula")
    return 0
