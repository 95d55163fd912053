"""Import of optional packages, and messages that say how to install them and tegula itself.

Every message about a package that is not installed or can't be imported comes from this module.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from tegula.errors import UnsupportedError

__all__ = [
    "HOW_TO_BUILD",
    "RELEASED",
    "failure_message",
    "how_to_install",
    "import_failure",
    "library",
    "tegula_command",
]

RELEASED: Final = False
"""Whether the package index has tegula; set by a release. Until then tegula is installed from a clone."""

_REQUIREMENTS: Final = {
    "dask": "'dask[array]>=2024.8'",
    "google_crc32c": "google-crc32c",
    "zfpy": "'zfpy>=1.0.1,!=1.0.1.post0'",  # numcodecs can't read the version 1.0.1.post0, and fails as a whole
    "pcodec": "'pcodec>=0.3,<0.4'",
    "fsspec": "'fsspec>=2024.6'",
    "obstore": "'obstore>=0.12'",
    "matplotlib": "'matplotlib>=3.8'",
    "httptools": "'httptools>=0.6.3'",
    "starlette": "'starlette>=0.45'",
    "uvicorn": "'uvicorn>=0.34'",
    "tables": "tables",
    "zarr": "'zarr>=3.1'",
}
"""Requirements to pass to pip, if they differ from the module's name; the same as in the extras of pyproject.toml."""


@cache
def library(name: str) -> ModuleType:
    """Import an optional package, or one of its modules, on first use.

    Parameters
    ----------
    name : str
        Full name of the module.

    Returns
    -------
    module
        The module, cached.

    Raises
    ------
    UnsupportedError
        If the module can't be imported; names the package, the cause and the command that installs it.

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
        raise UnsupportedError(failure_message(name.partition(".")[0], error)) from error


def import_failure(name: str) -> str | None:
    """Return why a module can't be imported and how to install it, or ``None`` if it can be imported.

    Examples
    --------
    >>> import_failure("json")
    """
    try:
        library(name)
    except UnsupportedError as error:
        return error.message
    return None


def failure_message(package: str, error: Exception) -> str:
    """Describe why the import of a package failed, and how to fix it.

    Examples
    --------
    >>> failure_message("pandas", RuntimeError("not with this NumPy"))
    "the package pandas can't be imported: RuntimeError: not with this NumPy; python -m pip install --upgrade pandas"
    """
    if isinstance(error, ModuleNotFoundError):
        missing = str(error.name)
        if missing == package or (package == "tegula" and (missing := missing.partition(".")[0]) != package):
            return f"the package {missing} is not installed: {how_to_install(missing)}"
    text = f"the package {package} can't be imported: {type(error).__name__}: {error}"
    culprit = _culprit(package, error)
    if culprit is None:
        return f"{text}; {how_to_install(package, '--upgrade')}"
    name, version = culprit
    advice = how_to_install(name, "--upgrade") if name in _REQUIREMENTS else f"install another version of {name}"
    return f"{text}. The cause seems to be {name} {version}: {advice}, or python -m pip uninstall {name}"


def _culprit(package: str, error: Exception) -> tuple[str, str] | None:
    """Return name and version of the dependency that made the import of `package` fail, or ``None`` if unknown.

    A package usually wraps a dependency in a module of the same name: numcodecs fails in ``numcodecs.zfpy``. So the
    innermost module of the package in the traceback names the cause, if a distribution of that name is installed.
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
    """Return the command that installs tegula, with an extra if one is given.

    Examples
    --------
    >>> tegula_command("cli").startswith("python -m pip install '")
    True
    """
    name = "tegula" if RELEASED else "."
    wanted = f"'{name}[{extra}]'" if extra else name
    command = " ".join(["python -m pip install", *options, wanted])
    return command if RELEASED else f"{command} in a clone of the repository"


HOW_TO_BUILD: Final = (
    f"install a Rust toolchain and tegula again: {tegula_command('', '--force-reinstall', '--no-cache-dir')}"
)
"""Advice if the kernel was not built."""
