"""Methods of groups under the names that they have in zarr-python and h5py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

__all__ = ["ForeignMethods"]

T = TypeVar("T")


class ForeignMethods:
    """Methods of groups under names of other libraries; paths, data types and shapes follow tegula's rules."""

    def create_dataset(
        self: Any, name: str, shape: Any = None, dtype: Any = None, data: Any = None, **options: Any
    ) -> Any:
        """Create an array, as `Group.create_array`."""
        return self.create_array(name, shape=shape, dtype=dtype, data=data, **options)

    def require_dataset(self: Any, name: str, shape: Any, dtype: Any, exact: bool = False, **options: Any) -> Any:
        """Return an array or create it, as `Group.require_array`."""
        return self.require_array(name, shape=shape, dtype=dtype, exact=exact, **options)

    def array_keys(self: Any) -> Iterator[str]:
        """Yield the names of the direct members that are arrays."""
        return (name for name, _ in self.arrays())

    def group_keys(self: Any) -> Iterator[str]:
        """Yield the names of the direct members that are groups."""
        return (name for name, _ in self.groups())

    def visititems(self: Any, function: Callable[[str, Any], T | None]) -> T | None:
        """Call a function with the path and node of each member at any depth, until it returns something.

        Examples
        --------
        >>> import tegula
        >>> g = tegula.create_group({})
        >>> x = g.create_dataset("a/x", (3,), "u1")
        >>> g.visititems(lambda path, node: path if hasattr(node, "shape") else None)
        'a/x'
        """
        results = (function(path, node) for path, node in self.walk())
        return next((result for result in results if result is not None), None)

    def _ipython_key_completions_(self: Any) -> list[str]:
        return [*self]
