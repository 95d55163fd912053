"""Convert the legacy arrays beside this file to Zarr v3, check every value, and show what came of it.

Run it from the clone, as often as you like::

    python examples/convert_legacy.py [FOLDER]

It writes to ``example-output`` unless told otherwise, ends with status 1 if a single bit is different, and prints::

    snow.zarr1 (Zarr v1) → example-output/snow.zarr (Zarr v3)
    ...
      depth             (31, 40, 56)   ... bytes stored  every value equal
    ...
    All arrays are equal to their originals.
"""

import sys
from pathlib import Path

import numpy as np

import tegula

LEGACY = Path(__file__).resolve().parent / "legacy"
SOURCES = {"snow.zarr1": "Zarr v1", "stations.zarr2": "Zarr v2", "prices.bcolz": "bcolz", "wind.bcolz": "bcolz"}


def main(folder: Path) -> int:
    """Convert each hierarchy, once verified by tegula and once against the values its writer noted down."""
    same = True
    with np.load(LEGACY / "expected.npz") as expected:
        for source, old in SOURCES.items():
            target = folder / f"{Path(source).stem}.zarr"
            report = tegula.convert(LEGACY / source, target, format="zarr3", verify=True, overwrite=True)
            print(f"{source} ({old}) → {target} (Zarr v3)\n")
            for item in report.arrays:
                values = np.asarray(tegula.open_array(target, path=item.path)[...])
                wanted = expected[f"{source}/{item.path}".rstrip("/")]
                equal = bool(item.verified) and values.astype(wanted.dtype).tobytes() == wanted.tobytes()
                same &= equal
                print(
                    f"  {item.path or '/':17} {item.shape!s:13}"
                    f" {item.nbytes_before:7,} → {item.nbytes_after:7,} bytes stored"
                    f"  {'every value equal' if equal else 'DIFFERENT'}"
                )
                for note in item.notes:
                    print(f"    {note}")
            for path, reason in report.failed.items():
                print(f"  {path}: not converted: {reason}")
            same &= report.ok
            node = tegula.open(target)
            print(f"\n{node.info if isinstance(node, tegula.Array) else node.tree()}\n")
    print("\nAll arrays are equal to their originals." if same else "\nSomething is different, see above.")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-output")))
