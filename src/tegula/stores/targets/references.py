"""References of kerchunk as targets: the file or directory that holds them, and the files that they name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tegula import config
from tegula.config.budget import check_size
from tegula.errors import MetadataError, NotFoundError, StoreError, TegulaError, UnsupportedError
from tegula.stores import LocalStore, Store
from tegula.stores.names import path_in_url
from tegula.stores.objects.options import obstore_words
from tegula.stores.references.parquet import INDEX, ParquetReferences, is_index
from tegula.stores.references.sets import JsonReferences, ReferenceSet
from tegula.stores.references.store import ReferenceStore
from tegula.stores.secrets import plain_url
from tegula.stores.targets.paths import links, path_text, scheme_of, url_path
from tegula.stores.targets.urls import WEB, split_url, store_of_url

__all__ = ["Files", "has_reference_options", "local_references", "open_references"]

_SUFFIXES: Final = (".json", ".parq", ".parquet")
_OPTIONS: Final = frozenset(
    "fo target_protocol target_options ref_storage_args remote_protocol remote_options template_overrides".split()
)
_IGNORED: Final = frozenset(
    "simple_templates max_gap max_block cache_size asynchronous skip_instance_cache use_listings_cache lazy".split()
)
_HEAD: Final = 4096
_MOST_STORES: Final = 1024  # maximum number kept open for one store of references
_LOCAL: Final = ("file", "local")


def has_reference_options(options: Mapping[str, Any]) -> bool:
    """Return whether options are those of references, as fsspec names them."""
    return not options.keys() <= _IGNORED and options.keys() <= _OPTIONS | _IGNORED


def local_references(path: str) -> bool:
    """Return whether a local path is that of references, by its first bytes, or the names and the index in it."""
    try:
        if os.path.isdir(path):
            names = (INDEX, ".zgroup", ".zarray", "zarr.json")
            if [os.path.isfile(os.path.join(path, name)) for name in names] != [True, False, False, False]:
                return False
            with open(os.path.join(path, INDEX), "rb") as file:
                return is_index(file.read(config.current().max_input_bytes + 1))
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except (OSError, ValueError):
        return False
    return head.lstrip()[:1] == b"{" and (path.lower().endswith(".json") or b'"refs"' in head)


def open_references(target: str, options: Mapping[str, Any], *, read_only: bool) -> Store:
    """Open references of kerchunk: a JSON file, a directory of Parquet files, or a URL of either.

    Parameters
    ----------
    target : str
        A path, a URL, ``reference::`` and a path or URL, or ``reference://`` with the option ``fo``.
    options : mapping
        The options of fsspec's reference file system: ``fo``, ``target_protocol``, ``target_options`` for the
        references, ``remote_protocol`` and ``remote_options`` for the files that they name, and
        ``template_overrides``. Settings of storage are obstore's or fsspec's. All other options are settings of the
        storage of both.
    read_only : bool
        Whether the store is opened for reading.

    Raises
    ------
    UnsupportedError
        If it is opened for writing, or a package is not installed.
    NotFoundError, StoreError
        If there are no such references, or they can't be read.
    """
    if not read_only:
        raise UnsupportedError("references can only be read; open them with mode='r'", path=plain_url(target))
    own = has_reference_options(options) or options.keys() & _OPTIONS
    words: dict[str, Any] = dict(options) if own else {"target_options": options, "remote_options": options}
    unknown = sorted(words.keys() - _OPTIONS - _IGNORED)
    if unknown:
        known = ", ".join(sorted(_OPTIONS))
        raise MetadataError(
            f"there is no option {unknown[0]!r:.60} for references; there are {known}", field=unknown[0]
        )
    source = _source(target, words)
    if isinstance(source, Mapping):
        files = Files(words.get("remote_protocol"), words.get("remote_options") or {}, local=True)
        return ReferenceStore(JsonReferences(source, words.get("template_overrides")), files, "reference://fo")
    settings = words.get("target_options") or words.get("ref_storage_args") or {}
    scheme = scheme_of(source)
    local = scheme is None or scheme[1].lower() in _LOCAL
    files = Files(words.get("remote_protocol"), words.get("remote_options") or {}, local=local)
    shown = f"reference::{plain_url(source)}"
    try:
        references = _load(source, settings, words.get("template_overrides"))
    except TegulaError as error:
        error.within(path=plain_url(source))
        raise
    return ReferenceStore(references, files, shown)


def _source(target: str, words: Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Return the path or URL of the references, or the references themselves."""
    address = target.partition(":")[2].removeprefix(":") if target.lower().startswith("reference:") else target
    address = address.removeprefix("//") if target.lower().startswith("reference://") else address
    source = words.get("fo", address or None)
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    if isinstance(source, Mapping):
        return source
    if not isinstance(source, str) or not source:
        raise MetadataError("reference:// needs the option fo, a path or URL of references", field="fo")
    protocol = words.get("target_protocol")
    return f"{protocol}://{source}" if protocol and scheme_of(source) is None else source


def _load(source: str, settings: Mapping[str, Any], templates: Mapping[str, str] | None) -> ReferenceSet:
    scheme = scheme_of(source)
    if scheme is None or scheme[1].lower() in _LOCAL:
        path = path_text(source) if scheme is None else path_in_url(source.partition("://")[2])
        if os.path.isdir(path):
            return ParquetReferences(LocalStore(path, read_only=True))
        folder, name = os.path.split(os.path.abspath(path))
        store: Store = LocalStore(folder, read_only=True)
    else:
        settings = obstore_words(scheme[1].lower(), settings)
        if url_path(source).rstrip("/").lower().endswith(_SUFFIXES[1:]):
            return ParquetReferences(store_of_url(source, settings, read_only=True, archives=False))
        folder, name = split_url(source)
        store = store_of_url(folder, settings, read_only=True, archives=False)
    size = store.size(name)
    if size is None:
        listed = scheme is not None and len(links(source)) == 1 and scheme[1].lower() not in WEB
        if listed and not name.lower().endswith(".json"):
            return ParquetReferences(store_of_url(source, settings, read_only=True, archives=False))
        raise NotFoundError("there is no such file of references")
    check_size(size, "a document of references")
    return JsonReferences.parse(store.get(name) or b"", templates)


class Files:
    """The files that references name: opens the store that holds a file, and keeps it.

    Parameters
    ----------
    protocol : str, optional
        The scheme of names without one.
    options : mapping
        Settings of the storage.
    local : bool
        Whether local files may be named: references from elsewhere must not name them.
    """

    def __init__(self, protocol: str | None, options: Mapping[str, Any], *, local: bool) -> None:
        if not isinstance(options, Mapping):
            raise MetadataError("remote_options are a mapping of names to values", field="remote_options")
        self._protocol = protocol
        self._options = options
        self._local = local or protocol in _LOCAL
        self._stores: dict[str, Store] = {}

    def __call__(self, url: str) -> tuple[Store, str]:
        """Return the store that holds a file, and the file's key there.

        Raises
        ------
        UnsupportedError
            If references from elsewhere name a file of this machine, or a chain of URLs.
        StoreError
            If the URL is not valid, or the storage can't be opened.
        """
        if len(links(url)) > 1:
            raise UnsupportedError("references to parts of archives are not supported")
        scheme = scheme_of(url) if "://" in url else None
        if scheme is None and self._protocol and self._protocol not in _LOCAL:
            url, scheme = f"{self._protocol}://{url.lstrip('/')}", scheme_of(f"{self._protocol}:")
        name = scheme[1].lower() if scheme else "file"
        if name in _LOCAL:
            return self._local_file(url.partition("://")[2] if scheme else url)
        if name == "reference":
            raise UnsupportedError("references can't name references")
        folder, key = self._split(name, url)
        if folder not in self._stores:
            if len(self._stores) >= _MOST_STORES:
                self._stores.clear()
            mine = self._protocol is None or name == self._protocol
            options = obstore_words(name, self._options) if mine else {}
            self._stores[folder] = store_of_url(folder, options, read_only=True, archives=False)
        return self._stores[folder], key

    def _local_file(self, path: str) -> tuple[Store, str]:
        if not self._local:
            raise UnsupportedError(
                "these references come from elsewhere and name a file on this machine; if that is intended, pass "
                "remote_protocol='file' in storage_options"
            )
        absolute = os.path.abspath(path_in_url(path))
        drive, path_on_drive = os.path.splitdrive(absolute)
        if drive not in self._stores:
            self._stores[drive] = LocalStore(drive + os.sep, read_only=True, follow_symlinks=True)
        return self._stores[drive], path_on_drive.replace(os.sep, "/").lstrip("/")

    @staticmethod
    def _split(scheme: str, url: str) -> tuple[str, str]:
        """Return the URL of a store, one for as many files as possible, and the key of a file in it."""
        parts = urlsplit(url)
        shared = scheme in ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", *WEB)
        if not shared or (scheme in WEB and parts.query):
            return split_url(url)
        start = f"{parts.scheme}://{parts.netloc}"
        key = url[len(start) :].lstrip("/")  # in a bucket it is taken literally
        if not key:
            raise StoreError("the URL names no file")
        return start, unquote(key.partition("#")[0]) if scheme in WEB else key

    def __reduce__(self) -> tuple[Any, ...]:
        return _files, (self._protocol, self._options, self._local)


def _files(protocol: str | None, options: Mapping[str, Any], local: bool) -> Files:
    return Files(protocol, options, local=local)
