"""Run by ``test_peers.py`` with an interpreter that has zarr 2: reads arrays that tegula wrote, and writes the same.

Usage: ``python zarr2_peer.py DIRECTORY``. ``DIRECTORY/cases.json`` lists the cases; each is a folder with
``values.npy``, ``fill.npy`` and ``ours``. Writes ``theirs`` into each, and prints
what is wrong with each case as JSON.
"""

import json
import os
import sys

import numcodecs
import numpy as np
import zarr


def same(found, expected):
    found = np.asarray(found, expected.dtype) if not isinstance(found, np.ndarray) else found
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


def run(folder, case):
    values = np.load(os.path.join(folder, "values.npy"))
    ours = zarr.open_array(os.path.join(folder, "ours"), mode="r")
    if not same(ours[...], values):
        return "ours is read as other values"
    codecs = [[numcodecs.get_codec(codec) for codec in case[part]] for part in ("filters", "compressors")]
    theirs = zarr.open_array(
        os.path.join(folder, "theirs"),
        mode="w",
        shape=values.shape,
        dtype=values.dtype,
        chunks=tuple(case["chunks"]),
        order=case["order"],
        filters=codecs[0] or None,
        compressor=codecs[1][0] if codecs[1] else None,
        fill_value=np.load(os.path.join(folder, "fill.npy"))[()],
        dimension_separator="/" if case["separator"] == "/" else None,  # given, the usual one would be written, too
        write_empty_chunks=False,
    )
    theirs[...] = values
    return "" if same(theirs[...], values) else "theirs is read as other values"


if __name__ == "__main__":
    root = sys.argv[1]
    with open(os.path.join(root, "cases.json")) as file:
        cases = json.load(file)
    print(json.dumps({name: run(os.path.join(root, name), case) for name, case in cases.items()}))
