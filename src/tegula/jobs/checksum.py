"""`tegula.checksum`: checksums of the values of arrays, tables and hierarchies, box by box."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tegula.arrays.array import Array
from tegula.arrays.keywords import known_keywords
from tegula.arrays.masks import attributes_of
from tegula.formats.dimension_names import attributes_without
from tegula.hierarchy.group import Group
from tegula.hierarchy.walking import opened
from tegula.jobs.sharing import Code, reading
from tegula.jobs.units import Box, Progress, boxes
from tegula.reductions.sums import Sums, digest_of, sums_of_fill, sums_of_values, type_name
from tegula.tables.columns import ORDER
from tegula.tables.table import Table

if TYPE_CHECKING:
    from tegula.arrays.arguments import Missing, SourceLike

__all__ = ["Checksum", "checksum", "digest_of_array", "sum_box"]

_CODE: Final = Code[Sums]((Sums,))


@dataclass(frozen=True, slots=True, eq=False)
class Checksum:
    """A checksum of values: equal for equal values, in any format, chunks and codecs.

    Parameters
    ----------
    digest : str
        The checksum, 32 hexadecimal digits; empty if an array could not be read.
    arrays : dict of str to str
        The checksum of each array of a group, or column of a table, by path; ``""`` for a single array.
    failed : dict of str to str
        Path and reason of each array that could not be read.
    attributes : bool
        Whether attributes and names of dimensions are included.

    Examples
    --------
    >>> import tegula
    >>> one, other = tegula.create_group({}), tegula.create_group({}, format="zarr2")
    >>> one["x"], other["x"] = [1, 2, 3], [1, 2, 3]
    >>> tegula.checksum(one) == tegula.checksum(other)
    True
    >>> other["x"][0] = 0
    >>> tegula.checksum(one) == tegula.checksum(other)
    False
    """

    digest: str
    arrays: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    attributes: bool = False

    @property
    def ok(self) -> bool:
        """``True`` if everything could be read."""
        return not self.failed

    def __eq__(self, other: object) -> bool:
        """Return whether both are complete and the same; a text is compared with the digest."""
        if isinstance(other, str):
            return self.ok and self.digest == other
        if not isinstance(other, Checksum):
            return NotImplemented
        return self.ok and other.ok and (self.digest, self.attributes) == (other.digest, other.attributes)

    def __hash__(self) -> int:
        return hash(self.digest)

    def as_dict(self) -> dict[str, Any]:
        """Return the checksum as JSON values.

        Examples
        --------
        >>> Checksum("00", {"": "00"}).as_dict()["digest"]
        '00'
        """
        return {"ok": self.ok, **{name: getattr(self, name) for name in self.__slots__}}

    def __str__(self) -> str:
        return self.digest

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"<tegula.Checksum {self.digest or 'of nothing'}{failed}>"


@known_keywords
def checksum(
    source: SourceLike,
    *,
    path: str = "",
    attributes: bool = False,
    progress: Progress | None = None,
    allow_pickle: bool = False,
    missing_chunks: Missing | None = None,
    storage_options: Mapping[str, Any] | None = None,
    runner: Any = None,
    workers: int | None = None,
    ledger: Any = None,
) -> Checksum:
    """Compute a checksum of values that stays the same in any format, byte order, memory order, chunks and codecs.

    It depends on the shape, the data type and every bit of the elements, the bits of NaN and the sign of zero included,
    and for groups and tables on the paths of the arrays. It does not depend on whether chunks of fill values are
    stored, nor on the order of columns, groups without arrays, and the name of the node itself. Padding between fields
    does not count. Times count as integers, with their unit. Text counts by its characters, missing text as empty.
    Objects count by type and value: numbers, booleans, text, bytes, lists, mappings in any order, and arrays; a tuple
    counts as a list.

    If one element changes, the checksum changes. Of other accidental changes, one in about 2**120 goes unnoticed. The
    checksum does not protect against deliberate changes; to detect those, sign your files.

    Memory is bounded by one block of 64 MiB, or one chunk if that is larger; for remote storage by the setting
    ``buffer_bytes``, since many arrays and blocks are read at once. If few chunks are stored, only these
    are visited.

    Parameters
    ----------
    source : str, path, mapping, Store, Array, Group or Table
        The node, or where it is stored.
    path : str
        Path below it.
    attributes : bool
        Include attributes and dimension names. The value that marks missing data from xarray counts as an attribute,
        wherever the format stores it.
    progress : callable, optional
        Called with the path of an array, the bytes done, and its total bytes.
    allow_pickle, missing_chunks, storage_options : optional
        As for `tegula.open`.
    runner, workers : optional
        How the work is done, as for `tegula.convert`.
    ledger : str, path, mapping or Store, optional
        A directory or bucket that records what has been summed, so that the same call can continue later.

    Returns
    -------
    Checksum
        The checksum of the node, and of each array in it.

    Raises
    ------
    NotFoundError
        If there is no node.
    CodecError, StoreError
        If a chunk of an array can't be read. For a group or table, such an array is reported in `Checksum.failed`.
    UnsupportedError
        If an element is an object without a checksum.

    Examples
    --------
    >>> import tegula
    >>> store, copied = tegula.MemoryStore(), tegula.MemoryStore()
    >>> tegula.save(store, [1.5, -0.0, 7], format="zarr2")
    >>> report = tegula.convert(store, copied, format="zarr3", chunks=2)
    >>> print(tegula.checksum(store), tegula.checksum(store) == tegula.checksum(copied))
    af654721086b586d529b6a0cec63d384 True
    """
    who = {"runner": runner, "workers": workers, "ledger": ledger}
    with (
        opened(source, path, allow_pickle, storage_options, missing_chunks) as node,
        reading("checksum", _CODE, [node], progress, **who) as reader,
    ):

        def digest(path: str, array: Array) -> str:
            parts = reader.results(path, partial(sum_box, array), boxes(array), lambda _: Sums(), array)
            return digest_of_array(array, reduce(Sums.merge, parts), attributes=attributes)

        arrays, failed = reader.of_arrays(digest)
        if isinstance(node, Array):
            return Checksum(arrays[""], arrays, attributes=attributes)
        facts: dict[str, Any] = {"arrays": arrays}
        if attributes:
            facts["attributes"] = dict(_containers(node))
        return Checksum("" if failed else digest_of(facts), dict(sorted(arrays.items())), failed, attributes)


def sum_box(array: Array, box: Box) -> Sums:
    """Return the sums of one box of an array; those of boxes without a common element merge in any order."""
    return sums_of_values(np.asarray(array[box]), box, array.metadata.data_type)


def digest_of_array(array: Array, sums: Sums, *, attributes: bool = False) -> str:
    """Return the checksum of an array, from the sums of some boxes; all other elements hold the fill value."""
    data_type = array.metadata.data_type
    sums = sums.merge(sums_of_fill(array.stored.fill, array.shape, data_type, sums))
    facts: dict[str, Any] = {"type": type_name(data_type), "shape": [*array.shape], "values": [*sums.values]}
    if attributes:
        # names may be part of the attributes
        facts["attributes"] = attributes_without(attributes_of(array))
        names = array.dimension_names
        facts["names"] = None if names is None or not array.ndim else [*names]
    return digest_of(facts)


def _containers(node: Group | Table) -> Iterator[tuple[str, Any]]:
    """Yield path and attributes of each group and table that has some."""
    for path, member in [("", node), *(node.walk({}) if isinstance(node, Group) else ())]:
        if not isinstance(member, Array):
            attributes = {name: value for name, value in member.attrs.asdict().items() if name != ORDER}
            if attributes:
                yield path, attributes
