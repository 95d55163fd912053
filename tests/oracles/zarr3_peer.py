"""Run by ``test_peers.py`` with an interpreter that has another zarr 3; what ``zarr2_peer.py`` is for zarr 2."""

import json
import os
import sys
import warnings

import numpy as np
import zarr


def same(found, expected):
    found = np.asarray(found, expected.dtype) if not isinstance(found, np.ndarray) else found
    return found.shape == expected.shape and found.astype(expected.dtype).tobytes() == expected.tobytes()


def run(folder, case):
    values = np.load(os.path.join(folder, "values.npy"))
    ours = zarr.open_array(os.path.join(folder, "ours"), mode="r")
    if not same(ours[...], values):
        return "ours is read as other values"
    theirs = zarr.create_array(
        os.path.join(folder, "theirs"),
        shape=values.shape,
        dtype=values.dtype,
        chunks=case["chunks"],
        shards=case["shards"],
        filters=case["filters"] or None,
        compressors=case["compressors"] or None,
        fill_value=np.load(os.path.join(folder, "fill.npy"))[()],
        chunk_key_encoding={"name": "default", "separator": case["separator"]},
    )
    theirs[...] = values
    return "" if same(theirs[...], values) else "theirs is read as other values"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    zarr.config.set({"array.rectilinear_chunks": True})
    root = sys.argv[1]
    with open(os.path.join(root, "cases.json")) as file:
        cases = json.load(file)
    print(json.dumps({name: run(os.path.join(root, name), case) for name, case in cases.items()}))
