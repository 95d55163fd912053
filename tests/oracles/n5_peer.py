"""Run by ``test_zarr2_n5.py`` with an interpreter that has zarr 2: does with N5 what each line of its input says.

A line is a list: the kind of store, its directory, the path of a node, what to do, and the options of this. The answer
is a line of JSON; arrays are exchanged as files.
"""

import json
import sys
import warnings

import numcodecs
import numpy as np
import zarr


def described(node):
    """Return what is to be compared of a node and all below it."""
    found = {"attrs": dict(node.attrs)}
    if isinstance(node, zarr.Group):
        found["members"] = {name: described(node[name]) for name in sorted(node)}
    else:
        found.update(shape=node.shape, chunks=node.chunks, dtype=node.dtype.name)
    return found


def run(kind, root, path, action, options):
    from zarr.n5 import N5FSStore, N5Store  # noqa: PLC0415 - zarr 3 has no such module

    store = N5Store(root) if kind == "N5Store" else N5FSStore(root, auto_mkdir=True)
    if action == "create":
        codec = options.pop("compressor")
        compressor = codec and numcodecs.get_codec(codec)
        zarr.create(store=store, path=path, compressor=compressor, write_empty_chunks=False, **options)
        return None
    if action == "group":
        zarr.open_group(store, mode="a", path=path)
        return None
    node = zarr.open(store, mode="r" if action in ("read", "describe") else "r+", path=path)
    if action == "describe":
        return described(node)
    if action == "read":
        np.save(options, node[...])
    elif action == "write":
        node[tuple(slice(*part) for part in options["selection"])] = np.load(options["values"])
    elif action == "append":
        node.append(np.load(options["values"]), axis=options["axis"])
    elif action == "resize":
        node.resize(*options)
    elif action == "attrs":
        node.attrs.put(options)
    else:
        raise ValueError(action)
    return None


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # that its stores are deprecated
    for line in sys.stdin:
        try:
            answer = {"found": run(*json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
