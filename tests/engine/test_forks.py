"""Forks while threads of the pool use what they need for the first time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tegula

pytestmark = [
    pytest.mark.once(executors="both"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system"),
    pytest.mark.slow,
]


def run(code: str, *arguments: object, executor: str | None = None) -> str:
    environment = {**os.environ, **({} if executor is None else {"TEGULA_EXECUTOR": executor})}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=300, env=environment,
    )  # fmt: skip
    sys.stderr.write(done.stderr)  # where a child hung, say
    assert done.returncode == 0, done.stderr
    return done.stdout


# what is imported in another thread than the main one, which is the one that forks
WATCH = """
import os, signal, sys, threading
import numpy as np, tegula

class Watch:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread():
            print("imported by", threading.current_thread().name, name, flush=True)

sys.meta_path.insert(0, Watch)
array = tegula.open_array(sys.argv[1], "r+")
"""

FIRST_USES = {
    "read": "array.read().result()",
    "write": "array.write(..., np.arange(200_000)).result()",
    "chunks": "array[...]",
    "field": "array[:100_000] = array[100_000:]",
    "append": "array.append(np.arange(200_000))",
    "convert": "tegula.convert(array, {}, chunks=1000)",
    "copy": "tegula.convert(array, {}, format='zarr3' if array.format == 'zarr2' else 'zarr2')",
    "mapping": "tegula.save(store := {}, np.arange(10)); tegula.open_array(store, 'r+').write(3, 4).result()",
    "shrink": "array.resize(100_005)",
}
ARRAYS = {
    "zarr3": {"checksum": True},
    "sharded": {"shards": 20_000},
    "zlib": {"format": "zarr2", "codecs": "zlib"},
    "blosc": {"format": "zarr2"},
    "delta": {"format": "zarr2", "codecs": [{"id": "delta", "dtype": "<i4"}, {"id": "lz4"}]},
    "pcodec": {"format": "zarr2", "codecs": [{"id": "pcodec"}]},
    "bcolz": {"format": "bcolz"},
}  # type: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("arrays")
    for name, options in ARRAYS.items():
        made = tegula.create_array(place / name, shape=200_000, chunks=2000, dtype="i4", **options)
        made[:] = range(200_000)
    return place


@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("executor", ["auto", "reference"])
@pytest.mark.parametrize("name", ARRAYS)
def test_threads_of_the_pool_import_nothing(arrays: Path, tmp_path: Path, name: str, executor: str) -> None:
    code = (
        WATCH
        + """
for use in sys.argv[2:]:
    child = os.fork()  # each in a process that has used nothing yet
    if not child:
        exec(use)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, use
"""
    )
    shutil.copytree(arrays / name, tmp_path / name)
    assert run(code, tmp_path / name, *FIRST_USES.values(), executor=executor) == ""


FACE_USES = {
    "open": "opened()",
    "read": "opened().read().result()",
    "chunks": "opened()[5:150_000].read().result()",
    "write": "opened().write(np.arange(200_000, dtype='i4')).result()",
    "part": "opened()[3:7].write(5).result()",
    "batch": "batch = ts.Batch(); f = opened().read(batch=batch); batch.submit(); f.result()",
    "opened in a batch": "batch = ts.Batch(); f = ts.open(SPEC, batch=batch); batch.submit(); f.result()",
    "transaction": """
with ts.Transaction() as t:
    opened().with_transaction(t)[3:7] = 5""",
    "copy": """
target = ts.open("memory://a|zarr3:", create=True, dtype="int32", shape=[200_000]).result()
target.write(opened()).result()""",
    "cast": "ts.cast(opened(), ts.int64).read().result()",
    "stack": "ts.concat([opened(), opened()], axis=0).read().result()",
    "stack of specs": """
layer = {**SPEC, "transform": {"input_inclusive_min": [0], "input_exclusive_max": [200_000]}}
ts.open({"driver": "stack", "dtype": "int32", "layers": [layer]}).result().read().result()""",
    "key": "ts.KvStore.open(SPEC['kvstore']).result().write('key', b'1').result()",
    "downsample": "ts.downsample(opened(), [3], method='mean').read().result()",
    "resize": "opened().resize(exclusive_max=[100_005]).result()",
    "create": """
made = ts.open(SPEC, create=True, delete_existing=True, dtype="int32", shape=[50_000]).result()
made.write(1).result()""",
}  # type: dict[str, str]


@pytest.mark.nightly
@pytest.mark.parametrize("executor", ["auto", "reference"])
@pytest.mark.parametrize("name", ARRAYS)
def test_threads_of_tensorstores_interface_import_nothing(
    arrays: Path, tmp_path: Path, name: str, executor: str
) -> None:
    code = (
        WATCH.replace('array = tegula.open_array(sys.argv[1], "r+")', "import tegula.tensorstore as ts")
        + """
driver = {"zarr2": "zarr2", "bcolz": "bcolz"}.get(sys.argv[2], "zarr3")
SPEC = {"driver": driver, "kvstore": "file://" + sys.argv[1] + "/"}

def opened():
    return ts.open(SPEC).result()

for use in sys.argv[3:]:
    child = os.fork()  # each in a process that has used nothing yet
    if not child:
        exec(use)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, use
"""
    )
    format = ARRAYS[name].get("format", "zarr3")
    shutil.copytree(arrays / name, tmp_path / name)
    left_out = {"bcolz": {"transaction", "part", "create"}}.get(format, set())
    uses = [use for label, use in FACE_USES.items() if label not in left_out]
    assert run(code, tmp_path / name, format, *uses, executor=executor) == ""


STRESS = """
import faulthandler, os, random, sys, time
import numpy as np, tegula
paths = sys.argv[1:]
def use(a):
    futures = [a.read() for _ in range(4)]
    part = slice(random.randrange(1000), None)
    assert (a[part] == np.arange(200_000)[part]).all()
    a[part] = np.arange(200_000)[part]
    for future in futures:
        assert (future.result() == np.arange(200_000)).all()
arrays = [tegula.open_array(path, "r+") for path in paths]
futures, children = [], []
for number in range(4):
    futures += [array.read() for array in arrays]
    time.sleep(random.random() * 0.05)
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(200, exit=True)  # one that hangs says where, and ends
        for array in arrays:
            use(array)
        os._exit(0)
    children.append(child)
print(*(os.waitpid(child, 0)[1] for child in children))
for future in futures:
    future.result()
"""


@pytest.mark.sampled(one_in=38)
@pytest.mark.parametrize("executor", ["auto", "reference"])
def test_forks_at_random_moments_of_the_first_use(arrays: Path, executor: str) -> None:
    for _ in range(3):
        assert run(STRESS, *arrays.iterdir(), executor=executor) == "0 0 0 0\n"


# a child that is forked at some moment of an append and then does nothing
LOCKS = """
import os, sys, threading, time
import tegula
from tegula.stores.local import directories

directory, format, moment = sys.argv[1:]
table = tegula.create_table(directory, {"a": [1, 2], "b": [1, 2]}, format=format, chunks=100)
table.append({"a": [3], "b": [3]})
there, forked = threading.Event(), threading.Event()

def stop():
    there.set()
    forked.wait(5)

def closing(low, high, usual=os.closerange):  # the lock of the table is about to be given back
    name = os.readlink(f"/proc/self/fd/{low}")
    if threading.current_thread() is worker and name.endswith(("a/meta/storage", "a/zarr.json")):
        stop()
    usual(low, high)

def generation_of(*args, usual=directories.generation_of):  # the temporary file of the length is locked
    if threading.current_thread() is worker and len(args) == 3 and b"shape" in bytes(args[2] or b""):
        seen.append(args)
        if len(seen) == 2:
            stop()
    return usual(*args)

seen = []
if moment == "close":
    os.closerange = closing
else:
    directories.generation_of = generation_of
worker = threading.Thread(target=lambda: table.append({"a": [4], "b": [4]}))
worker.start()
assert there.wait(5)
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
forked.set()
worker.join()
begun = time.monotonic()
table.append({"a": [5], "b": [5]})
print(time.monotonic() - begun < 30, len(table))
os.kill(child, 9)
"""


@pytest.mark.sampled(one_in=5)
@pytest.mark.skipif(sys.platform != "linux", reason="it looks up the names of open files")
@pytest.mark.parametrize(("format", "moment"), [("bcolz", "close"), ("zarr3", "close"), ("zarr3", "write")])
def test_a_child_keeps_no_lock(format: str, moment: str, tmp_path: Path) -> None:
    executor = "reference" if moment == "write" else None
    assert run(LOCKS, tmp_path / "t", format, moment, executor=executor) == "True 5\n"
