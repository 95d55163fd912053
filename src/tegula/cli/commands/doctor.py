"""``tegula doctor``: what is installed, what reads and writes chunks, and what can be done at a path or URL."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Final

import typer

from tegula import config
from tegula.cli.completion import complete_target
from tegula.cli.probing import examine, sentences
from tegula.cli.reporting import AsJson, print_json
from tegula.cli.running import is_archive
from tegula.cli.targets import StorageOptions, split_target
from tegula.codecs import known_codecs, runs_in_kernel
from tegula.display.layout import columns
from tegula.errors import UnsupportedError
from tegula.hierarchy.viewed import store_to_read
from tegula.runtime import executors
from tegula.runtime.optional import HOW_TO_BUILD, import_failure
from tegula.runtime.version import __version__
from tegula.stores import Store
from tegula.stores.targets.paths import is_missing, is_remote, local_path, refuse_missing

__all__ = ["doctor"]

_NEEDED: Final = ("numpy", "numcodecs", "ml_dtypes", "google-crc32c")
_OPTIONAL: Final = (
    "typer",
    "rich",
    "numexpr",
    "pandas",
    "pyarrow",
    "tables",
    "msgpack",
    "pcodec",
    "zfpy",
    "obstore",
    "fsspec",
)
_BUG: Final = """\
### What I did
(the smallest program or command that shows it, and where the data are: a directory, an archive, a bucket)

### What happened
(the whole output, or traceback)

### What I expected

### Where
```text
{report}
Set by            {settings}
```"""
_NAMES: Final = {"google-crc32c": "google_crc32c"}


def doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH",
            show_default=False,
            help="A URL or path to examine instead of the installation.",
            autocompletion=complete_target,
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Try to store, change and delete a value under a new name at PATH.")
    ] = False,
    report: Annotated[
        bool,
        typer.Option("--report", help="Print the text to paste into a report of a bug, without secrets."),
    ] = False,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Print what is installed and whether the compiled kernel is in use; or, with PATH, what can be done there.

    With PATH it prints the names of the credentials found, whether PATH can be read, listed and written, whether
    conditional writes work between processes, and how long a request takes. The exit code is 1 if PATH can't be read,
    does not exist on this machine, or names a node by :: that can't be opened.
    """
    if target is not None:
        _examine(target, dict(storage_option or ()), write, as_json)
        return
    facts = _facts()
    if as_json:
        print_json(facts)
    elif report:
        typer.echo(_BUG.format(report=_report(facts), settings=_settings_in_environment()))
    else:
        typer.echo(_report(facts))


def _settings_in_environment() -> str:
    """Return the names of tegula's environment variables that are set, without their values."""
    return ", ".join(sorted(name for name in os.environ if name.startswith("TEGULA_"))) or "none"


def _examine(target: str, options: dict[str, Any], write: bool, as_json: bool) -> None:
    path, inner = split_target(target)
    if not write:  # a path that does not exist yet may be tried
        refuse_missing(path)
    with _store(path, write, options) as store:
        facts = examine(store, path, inner, options, write=write)
    if as_json:
        print_json(facts)
    else:
        typer.echo(columns([*sentences(facts)]))
    if facts["reading"] is not None or (inner and not facts["node_opened"]):
        raise typer.Exit(1)


def _store(path: str, write: bool, options: dict[str, Any]) -> Store:
    """Open the store to examine, for writing where that changes nothing: a local archive would be created."""
    local = local_path(path)
    creates = local is not None and is_archive(local) and is_missing(local)
    try:
        return store_to_read(path, read_only=creates or not (write or is_remote(path)), storage_options=options)
    except UnsupportedError:  # an archive in a bucket can only be read
        return store_to_read(path, read_only=True, storage_options=options)


def _facts() -> dict[str, Any]:
    kernel = executors.kernel()
    has = frozenset(kernel.codecs()) if kernel is not None else None
    used, reason = _executor()
    return {
        "tegula": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _NEEDED},
        "optional_packages": {name: _version(name) for name in _OPTIONAL},
        "broken_packages": _broken(),
        "executor": {"setting": config.current().executor, "used": used, "reason": reason},
        "threads": config.current().threads,
        "kernel": None if kernel is None else _kernel_facts(kernel),
        "codecs": {
            name: "kernel" if used == "kernel" and has is not None and runs_in_kernel(name, has) else "reference"
            for name in known_codecs()
        },
    }


def _executor() -> tuple[str, str]:
    """Return the executor in use, and the reason for it."""
    setting, load_error = config.current().executor, executors.load_error()
    if setting == "reference":
        return "reference", "chosen by the setting executor"
    if load_error is None:
        return "kernel", "it is installed" if setting == "auto" else "chosen by the setting executor"
    return "reference", f"the kernel {load_error}; to build it, {HOW_TO_BUILD}"


def _kernel_facts(kernel: Any) -> dict[str, Any]:
    return {"version": kernel.__version__, "libraries": kernel.versions(), "processor_features": kernel.features()}


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _broken() -> dict[str, str]:
    """Return reason and remedy for each installed package that can't be imported, by name."""
    failures = {
        name: import_failure(_NAMES.get(name, name)) for name in (*_NEEDED, *_OPTIONAL) if _version(name) is not None
    }
    return {name: failure for name, failure in failures.items() if failure is not None}


def _report(facts: dict[str, Any]) -> str:
    executor, kernel = facts["executor"], facts["kernel"]
    optional = facts["optional_packages"]
    rows = [
        ("tegula", facts["tegula"]),
        ("Python", f"{facts['python']} on {facts['platform']}"),
        ("Packages", _listed(facts["packages"])),
        ("Optional", _listed({name: installed for name, installed in optional.items() if installed is not None})),
        ("Missing", ", ".join(name for name, installed in optional.items() if installed is None)),
        ("Executor", f"{executor['used']}: {executor['reason']}"),
        ("Threads", str(facts["threads"])),
    ]
    rows[5:5] = [("Broken", text) for text in facts["broken_packages"].values()]
    if kernel is not None:
        rows.append(("Kernel", f"{kernel['version']}, with {_listed(kernel['libraries'])}"))
        rows.append(("Processor", ", ".join(kernel["processor_features"])))
    for executor_name in ("kernel", "reference"):
        names = [name for name, where in facts["codecs"].items() if where == executor_name]
        rows.append((f"In the {executor_name}", ", ".join(names)))
    return columns([(title, text or "none") for title, text in rows])


def _listed(versions: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {'missing' if installed is None else installed}" for name, installed in versions.items())
