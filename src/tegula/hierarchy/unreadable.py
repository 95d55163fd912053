"""The value of a member that can't be opened, when a group is read as a mapping."""

from __future__ import annotations

from typing import Any, NoReturn

from tegula.errors import TegulaError

__all__ = ["Unreadable"]


class Unreadable:
    """A member that can't be opened; each use of it raises the error from opening it.

    Examples
    --------
    >>> import tegula
    >>> g = tegula.create_group({})
    >>> g["x"] = [1, 2]
    >>> g.store.set("y/zarr.json", b'{"zarr_format": 3, "node_type": "array"}') and dict(g.items())
    {'x': <tegula.Array ...>, 'y': <a member that can't be opened: ...>}
    """

    def __init__(self, error: TegulaError) -> None:
        self._error = error

    def _fail(self, *_: Any, **__: Any) -> NoReturn:
        raise self._error.with_traceback(None)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # asked for by copy, pickle and notebooks; objects need not have it
            raise AttributeError(name)
        self._fail()

    __getitem__ = __setitem__ = __delitem__ = __contains__ = __iter__ = __len__ = __array__ = _fail

    def __repr__(self) -> str:
        return f"<a member that can't be opened: {self._error}>"
