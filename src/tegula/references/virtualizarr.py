"""A parser for VirtualiZarr: any array, group or table of tegula as a ``ManifestStore``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import numpy as np

from tegula.arrays.array import Array
from tegula.engine.stored.visiting import check_number
from tegula.errors import UnsupportedError
from tegula.formats import find_format
from tegula.hierarchy.opening import open as open_any
from tegula.metadata.chunk_keys import default_keys
from tegula.references.chunks import chunks_of
from tegula.references.planning import PlannedArray, PlannedGroup, Unsupported, check_chunks, planned
from tegula.runtime.optional import library
from tegula.stores import ObjectStore

__all__ = ["Parser"]


class Parser:
    """A parser of VirtualiZarr for Zarr v1, v2 and v3, and for arrays and tables of bcolz.

    An array alone becomes a group with one member, named after the last part of its URL. Dimensions without names are
    called ``dim_0`` and so on.

    Parameters
    ----------
    group : str
        Path of the node below the URL.
    unsupported : {"error", "skip", "inline"}
        What to do with arrays whose chunks can't be referenced; see `write`.
    inline_threshold : int
        Chunks of fewer bytes are kept in memory.

    Raises
    ------
    MetadataError
        If an argument is not valid.

    Examples
    --------
    >>> Parser(unsupported="skip")
    Parser(group='', unsupported='skip', inline_threshold=0)
    """

    def __init__(self, group: str = "", unsupported: Unsupported = "error", inline_threshold: int = 0) -> None:
        check_chunks(unsupported, inline_threshold)
        self.group = group
        self.unsupported: Unsupported = unsupported
        self.inline_threshold = inline_threshold

    def __call__(self, url: str, registry: Any) -> Any:
        """Return the ``ManifestStore`` of a node.

        Parameters
        ----------
        url : str
            The URL of the array, group or table.
        registry : ObjectStoreRegistry
            The stores of obstore that hold it.

        Raises
        ------
        UnsupportedError
            If chunks can't be referenced, or VirtualiZarr is not installed.
        NotFoundError
            If there is no array or group at the URL.
        """
        manifests = library("virtualizarr.manifests")
        url = url.rstrip("/")
        if url.startswith(("http:", "https:")):  # obstore escapes the paths that the registry takes from URLs
            url = unquote(url)
        store, path = registry.resolve(url)
        inner = path.strip("/")
        node = open_any(ObjectStore(store, inner, read_only=True), path=self.group)
        name = (
            (f"{url}/{self.group}".rstrip("/").rpartition("/")[2].partition(".")[0] or "data")
            if isinstance(node, Array)
            else ""
        )
        skipped: dict[str, str] = {}
        nodes = planned(node, find_format("zarr3"), name, self.unsupported, skipped, keys=default_keys())
        groups: dict[str, _Group] = {"": _Group()}
        for each in nodes:
            parent, _, last = each.path.rpartition("/")
            if isinstance(each, PlannedGroup):
                document = json.loads(each.documents["zarr.json"])
                found = groups.setdefault(each.path, _Group())
                found.attributes = document.get("attributes", {})
                if each.path:
                    groups.setdefault(parent, _Group()).groups.append(last)
                continue
            groups.setdefault(parent, _Group()).add(last, each, self._manifest(each, f"{url}/", manifests))
        return manifests.ManifestStore(group=_built(groups, "", manifests), registry=registry)

    def _manifest(self, array: PlannedArray, base: str, manifests: Any) -> Any:
        """Return the chunk manifest of an array."""
        metadata = array.target.metadata
        if not metadata.grid.is_regular:
            raise UnsupportedError("VirtualiZarr has regular chunk grids only", path=array.source.location)
        counts = metadata.grid.counts(metadata.shape)
        check_number(array.target, int(np.prod(counts, dtype=object)), "a manifest, which has an entry for each chunk,")
        dtypes: Any = np.dtypes
        paths = np.full(counts, "", dtypes.StringDType())
        offsets, lengths = (np.zeros(counts, "u8") for _ in range(2))
        inlined: dict[tuple[int, ...], bytes] = {}
        for chunk in chunks_of(array, self.inline_threshold):
            if chunk.data is not None:
                inlined[chunk.coords] = chunk.data
                paths[chunk.coords] = library("virtualizarr.manifests.manifest").INLINED_CHUNK_PATH
            else:
                paths[chunk.coords] = base + chunk.key
            offsets[chunk.coords], lengths[chunk.coords] = chunk.offset, chunk.length
        return manifests.ChunkManifest.from_arrays(
            paths=paths, offsets=offsets, lengths=lengths, inlined=inlined, validate_paths=False
        )

    def __repr__(self) -> str:
        return (
            f"Parser(group={self.group!r}, unsupported={self.unsupported!r}, inline_threshold={self.inline_threshold})"
        )


class _Group:
    """The members of a group, before VirtualiZarr's objects are made, which are immutable."""

    def __init__(self) -> None:
        self.attributes: Mapping[str, Any] = {}
        self.groups: list[str] = []
        self.arrays: dict[str, tuple[PlannedArray, Any]] = {}
        self.sizes: dict[str, int] = {}

    def add(self, name: str, array: PlannedArray, manifest: Any) -> None:
        self.arrays[name] = array, manifest

    def names(self, name: str, array: PlannedArray) -> list[str]:
        """Return the names of an array's dimensions; those without a name get one that fits their length."""
        found = []
        given = array.target.metadata.dimension_names or (None,) * array.target.metadata.ndim
        for axis, (known, size) in enumerate(zip(given, array.target.metadata.shape)):
            own = known or f"dim_{axis}"
            if known is None and self.sizes.setdefault(own, size) != size:
                own = f"{name}_{own}"
            found.append(own)
        return found


def _built(groups: Mapping[str, _Group], path: str, manifests: Any) -> Any:
    group = groups[path]
    arrays = {}
    for name, (array, manifest) in group.arrays.items():
        document = json.loads(array.documents["zarr.json"])
        document["dimension_names"] = group.names(name, array)
        metadata = library("zarr.core.metadata.v3").ArrayV3Metadata.from_dict(document)
        arrays[name] = manifests.ManifestArray(metadata=metadata, chunkmanifest=manifest)
    inner = {name: _built(groups, f"{path}/{name}".lstrip("/"), manifests) for name in group.groups}
    return manifests.ManifestGroup(arrays=arrays, groups=inner, attributes=dict(group.attributes))
