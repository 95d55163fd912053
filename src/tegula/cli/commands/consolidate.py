"""``tegula consolidate``."""

from __future__ import annotations

from typing import Annotated

from tegula.arrays.array import Array
from tegula.cli.reporting import AsJson, QuietButJson, print_json, print_line
from tegula.cli.targets import StorageOptions, open_target, target_argument
from tegula.errors import UnsupportedError
from tegula.hierarchy.group import Group
from tegula.runtime.quantities import counted
from tegula.stores.secrets import redacted

__all__ = ["consolidate"]


def consolidate(
    target: Annotated[str, target_argument("PATH", "The group.")],
    as_json: AsJson = False,
    quiet: QuietButJson = False,
    storage_option: StorageOptions = None,
) -> None:
    """Write the metadata of all members of a group into one document.

    Readers that use consolidated metadata then need one request for all of it. It is a copy: consolidate again
    after members, shapes or attributes have changed.
    """
    # only metadata is read: nothing is unpickled
    with open_target(target, "r+", storage_option, allow_pickle=True) as node:
        if not isinstance(node, Group):
            kind = "an array" if isinstance(node, Array) else "a table"
            raise UnsupportedError(f"only a group has consolidated metadata, and this is {kind}", path=target)
        node.consolidate()
        members = 0 if quiet and not as_json else sum(1 for _ in node.walk({}))
        if as_json:
            print_json({"group": redacted(target), "members": members})
        elif not quiet:
            print_line(f"{redacted(target)}: metadata of {counted(members, 'member')} consolidated")
