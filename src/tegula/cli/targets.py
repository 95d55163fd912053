"""Targets on the command line: path or URL of a store, or ``PATH::inner/path`` of a node inside it."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from tegula.arrays.array import Array
from tegula.cli.completion import complete_target
from tegula.cli.help import ACCESS
from tegula.cli.values import parse_value
from tegula.errors import NotFoundError, UnsupportedError
from tegula.hierarchy.group import Group
from tegula.hierarchy.opening import open_stored as open_node
from tegula.runtime.deferred import Later
from tegula.stores.targets.opening import options_of_both
from tegula.stores.targets.paths import address_of
from tegula.tables.table import Table

if TYPE_CHECKING:
    from tegula.display import tree
else:
    tree = Later("tegula.display.tree")

__all__ = [
    "Node",
    "Setting",
    "StorageOptions",
    "Target",
    "TargetStorageOptions",
    "needs_array",
    "open_target",
    "options_of_second",
    "parse_setting",
    "setting_option",
    "split_target",
    "target_argument",
]

Node = Array | Group | Table


def target_argument(metavar: str, help: str) -> Any:
    """Return a positional argument that names a node and is completed by the Tab key."""
    return typer.Argument(metavar=metavar, show_default=False, help=help, autocompletion=complete_target)


Target = Annotated[str, target_argument("PATH", "The array, table or group.")]


class Setting(NamedTuple):
    """A storage option of the command line."""

    name: str
    value: Any


def parse_setting(text: str) -> Setting:
    """Parse ``KEY=VALUE``, where the value is JSON or else text.

    Raises
    ------
    typer.BadParameter
        If it has no key or no ``=``. The message does not show the text, which may hold a secret.

    Examples
    --------
    >>> parse_setting("region=eu-central-1"), parse_setting("skip_signature=true")
    (Setting(name='region', value='eu-central-1'), Setting(name='skip_signature', value=True))
    """
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter("each must be KEY=VALUE")
    return Setting(name, parse_value(value))


def setting_option(name: str, help: str) -> Any:
    """Return an option for settings of the storage that a URL names; it may be given several times."""
    return typer.Option(
        name, metavar="KEY=VALUE", show_default=False, help=help, parser=parse_setting, rich_help_panel=ACCESS
    )


StorageOptions = Annotated[
    list[Setting] | None,
    setting_option(
        "--storage-option",
        "A setting of the storage that a URL names, such as region=eu-central-1; repeat it for more. A VALUE is read "
        "as JSON, else as text.",
    ),
]
TargetStorageOptions = Annotated[
    list[Setting] | None,
    setting_option(
        "--target-storage-option", "A setting of the storage of TARGET. [default: as for SOURCE in the same bucket]"
    ),
]


def split_target(target: str) -> tuple[str, str]:
    """Split a target into the path of a store and the path of a node inside it.

    See `tegula.stores.targets.paths.address_of`.

    Raises
    ------
    typer.BadParameter
        If the target looks like an option.

    Examples
    --------
    >>> split_target("x.zip::era/t"), split_target("file:///x.zarr")
    (('x.zip', 'era/t'), ('file:///x.zarr', ''))
    """
    if target.startswith("--") and not os.path.lexists(target):
        raise typer.BadParameter(f"no such option: {target}")
    return address_of(target, "")[:2]


@contextmanager
def open_target(
    target: str,
    mode: Literal["r", "r+"],
    settings: Sequence[Setting] | Mapping[str, Any] | None,
    *,
    selects: bool | None = False,
    **options: Any,
) -> Iterator[Node]:
    """Open the node that a target names; its store is closed when the ``with`` block ends.

    Parameters
    ----------
    target : str
        The target, as on the command line.
    mode : {"r", "r+"}
        Open for reading, or for reading and writing.
    settings : sequence of Setting, mapping or None
        The storage options.
    selects : bool
        Whether the command takes a selection at the end of its target; ``None`` if it has one already.
    **options
        Passed to `tegula.open`.
    """
    split_target(target)
    try:
        node = open_node(target, mode, storage_options=dict(settings or ()), **options)
    except NotFoundError as error:
        import_module("tegula.cli.unfinished").warn_of_jobs_at(target, dict(settings or ()))
        if "[" in target and selects is False:
            error.message += "; selections are taken by tegula cat and tegula plot"
        elif selects and "[" in target and "]" not in target[target.rfind("[") :]:
            error.message += "; the ']' that ends the selection is missing"
        raise
    with node.store:
        yield node


def needs_array(group: Group, target: str, command: str) -> UnsupportedError:
    """Return the error of a command that needs an array and got a group, after printing the members of the group."""
    typer.echo(str(tree.group_tree(group, 1)), err=True)
    arrays = [name for name, node in group.members({}) if isinstance(node, Array)]
    if not arrays:
        return UnsupportedError("this is a group, and none of its members is an array", path=target)
    example = next(filter(str.isprintable, arrays), None)
    if example is None or not target.isprintable():  # an example could not be run as it is printed
        return UnsupportedError("this is a group; name one of its arrays", path=target)
    outer, inner = split_target(target)
    name = shlex.quote(f"{outer}::{inner}/{example}" if inner else f"{outer}::{example}")
    return UnsupportedError(f"this is a group; name one of its arrays, as in: tegula {command} {name}", path=target)


def options_of_second(
    first: str,
    second: str,
    settings: Sequence[Setting] | None,
    second_settings: Sequence[Setting] | None,
    field: str = "target_storage_options",
) -> Mapping[str, Any] | None:
    """Return the storage options of the second of two targets; by default those of the first in the same bucket."""
    second_options = None if second_settings is None else dict(second_settings)
    return options_of_both(split_target(first)[0], split_target(second)[0], dict(settings or ()), second_options, field)
