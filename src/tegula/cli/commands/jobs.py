"""``tegula jobs``: jobs that are under way or were interrupted."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tegula.cli.help import Command, Commands
from tegula.cli.reporting import AsJson, QuietButJson, print_json, print_line
from tegula.cli.targets import StorageOptions, split_target, target_argument
from tegula.jobs.managing import clean_job, list_jobs, show_job

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="List, show and remove jobs that are under way or were interrupted.",
)
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
_Where = Annotated[str, target_argument("TARGET", "The target of the job: PATH, or PATH::INNER.")]


@app.command("list", cls=Command, context_settings=_SETTINGS)
def list_(
    target: Annotated[str, target_argument("PATH", "Where to search, at any depth: PATH, or PATH::INNER.")],
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """List the jobs in a store."""
    store, inner = split_target(target)
    states = list_jobs(store, inner, storage_options=dict(storage_option or ()))
    if as_json:
        print_json([state.as_dict() for state in states])
        return
    for state in states:
        done = f"{state.units_done} of {state.units} units"
        print_line(f"/{state.path}: {state.state}, {state.operation} of {state.source}, {done} done")
    if not states:
        typer.echo("no job is under way or was interrupted there")


@app.command("show", cls=Command, context_settings=_SETTINGS)
def show(target: _Where, as_json: AsJson = False, storage_option: StorageOptions = None) -> None:
    """Show the progress of a job, and which processes work on it."""
    store, inner = split_target(target)
    state = show_job(store, inner, storage_options=dict(storage_option or ()))
    if as_json:
        print_json(state.as_dict())
    else:
        typer.echo(str(state))


@app.command("clean", cls=Command, context_settings=_SETTINGS)
def clean(
    target: _Where,
    force: Annotated[
        bool,
        typer.Option("--force", help="Remove it even if a process seems to work on it, for example after a crash."),
    ] = False,
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Delete everything that an interrupted job has written, and its ledger."""
    store, inner = split_target(target)
    state = clean_job(store, inner, force=force, storage_options=dict(storage_option or ()))
    if as_json:
        print_json(state.as_dict())
    elif not quiet:
        print_line(f"removed: {state.operation} of {state.source} to {state.target}")
