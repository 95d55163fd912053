"""The operations of a user that are killed and made to fail, each with the states that an interruption may leave."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import tegula
from tegula.errors import MetadataError, NotFoundError
from tegula.jobs.ledger import is_ledger_key
from tegula.stores import LocalStore, ZipStore

Path = str
Keys = dict[str, bytes]


@dataclass(frozen=True)
class Operation:
    """An operation on the contents of a directory.

    Attributes
    ----------
    prepare, act : callable
        Make the state before it; carry it out.
    again : callable, optional
        What a user does after an interruption, whatever is there then; by default the same.
    between : callable, optional
        Says of a key and its value (``None`` for none) whether it may be seen in between, if it is neither old nor new.
    cheap : bool
        Whether every call is tried by default.
    leaves : callable, optional
        Says of a key whether it may be left although it was done again: it will not be read.
    holes : bool
        Whether elements may be the fill value instead of the old or the new value.
    whole : bool
        Whether each array is the old or the new one, never a mixture.
    """

    prepare: Callable[[Path], Any]
    act: Callable[[Path], Any]
    again: Callable[[Path], Any] | None = None
    between: Callable[[str, bytes | None], bool] | None = None
    cheap: bool = True
    leaves: Callable[[str], bool] | None = None
    holes: bool = False
    whole: bool = False

    def repeat(self, path: Path) -> None:
        (self.again or self.act)(path)


OPERATIONS: dict[str, Operation] = {}
SHAPE, CHUNKS = (6, 4), (2, 4)
OLD = np.arange(24, dtype="i4").reshape(SHAPE) + 1
NEW = OLD + 1000
FORMATS = ("zarr1", "zarr2", "zarr3", "bcolz")


def opened(path: Path) -> Any:
    return tegula.open(path, mode="r+")


def synced(path: Path) -> Any:
    return tegula.open(LocalStore(path, durability="fsync"), mode="r+")


def made(path: Path, format: str = "zarr3", **options: Any) -> Any:
    array = tegula.create_array(path, shape=SHAPE, chunks=CHUNKS, dtype="i4", format=format, **options)
    array[...] = OLD
    return array


def add(name: str, *arguments: Any, **options: Any) -> None:
    OPERATIONS[name] = Operation(*arguments, **options)


def below(act: Callable[..., Any]) -> Callable[[Path], Any]:
    """Let an operation act on a directory inside the one it is given: a new node is made beside the old one."""
    return lambda path: act(os.path.join(path, "n"))


# --- chunks

for _format in FORMATS:

    def _write(path: Path, get: Any = opened) -> None:
        get(path)[...] = NEW

    def _write_part(path: Path, get: Any = opened) -> None:
        get(path)[1:5, 1:3] = -1

    def _make(path: Path, format: str = _format) -> None:
        made(path, format)

    add(f"write {_format}", _make, _write)
    add(f"write part {_format}", _make, _write_part)

add("write part, durable", made, lambda path: _write_part(path, synced))
add("erase", made, lambda path: opened(path).__setitem__(..., 0))


def _make_sharded(path: Path) -> None:
    tegula.create_array(path, shape=(4, 4), chunks=(1, 4), shards=(4, 4), dtype="i4")[...] = 7


add("write inner chunks", _make_sharded, lambda path: opened(path).__setitem__((slice(1, 3), 0), 5))


# --- documents


def _attributes(path: Path) -> None:
    opened(path).attrs.update(units="K", scale=[1, 2])


for _format in FORMATS:

    def _make_attributes(path: Path, format: str = _format) -> None:
        made(path, format, attributes={"units": "m"})

    def _shrink(path: Path, format: str = _format) -> None:
        opened(path).resize((3, *SHAPE[1:]))

    def _widen(path: Path, format: str = _format) -> None:
        opened(path).resize((11, *SHAPE[1:]))

    def _shrink_again(path: Path, format: str = _format) -> None:
        opened(path).resize(SHAPE)  # which deletes what it cuts off
        opened(path).resize((3, *SHAPE[1:]))

    def _append(path: Path) -> None:
        opened(path).append(NEW[:3])

    def _append_again(path: Path) -> None:
        array = opened(path)
        array.resize(SHAPE)  # whatever rows had been reserved
        array.append(NEW[:3])

    add(f"attributes {_format}", _make_attributes, _attributes)
    add(f"shrink {_format}", _make_attributes, _shrink, _shrink_again)
    add(f"widen {_format}", _make_attributes, _widen)
    add(f"append {_format}", _make_attributes, _append, _append_again, holes=_format != "bcolz")


def _stray(path: Path) -> None:
    """Leave chunks outside of an array, as an interrupted shrink does."""
    made(path)
    store = LocalStore(path)
    kept = {key: store.get(key) for key in store.list() if key.startswith("c/")}
    opened(path).resize(1, 4)
    for key, value in kept.items():
        store.set(key, value)


add("widen over strays", _stray, lambda path: opened(path).resize(SHAPE))


# --- new nodes

_LATER = {"zarr1": "attrs", "zarr2": ".zattrs", "zarr3": "", "bcolz": ""}


def create(path: Path, format: str, overwrite: bool, at: str = "") -> Any:
    return tegula.create_array(
        path, path=at, shape=(4, 4), chunks=(2, 4), dtype="i2", format=format, attributes={"a": 1}, overwrite=overwrite
    )


def _is_draft(key: str, value: bytes | None) -> bool:
    """An array of bcolz can't be opened until all of its rows are stored."""
    return key.endswith("meta/sizes") and value is not None and value.startswith(b'{"under_creation"')


def _is_gone(key: str, value: bytes | None) -> bool:
    """The old node is deleted before the new one exists."""
    return value is None or _is_draft(key, value)


def _nothing(path: Path) -> None:
    pass


for _format in FORMATS:

    def _make_attributes(path: Path, format: str = _format) -> None:
        made(path, format, attributes={"units": "m"})

    def _create(path: Path, format: str = _format) -> None:
        create(path, format, overwrite=False, at="x/y" if format in ("zarr2", "zarr3") else "")

    def _create_again(path: Path, format: str = _format) -> None:
        create(path, format, overwrite=True, at="x/y" if format in ("zarr2", "zarr3") else "")

    def _overwrite(path: Path, format: str = _format) -> None:
        create(path, format, overwrite=True)

    add(f"create {_format}", _nothing, _create, _create_again, _is_draft)

    def _overwrite_with(path: Path, format: str = _format) -> None:
        tegula.create_array(path, data=NEW, chunks=(5, 5), format=format, overwrite=True)

    add(f"overwrite {_format}", below(_make_attributes), below(_overwrite), whole=True)
    add(f"overwrite by {_format}", below(made), below(_overwrite), whole=True)
    add(f"overwrite with data {_format}", below(made), below(_overwrite_with), whole=True, cheap=False)


def _make_group(path: Path, format: str = "zarr3") -> None:
    group = tegula.create_group(path, format=format, attributes={"of": "group"})
    group.create_array("x", shape=4, chunks=2, dtype="i4")[...] = 5
    below = group.create_group("sub", attributes={"b": 1})
    below.create_array("y", shape=(2, 2), chunks=1, dtype="i4")[...] = 6
    below.create_group("deep").create_array("z", shape=2, dtype="i4")[...] = 7


for _format in ("zarr2", "zarr3"):

    def _make_of(path: Path, format: str = _format) -> None:
        _make_group(path, format)

    def _create_group(path: Path, format: str = _format) -> None:
        tegula.create_group(path, path="g/h", format=format, attributes={"a": 1})

    def _create_group_again(path: Path, format: str = _format) -> None:
        tegula.create_group(path, path="g/h", format=format, attributes={"a": 1}, overwrite=True)

    def _overwrite_group(path: Path, format: str = _format) -> None:
        tegula.create_group(path, format=format, attributes={"a": 1}, overwrite=True)

    def _delete(path: Path) -> None:
        del tegula.open_group(path, mode="r+")["sub"]

    def _delete_again(path: Path) -> None:
        group = tegula.open_group(path, mode="r+")
        if "sub" in group:
            del group["sub"]

    def _consolidate(path: Path) -> None:
        tegula.open_group(path, mode="r+").consolidate()

    add(f"create group {_format}", _nothing, _create_group, _create_group_again)
    add(f"overwrite group {_format}", below(_make_of), below(_overwrite_group), whole=True, cheap=False)
    add(f"delete {_format}", _make_of, _delete, _delete_again, whole=True)
    add(f"consolidate {_format}", _make_of, _consolidate)


# --- tables


def columns(rows: int, start: int = 0) -> dict[str, Any]:
    numbers = np.arange(start, start + rows)
    return {"z": numbers, "a": numbers / 8, "m": np.stack([numbers % 120, numbers % 7], 1).astype("i1")}


def make_table(path: Path, format: str = "bcolz", overwrite: bool = False) -> None:
    chunks = {"z": 10, "a": 6, "m": (5, 2)}
    tegula.create_table(path, columns(23), chunks=chunks, format=format, overwrite=overwrite)


def _resized(rows: int) -> Callable[[Path], None]:
    def resize(path: Path) -> None:
        table = tegula.open_table(path, mode="r+")
        table.repair()
        table.resize(rows)

    return resize


def _append_rows(path: Path) -> None:
    tegula.open_table(path, mode="r+").append(columns(13, 23))


def _append_rows_again(path: Path) -> None:
    _resized(23)(path)
    _append_rows(path)


def _add_column(path: Path) -> None:
    tegula.open_table(path, mode="r+").add_column("new", np.arange(23) * 3, chunks=8)


def _add_column_again(path: Path) -> None:
    table = tegula.open_table(path, mode="r+")
    if "new" not in table.names:
        table.add_column("new", np.arange(23) * 3, chunks=8, overwrite=True)


def _remove_column(path: Path) -> None:
    tegula.open_table(path, mode="r+").remove_column("a")


def _remove_column_again(path: Path) -> None:
    table = tegula.open_table(path, mode="r+")
    if "a" not in table.names:  # its remains prevent a column of that name
        table.add_column("a", np.zeros(23), overwrite=True)
    table.remove_column("a")


add(
    "create table",
    _nothing,
    make_table,
    lambda path: make_table(path, overwrite=True),
    lambda key, value: key == "__rootdirs__" or _is_draft(key, value),
    cheap=False,
)
add("append rows", make_table, _append_rows, _append_rows_again, cheap=False)
add("shrink table", make_table, _resized(7), lambda path: [_resized(23)(path), _resized(7)(path)], cheap=False)
add("add column", make_table, _add_column, _add_column_again, _is_draft, cheap=False)
add("remove column", make_table, _remove_column, _remove_column_again, whole=True)


# --- copies


def _convert(path: Path, overwrite: bool = False, **options: Any) -> None:
    tegula.convert(f"{path}/source", f"{path}/target", format="zarr2", overwrite=overwrite, **options)


def _copy(path: Path, **options: Any) -> None:
    tegula.copy(f"{path}/source", f"{path}/target", overwrite=True, **options)


def _make_pyramid(path: Path) -> None:
    tegula.create_array(path, path="source", data=NEW, chunks=CHUNKS)
    tegula.create_array(path, path="x", data=OLD, chunks=CHUNKS)
    tegula.downsample(f"{path}/x", f"{path}/target", levels=2)


def _downsample(path: Path, **options: Any) -> None:
    tegula.downsample(f"{path}/source", f"{path}/target", levels=1, overwrite=True, **options)


def _make_levels(path: Path) -> None:
    group = tegula.create_group(f"{path}/target")
    array = group.create_array("x", data=OLD, chunks=CHUNKS, dimension_names=["y", "x"])
    tegula.downsample(array, levels=2)
    array[...] = NEW


def _downsample_there(path: Path, **options: Any) -> None:
    tegula.downsample(f"{path}/target/x", levels=1, overwrite=True, **options)


def _of_conversion(key: str, value: bytes | None) -> bool:
    """The ledger of a job, and what is left out, as the report says, since it could not be read."""
    return is_ledger_key(key) or (key.startswith("target/") and value is None)


def _of_job(key: str, value: bytes | None) -> bool:
    """The ledger of a job, and the document of a group whose levels are about to be exchanged."""
    return is_ledger_key(key) or (key == "target/zarr.json" and value is not None)


def _make_source(path: Path) -> None:
    _make_group(f"{path}/source")


def _make_both(path: Path) -> None:
    _make_group(f"{path}/source")
    _make_group(f"{path}/target", "zarr2")
    tegula.create_group(f"{path}/target", path="old", format="zarr2")


def _save(path: Path) -> None:
    tegula.save(path, x=NEW, y=NEW[0], overwrite=True)


add(
    "convert",
    _make_source,
    _convert,
    lambda path: _convert(path, overwrite=True),
    between=lambda key, _: is_ledger_key(key),
    cheap=False,
)
add(
    "convert over",
    _make_both,
    lambda path: _convert(path, overwrite=True),
    between=_of_conversion,
    cheap=False,
    whole=True,
)
add(
    "convert over, resumed",
    _make_both,
    lambda path: _convert(path, overwrite=True, resume=True),
    between=_of_conversion,
    cheap=False,
    whole=True,
)
for _name, _make, _act in (
    ("copy", _make_both, _copy),
    ("pyramid", _make_pyramid, _downsample),
    ("levels", _make_levels, _downsample_there),
):
    add(f"{_name} over", _make, _act, between=_of_job, cheap=False, whole=True)
    add(f"{_name} over, resumed", _make, partial(_act, resume=True), between=_of_job, cheap=False, whole=True)
add("save", below(_make_group), below(_save), cheap=False, whole=True)


# --- archives


def _make_archive(path: Path) -> None:
    with ZipStore(f"{path}/a.zip", "w") as store:
        made(store)


def _in_archive(change: Callable[[Any], Any], durability: Any = "write") -> Callable[[Path], None]:
    def act(path: Path) -> None:
        with ZipStore(f"{path}/a.zip", "a", durability=durability) as store:
            change(tegula.open_array(store, mode="r+"))
            store.flush()
            change(tegula.open_array(store, mode="r+"))

    return act


def _compact(path: Path) -> None:
    with ZipStore(f"{path}/a.zip", "a") as store:
        store.compact()


add("create archive", _nothing, _make_archive)
add("write archive", _make_archive, _in_archive(lambda array: array.__setitem__(..., NEW)))
add("write archive, durable", _make_archive, _in_archive(lambda a: a.__setitem__(..., NEW), "fsync"))
add("compact archive", _make_archive, _compact)


_COMPRESSED = re.compile(rb', "cbytes": [0-9]+')


def keys_of(path: Path) -> Keys:
    """Return every key and value below a directory, those within an archive too.

    Without the number of bytes that bcolz keeps for information, and an interrupted operation leaves out of date.
    """
    found = {key: _COMPRESSED.sub(b"", value) for key, value in _values(LocalStore(path)).items()}
    if found.pop("a.zip", b""):
        with ZipStore(f"{path}/a.zip") as store:
            found |= _values(store)
    return found


def _values(store: Any) -> dict[str, bytes]:
    return {key: store.get(key) for key in store.list()}


def read_everything(path: Path) -> dict[str, Any]:
    """Read every array below a directory; a node that says why it can't be opened is left out."""
    found: dict[str, Any] = {}
    for key in LocalStore(path).list():
        if is_ledger_key(key):
            continue
        place = key.rpartition("/")[0].removesuffix("/meta")
        place = "" if place == "meta" else place
        if key.rpartition("/")[2] in ("zarr.json", ".zarray", "meta", "storage", "a.zip"):
            if key == "a.zip" and not LocalStore(path).size(key):
                continue  # it was being created
            target: Any = ZipStore(f"{path}/a.zip") if key == "a.zip" else f"{path}/{place}".rstrip("/")
            try:
                node = tegula.open(target)
            except (NotFoundError, MetadataError):
                continue
            if isinstance(node, tegula.Array):
                found[place] = node[...]
    return found
