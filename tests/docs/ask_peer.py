"""Ask another library which arrays of ``extension_cases.py`` it reads: ``python ask_peer.py FOLDER zarr``.

The others are ``tensorstore`` and ``zarrs``. It runs where tegula is not installed, and adds the answers to
``extension_peers.json``. An array counts as read if its elements are equal, or if only the library itself can say what
they are.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np


def read_zarr(path):
    import zarr  # noqa: PLC0415 - only one of these libraries is installed

    with zarr.config.set({"array.rectilinear_chunks": True}):
        return zarr.open_array(str(path), mode="r")[...]


def read_tensorstore(path):
    import tensorstore  # noqa: PLC0415

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{path}/"}}
    return tensorstore.open(spec, open=True, read=True).result().read().result()


def read_zarrs(path):
    import zarrista  # noqa: PLC0415

    array = zarrista.Array.open(zarrista.store.FilesystemStore(str(path)), path="/")
    tensor = array[...]
    try:
        return tensor.to_numpy()
    except TypeError:  # NumPy has no such type
        if not hasattr(tensor, "mask"):
            return None
        mask = tensor.mask.to_numpy()
        values = np.frombuffer(tensor.data.buffer(), "u1").reshape(*mask.shape, -1)
        records = np.concatenate([values, mask.view("u1")[..., None]], axis=-1)
        return records.view(f"V{records.shape[-1]}")[..., 0]


READERS = {
    "zarr": (read_zarr, "zarr"),
    "tensorstore": (read_tensorstore, "tensorstore"),
    "zarrs": (read_zarrs, "zarrista"),
}


def is_right(found, wanted):
    if found is None or wanted is None:
        return True
    if "texts" in wanted:
        return [each.decode() if isinstance(each, bytes) else str(each) for each in found.ravel().tolist()] == wanted[
            "texts"
        ]
    return found.astype(found.dtype.newbyteorder("<")).tobytes().hex() == wanted["bytes"]


def main(folder, peer):
    reader, package = READERS[peer]
    answers = {}
    for case in json.loads((folder / "index.json").read_text()):
        try:
            good = is_right(reader(folder / case["folder"]), case["values"])
        except Exception as error:
            print(case["name"], repr(error)[:150], file=sys.stderr)
            good = False
        answers[case["kind"] + " " + case["name"]] = good
    kept = Path(__file__).with_name("extension_peers.json")
    known = json.loads(kept.read_text()) if kept.exists() else {}
    known[peer] = {"package": package, "version": version(package), "reads": answers}
    kept.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
