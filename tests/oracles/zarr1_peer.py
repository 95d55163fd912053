"""Run by ``test_peers.py`` with an interpreter that has zarr 1.1.0; what ``zarr2_peer.py`` is for zarr 2."""

import json
import os
import sys

import numpy as np
import zarr


def same(found, expected):
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


def plain_fill(folder):
    fill = np.load(os.path.join(folder, "fill.npy"))
    if fill.dtype.kind in "mM":
        return int(fill.astype(fill.dtype.newbyteorder("=")).view("i8"))
    value = fill.item()
    return value.decode("ascii") if isinstance(value, bytes) else value


def run(folder, case):
    values = np.load(os.path.join(folder, "values.npy"))
    ours = zarr.Array(zarr.DirectoryStore(os.path.join(folder, "ours")))
    if not same(ours[...], values):
        return "ours is read as other values"
    codec = case["compressors"][0] if case["compressors"] else {"id": "none"}
    options = {name: value for name, value in codec.items() if name != "id"}
    os.mkdir(os.path.join(folder, "theirs"))
    store = zarr.DirectoryStore(os.path.join(folder, "theirs"))
    zarr.init_store(
        store,
        shape=values.shape,
        chunks=tuple(case["chunks"]),
        dtype=values.dtype,
        compression=codec["id"],
        compression_opts=options.get("level", options) or None,
        fill_value=plain_fill(folder),
        order=case["order"],
    )
    theirs = zarr.Array(store)
    theirs[...] = values
    return "" if same(theirs[...], values) else "theirs is read as other values"


if __name__ == "__main__":
    root = sys.argv[1]
    with open(os.path.join(root, "cases.json")) as file:
        cases = json.load(file)
    print(json.dumps({name: run(os.path.join(root, name), case) for name, case in cases.items()}))
