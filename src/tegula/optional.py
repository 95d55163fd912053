"""Packages that need not be there, and how to get them; tegula itself, too.

All messages about a package that is not installed, or can't be imported, are worded here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from tegula.errors import UnsupportedError

__all__ = ["RELEASED", "how_to_install", "import_failure", "library", "tegula_command", "why_not"]

RELEASED: Final = False
"""Whether the package index has tegula. A release sets it; until then tegula is installed from a clone."""

_REQUIREMENTS: Final = {
    "dask": "'dask[array]>=2024.8'",
    "google_crc32c": "google-crc32c",
    "zfpy": "'zfpy>=1.0.1,!=1.0.1.post0'",  # numcodecs can't read the version 1.0.1.post0, and fails as a whole
    "pcodec": "'pcodec>=0.3,<0.4'",
    "tables": "tables",
}
"""What to ask pip for, where that is not the name of the module; as in the extras of pyproject.toml."""


@cache
def library(name: str) -> ModuleType:
    """Import a package, or a module of one, when it is first needed.

    Parameters
    ----------
    name : str
        Of the module, in full.

    Raises
    ------
    UnsupportedError
        If it can't be imported; names the package, what went wrong, and what to do.

    Examples
    --------
    >>> library("json.decoder").__name__
    'json.decoder'
    >>> library("no_such_package")
    Traceback (most recent call last):
    tegula.errors.UnsupportedError: the package no_such_package is not installed: python -m pip install no_such_package
    """
    try:
        return import_module(name)
    except Exception as error:  # a module may raise anything while it is imported
        raise UnsupportedError(why_not(name.partition(".")[0], error)) from error


def import_failure(name: str) -> str | None:
    """Return why a module can't be imported, and what to do; ``None`` if it can.

    Examples
    --------
    >>> import_failure("json")
    """
    try:
        library(name)
    except UnsupportedError as error:
        return error.message
    return None


def why_not(package: str, error: Exception) -> str:
    """Word what kept a package from being imported, and what to do about it.

    Examples
    --------
    >>> why_not("pandas", RuntimeError("not with this NumPy"))
    "the package pandas can't be imported: RuntimeError: not with this NumPy; python -m pip install --upgrade pandas"
    """
    if isinstance(error, ModuleNotFoundError) and error.name == package:
        return f"the package {package} is not installed: {how_to_install(package)}"
    text = f"the package {package} can't be imported: {type(error).__name__}: {error}"
    culprit = _culprit(package, error)
    if culprit is None:
        return f"{text}; {how_to_install(package, '--upgrade')}"
    name, version = culprit
    advice = how_to_install(name, "--upgrade") if name in _REQUIREMENTS else f"install another version of {name}"
    return f"{text}. The cause seems to be {name} {version}: {advice}, or python -m pip uninstall {name}"


def _culprit(package: str, error: Exception) -> tuple[str, str] | None:
    """Return name and version of the package that another one failed on while importing it, if that can be told.

    What a package does with an optional one is usually in a module of the same name: numcodecs fails in
    ``numcodecs.zfpy``.
    """
    metadata = import_module("importlib.metadata")
    found = None
    trace = error.__traceback__
    while trace is not None:
        top, _, last = str(trace.tb_frame.f_globals.get("__name__")).rpartition(".")
        if top.partition(".")[0] == package and last != package:
            try:
                found = last, str(metadata.version(last))
            except metadata.PackageNotFoundError:
                found = None
        trace = trace.tb_next
    return found


def how_to_install(package: str, *options: str) -> str:
    """Return the command that installs a package.

    Examples
    --------
    >>> how_to_install("google_crc32c", "--upgrade")
    'python -m pip install --upgrade google-crc32c'
    """
    return " ".join(["python -m pip install", *options, _REQUIREMENTS.get(package, package)])


def tegula_command(extra: str = "", *options: str) -> str:
    """Return the command that installs tegula, with an extra if there is one.

    Examples
    --------
    >>> tegula_command("cli").startswith("python -m pip install '")
    True
    """
    name = "tegula" if RELEASED else "."
    wanted = f"'{name}[{extra}]'" if extra else name
    command = " ".join(["python -m pip install", *options, wanted])
    return command if RELEASED else f"{command} in a clone of the repository"
