"""The base class of arrays, groups and tables: a path in a store, attributes, and whether it may be written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from tegula import engine
from tegula.arrays.keywords import known_keywords
from tegula.errors import ReadOnlyError
from tegula.runtime.deferred import Later

if TYPE_CHECKING:
    from tegula import display
    from tegula.arrays import foreign_names
    from tegula.arrays.attributes import Attributes
    from tegula.display import Info
    from tegula.runtime import optional
    from tegula.stores import Store
else:
    display, foreign_names = Later("tegula.display"), Later("tegula.arrays.foreign_names")
    optional = Later("tegula.runtime.optional")

__all__ = ["Node", "opened_by_name", "other_names"]

N = TypeVar("N", bound="Node")


class Node(ABC):
    """An array, group or table stored under a path.

    A node can be used in a ``with`` statement, which closes it at the end.

    Examples
    --------
    >>> import tegula
    >>> a = tegula.create_array({}, path="era/t", shape=2, dtype="u1")
    >>> isinstance(a, Node), a.kind, a.path, a.name, a.read_only
    (True, 'array', 'era/t', 't', False)
    """

    _path: str
    _read_only: bool
    kind: ClassVar[str]
    """What the node is: ``"array"``, ``"group"`` or ``"table"``."""
    owns_store = False  # whether the store was opened for this node, from a path or URL

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store that holds the node."""

    @property
    def path(self) -> str:
        """Path in the store; ``""`` at the root."""
        return self._path

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self._path.rpartition("/")[2]

    @property
    def info(self) -> Info:
        """A report on the node, including its stored size; shown as a table."""
        return display.node_info(self)

    @property
    def read_only(self) -> bool:
        """``True`` if writing raises `ReadOnlyError`."""
        return self._read_only

    @property
    @abstractmethod
    def missing_chunks(self) -> str | None:
        """What reads of chunks that are not stored give: ``"fill"``, ``"error"``, or ``None`` for the setting."""

    @missing_chunks.setter
    @abstractmethod
    def missing_chunks(self, value: str | None) -> None: ...

    @property
    @abstractmethod
    def attrs(self) -> Attributes:
        """The attributes, as a mapping; each change is stored at once."""

    def update_attributes(self: N, attributes: Mapping[str, Any]) -> N:
        """Set several attributes in one write, as ``attrs.update`` does, and return the node itself.

        Raises
        ------
        ReadOnlyError, MetadataError
            If the node can't be written, or a value can't be stored as JSON.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=2, dtype="u1").update_attributes({"units": "K", "scale": 2})
        >>> a.attrs.asdict()
        {'units': 'K', 'scale': 2}
        """
        self.attrs.update(attributes)
        return self

    @known_keywords
    def view(self, *, height: int = 640) -> Any:
        """Show the values, members and metadata of the node in a notebook, in a frame served by a background server.

        The server is one of `tegula.serve`, for programs on this machine, and is reached through jupyter-server-proxy
        where that is installed. It is read-only, and ends with the process. For a member it serves the groups above,
        too, since the coordinates of an array are beside it or there.

        Parameters
        ----------
        height : int
            Height of the frame in pixels.

        Returns
        -------
        View
            The object that the notebook displays. Its attribute ``url`` is the address of the page, ``server`` the
            server.

        Raises
        ------
        UnsupportedError
            If starlette or uvicorn are not installed.

        Examples
        --------
        >>> import tegula
        >>> a = tegula.create_array({}, shape=(4, 4), dtype="f4")
        >>> shown = a.view()
        >>> shown.url.startswith("http://127.0.0.1:")
        True
        >>> shown.server.close()
        """
        return optional.library("tegula.server.notebook").view(self, height)  # by name: it is on a higher floor

    def flush(self) -> None:
        """Wait for writes in the background, and flush the store.

        Only zip archives, and mappings with a ``flush`` method, buffer writes.

        Raises
        ------
        StoreError
            If the store can't be written; pending values are kept.

        Examples
        --------
        >>> import os, tempfile, tegula
        >>> folder = tempfile.TemporaryDirectory()
        >>> a = tegula.create_array(os.path.join(folder.name, "a.zip"), shape=3, dtype="u1")
        >>> a[:] = 7
        >>> a.flush()  # now every other process sees it
        >>> a.close()
        >>> folder.cleanup()
        """
        engine.wait_for(self.store)
        self.store.flush()

    def close(self) -> None:
        """Flush, and close the store if it was opened for this node; closing again does nothing.

        If the node was opened or created by the path of a zip archive or the URL of a bucket, the store is closed, and
        neither the node nor its members can be used afterwards. Closing a member of a group, a column of a table, or a
        node in a store that you made only flushes. Directories and mappings are not held open, so nodes in them can
        still be used.

        Raises
        ------
        StoreError
            If the store can't be written; it then stays open.

        Examples
        --------
        >>> import os, tempfile, tegula
        >>> folder = tempfile.TemporaryDirectory()
        >>> with tegula.create_group(os.path.join(folder.name, "g.zip")) as g:
        ...     g["x"] = [1, 2, 3]
        >>> g["x"]
        Traceback (most recent call last):
        ...
        tegula.errors.StoreError: the zip archive ...g.zip is closed; open it again ...
        >>> folder.cleanup()
        """
        if self.owns_store:
            engine.wait_for(self.store)
            self.store.close()
        else:
            self.flush()

    def _repr_html_(self) -> str:
        return display.node_html(self)

    def __enter__(self: N) -> N:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def location(self) -> str:
        """The URL of the node, for errors.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_array("memory:///located.zarr", path="era/t", shape=2, dtype="u1", overwrite=True).location
        'memory:///located.zarr/era/t'
        """
        return f"{self.store.url}/{self._path}" if self._path else self.store.url

    def check_writable(self) -> None:
        """Do nothing if the node can be written.

        Raises
        ------
        ReadOnlyError
            If the node was opened for reading.

        Examples
        --------
        >>> import tegula
        >>> tegula.create_array({}, shape=2, dtype="u1").check_writable()
        """
        if self._read_only:
            why = self.store.why_read_only or 'was opened for reading; open it with mode="r+"'
            raise ReadOnlyError(f"the {self.kind} {why}", path=self.location)


if not TYPE_CHECKING:  # hidden from type checkers

    def _missing(self, name):
        """Raise an error that names the equivalent of another library's attribute."""
        ours = foreign_names.ATTRIBUTES.get(name)
        hint = "" if ours is None else f"; in tegula that is {ours}"
        if not hint and hasattr(type(self), "__array__") and not name.startswith("_") and hasattr(np.ndarray, name):
            hint = f"; read the elements first, as in a[...].{name}"
        raise AttributeError(f"a tegula.{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)

    Node.__getattr__ = _missing


class _OtherName:
    """An attribute of a class of `foreign_names`, which is imported at the first use."""

    def __init__(self, home: str, name: str) -> None:
        self._home, self._name = home, name

    def __get__(self, node: Any, cls: type) -> Any:
        return vars(getattr(foreign_names, self._home))[self._name].__get__(node, cls)


def other_names(home: str, names: str) -> type:
    """Return a base class with the attributes of a class of `foreign_names`, given their names; `dir` leaves them out.

    Examples
    --------
    >>> import tegula
    >>> tegula.Array.read_direct.__name__, "read_direct" in dir(tegula.array([1]))
    ('read_direct', False)
    """

    def __dir__(self: object) -> list[str]:  # noqa: N807 - as Python calls it
        own = {name for cls in type(self).__mro__ if cls is not base for name in vars(cls)}
        return [name for name in object.__dir__(self) if name in own or name not in members]

    members: dict[str, Any] = {name: _OtherName(home, name) for name in names.split()}
    base = type(
        home, (), {**members, "__slots__": (), "__dir__": __dir__, "__module__": f"{__package__}.foreign_names"}
    )
    return base


def opened_by_name(node: N, target: Any) -> N:
    """Return a node, marked as the owner of its store unless `target` is the store itself."""
    node.owns_store = node.store is not target
    return node
