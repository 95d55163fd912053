"""Whether an installed tegula works: that its kernel is there, and that an array comes back as it was written."""

import sys
import sysconfig
import tempfile
from importlib.resources import files
from pathlib import Path

import numpy as np

import tegula
from tegula import _kernel
from tegula.runtime import executors

assert _kernel.__version__ == tegula.__version__
assert executors.choose("auto") is _kernel
for name in ("py.typed", "_kernel.pyi", "server/page/index.html"):
    assert files(tegula).joinpath(name).is_file(), f"{name} is not installed"

values = np.arange(1_000_000, dtype="<i4").reshape(1000, 1000)
with tempfile.TemporaryDirectory() as place:
    path = Path(place, "x.zarr")
    tegula.save(path, values)
    assert np.array_equal(tegula.load(path), values)
    assert np.array_equal(tegula.open_array(path)[::-3, 5], values[::-3, 5])
# NumPy makes scalars of the memory of single elements, differently for each kind of type
numbers = np.arange(65, 74, dtype="i8")
samples = [numbers.astype(kind) for kind in ("?", "i1", ">u8", "f2", "c16", "M8[s]", "m8[D]", "S9", "U1", "U9")]
samples += [np.arange(45, dtype="u1").view("V5"), np.array([*zip(numbers, numbers.astype("U3"))], "i4,U3")]
for some in samples:
    array = tegula.create((9,), 4, some.dtype)
    array[...] = some
    assert all(array[at] == value for at, value in enumerate(some)), f"elements of {some.dtype} differ"
# an interpreter without its lock takes it again when a module is imported that does not declare to work without it
assert not (sysconfig.get_config_var("Py_GIL_DISABLED") and sys._is_gil_enabled())
print(f"tegula {tegula.__version__} works")
