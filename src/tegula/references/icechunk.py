"""References in repositories of icechunk: virtual chunks, and a container that says where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tegula.errors import AlreadyExistsError, StoreError, UnsupportedError
from tegula.references.chunks import chunks_of
from tegula.references.locations import quoted_location
from tegula.references.planning import PlannedArray, PlannedGroup
from tegula.references.report import ReferenceReport
from tegula.runtime.optional import library

__all__ = ["container", "write_icechunk", "writing_session"]

_BATCH: Final = 2**14
_TOLERANCE: Final = timedelta(seconds=5)  # by which the clock of the storage may be ahead
_MESSAGE: Final = "Virtual references"


def container(base: str, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the virtual chunk container for a store, and credentials from the environment.

    Parameters
    ----------
    base : str
        The URL of the store, with a slash at the end.
    options : mapping
        Arguments of icechunk's ``s3_store``, ``gcs_store``, ``azure_store`` or ``http_store``.

    Raises
    ------
    UnsupportedError
        If icechunk does not support the storage.
    """
    icechunk = library("icechunk")
    scheme = urlsplit(base).scheme
    prefix = _prefix(base)
    if scheme == "file":
        made = icechunk.local_filesystem_store(base.removeprefix("file://"))
        return icechunk.VirtualChunkContainer(prefix, made), icechunk.credentials.Credentials.LocalFileSystemAccess()
    anonymous = bool(options.get("anonymous"))
    if scheme == "s3":
        made = icechunk.s3_store(**options)
        granted = icechunk.s3_anonymous_credentials if anonymous else icechunk.s3_from_env_credentials
        return icechunk.VirtualChunkContainer(prefix, made), granted()
    if scheme == "gs":
        made = icechunk.gcs_store(dict(options))
        return icechunk.VirtualChunkContainer(prefix, made), icechunk.gcs_from_env_credentials()
    if scheme in ("http", "https"):
        made = icechunk.http_store(dict(options))
        return icechunk.VirtualChunkContainer(prefix, made), icechunk.credentials.Credentials.HttpAccess()
    raise UnsupportedError(f"icechunk has no virtual chunks in {scheme}: storage", path=base)


def _prefix(base: str) -> str:
    """Return the URL of a store as icechunk compares it with those of containers: without escaped characters."""
    return (unquote(base) if base.startswith("http") else base).replace("gs://", "gcs://", 1)


def writing_session(target: Any, base: str, options: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return a session of a repository that can be written, and whether it must be committed afterwards.

    Parameters
    ----------
    target : str, path, icechunk.Storage, icechunk.Repository, Session or IcechunkStore
        The repository. Given by path or storage, it is created with a container for `base`. The repository of a session
        or store must have such a container, and its owner commits the session.
    base : str
        The URL of the source's store.
    options : mapping
        Settings of the container.

    Raises
    ------
    AlreadyExistsError
        If there is a repository at the path.
    """
    icechunk = library("icechunk")
    if isinstance(target, icechunk.IcechunkStore):
        return target.session, False
    if isinstance(target, icechunk.Session):
        return target, False
    if isinstance(target, icechunk.Repository):
        return target.writable_session("main"), True
    storage = target if isinstance(target, icechunk.Storage) else icechunk.local_filesystem_storage(str(target))
    if icechunk.Repository.exists(storage):
        raise AlreadyExistsError(
            "a repository already exists; pass one of its sessions to write to it", path=str(target)
        )
    virtual, granted = container(base, options)
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(virtual)
    allowed = icechunk.containers_credentials({virtual.url_prefix: granted})
    made = icechunk.Repository.create(storage, config, authorize_virtual_chunk_access=allowed)
    return made.writable_session("main"), True


def write_icechunk(
    session: Any, nodes: Iterable[PlannedGroup | PlannedArray], base: str, threshold: int, report: ReferenceReport
) -> None:
    """Write the references of nodes to a session of icechunk.

    Each reference says when it was made, so that icechunk refuses a chunk that has changed since then.

    Raises
    ------
    StoreError
        If icechunk refuses them, for example because the repository has no container for them.
    """
    store = session.store
    for node in nodes:
        prefix = f"{node.path}/" if node.path else ""
        for name, raw in node.documents.items():
            _set(store, prefix + name, raw)
        if isinstance(node, PlannedArray):
            report.arrays += 1
            _set_chunks(store, node, base, threshold, report)


def _set_chunks(store: Any, node: PlannedArray, base: str, threshold: int, report: ReferenceReport) -> None:
    keys = node.target.metadata.keys
    prefix = f"{node.path}/" if node.path else ""
    made = datetime.now(UTC) + _TOLERANCE
    spec = library("icechunk").VirtualChunkSpec
    containers = store.session.config.virtual_chunk_containers or {}
    known = tuple(each.url_prefix for each in containers.values())

    def specs() -> Iterator[Any]:
        for chunk in report.counted(chunks_of(node, threshold)):
            if chunk.data is not None:
                _set(store, prefix + keys.encode(chunk.coords), chunk.data)
                continue
            # icechunk itself would compare escaped locations, and when it reads, those without escapes
            if not (_prefix(base) + chunk.key).startswith(known):
                raise StoreError(
                    f"the repository has no virtual chunk container for {base}; tegula.references.container makes one",
                    path=node.path,
                )
            location = quoted_location(base, chunk.key).replace("gs://", "gcs://", 1)
            yield spec([*chunk.coords], location, chunk.offset, chunk.length, None, made)

    found = specs()
    while batch := [*islice(found, _BATCH)]:
        try:
            store.set_virtual_refs(f"/{node.path}", batch, validate_containers=False)
        except Exception as error:  # icechunk raises errors of its own
            raise StoreError(f"icechunk refuses the references: {error}", path=node.path) from error


def _set(store: Any, key: str, raw: bytes) -> None:
    sync, buffers = library("zarr.core.sync"), library("zarr.core.buffer")
    try:
        sync.sync(store.set(key, buffers.default_buffer_prototype().buffer.from_bytes(raw)))
    except Exception as error:  # icechunk raises errors of its own
        raise StoreError(f"icechunk refuses the value: {error}", key=key) from error
