"""The calls that the documentation of zarr-python 2 and 3, h5py and bcolz begins with, and what each gives here.

Each line is code of such a program. It runs on both libraries, and gives the same; or the second text is how it is
written with tegula; or it says what the error names. Of zarr-python 2, which is not installed, the results stand here.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tegula

pytestmark = pytest.mark.once(executors="both")

VALUES = np.arange(24, dtype="f4").reshape(4, 6)


class Refused(str):
    """The words of an error: the name that tegula has for something."""


class Call(NamedTuple):
    theirs: str
    ours: str = ""  # the same by default
    gives: Any = None  # without the other library


ZARR3 = [
    Call("zarr.create_array(new, shape=(4, 6), dtype='f4', chunks=(2, 3)).chunks"),
    Call("zarr.create_array(store=new, data=values, chunks=(2, 3))[1]"),
    Call("zarr.create_array(new, shape=(4, 6), dtype='f4', chunks=(2, 3), shards=(4, 6)).shards"),
    Call("zarr.create_array(new, shape=4, dtype='i4', fill_value=7)[:]"),
    Call("zarr.create_array(new, data=values, compressors=None)", Refused("in tegula that is codecs=")),
    Call("zarr.create_array(new, data=values, zarr_format=2)", Refused('format="zarr2" or "zarr3"')),
    Call("zarr.open(path, mode='r')[1]"),
    Call("zarr.open_array(path, mode='r+')[:, 2]"),
    Call("zarr.open_group(new, mode='w')"),
    Call("zarr.open_group(new, mode='a').create_group('a').path"),
    Call("zarr.create_group(new, attributes={'title': 't'}).attrs['title']"),
    Call("zarr.group()"),
    Call("zarr.save(new, values); zarr.load(new)"),
    Call("zarr.save(new, x=values); zarr.open_group(new, mode='r')['x']"),
    Call("zarr.save_array(new, values); zarr.load(new)"),
    Call("zarr.save_group(new, values, y=values); sorted(zarr.open_group(new, mode='r'))"),
    Call("zarr.array(values)"),
    Call("zarr.zeros((2, 3))"),
    Call("zarr.ones((2, 3), dtype='i4')"),
    Call("zarr.full((2, 3), 7.5)"),
    Call("zarr.empty((2, 3)).shape"),
    Call("zarr.zeros_like(z)"),
    Call("zarr.from_array(new, data=z)[1]"),
    Call("zarr.consolidate_metadata(group_path)"),
    Call("zarr.open_consolidated(consolidated_path)['z'][0]"),
    Call("g.create_array('x', shape=(2, 3), dtype='i4')"),
    Call("g.create_array('x', data=values)"),
    Call("g.create_group('b').path"),
    Call("g.require_group('a')"),
    Call("g.require_array('z', shape=(4, 6), dtype='f4')"),
    Call("g['z'][1:3, ::2]"),
    Call("g['a/y']"),
    Call("'z' in g, 'q' in g, len(g), sorted(g), sorted(g.keys())"),
    Call("[*g.array_keys()], [*g.group_keys()], g.nmembers(), g.nmembers(max_depth=None)"),
    Call("[name for name, _ in g.arrays()], [name for name, _ in g.groups()]"),
    Call("sorted(name for name, _ in g.members())"),
    Call("sorted(name for name, _ in g.members(max_depth=None))", "sorted(name for name, _ in g.walk())"),
    Call("del g['z']; sorted(g)"),
    Call("str(g.tree()).split()[0]"),
    Call("g.attrs['title'] = 't'; g.attrs.asdict()"),
    Call("g.update_attributes({'a': 1}).attrs['a']"),
    Call("z[1], z[1:3, ::2], z[-1, 2], z[...]"),
    Call("z[0] = 5; z[1:3, 2] = [7, 8]; z[:] * 2"),
    Call("z.oindex[[0, 2], [1, 3]], z.vindex[[0, 2], [1, 3]], z.blocks[0, 1]"),
    Call("z.get_basic_selection((slice(1, 3), 2)), z.get_orthogonal_selection(([0, 2], slice(2)))"),
    Call("z.get_coordinate_selection(([0, 2], [1, 3])), z.get_mask_selection(values > 20)"),
    Call("z.get_block_selection((0, 1))"),
    Call("z.set_basic_selection((0, slice(None)), 9); z.set_orthogonal_selection(([1, 2], [0]), 8); z[:, :2]"),
    Call("z.set_coordinate_selection(([0, 1], [2, 3]), [5, 6]); z.set_mask_selection(values > 20, 0); z[:]"),
    Call("z.set_block_selection((0, 1), 4); z[:]"),
    Call("z.append(values[:2])"),
    Call("z.resize((2, 6)); z.shape"),
    Call("z.shape, z.dtype, z.ndim, z.size, z.nbytes, z.chunks, z.fill_value"),
    Call("z.nchunks, z.cdata_shape, z.path, z.read_only, z.order, z.basename"),
    Call("z.nchunks_initialized", "z.nchunks_initialized()"),
    Call("z.attrs['units'] = 'K'; dict(z.attrs)"),
    Call("z.compressors[0].to_dict()['name']", "z.compressors[0]['name']"),
    Call("zarr.tree(g)", "str(zarr.tree(g)).splitlines()[0]", "/"),
]

H5PY = [
    Call("h5py.File(new, 'w')", Refused("in tegula that is open or open_group")),
    Call("f['z']"),
    Call("f['/a/y'][:]"),
    Call("f['a']['/z'].shape"),
    Call("f.create_dataset('x', (3, 4)).dtype"),
    Call("f.create_dataset('x', (3, 4), dtype='i8').shape"),
    Call("f.create_dataset('x', shape=(3, 4), dtype='i4', chunks=(1, 4)).chunks"),
    Call("f.create_dataset('x', data=values)"),
    Call("f.create_dataset('x', (6, 4), data=values)"),
    Call("f.create_dataset('x', (24,), 'i4', data=values)"),
    Call("f.create_dataset('/b/c/x', (3,), 'i4'); f['b/c/x'].shape"),
    Call("f['a'].create_dataset('/top', (3,), 'i4'); sorted(f)"),
    Call("f.create_dataset('x', (3, 4), chunks=True).shape"),
    Call(
        "f.create_dataset('x', (3, 4), compression='gzip')", Refused('in tegula that is codecs=, such as codecs="gzip"')
    ),
    Call("f.create_dataset('x', (3, 4), maxshape=(None, 4)).maxshape", Refused("every array can be resized")),
    Call(
        "f.create_dataset('x', (3, 4), fillvalue=7).fillvalue", "f.create_dataset('x', (3, 4), fill_value=7).fillvalue"
    ),
    Call("f.create_dataset('x', data='text')[()]", "str(f.create_dataset('x', data='text')[()])", "text"),
    Call("f['x'] = values; f['x']"),
    Call("f['a/x'] = [1, 2, 3]; f['a/x']"),
    Call("f.require_dataset('z', (4, 6), 'f4')"),
    Call("f.require_dataset('x', (2,), dtype='f8').shape"),
    Call("f.create_group('b/c'); sorted(f['b'])"),
    Call("f.require_group('a')"),
    Call("sorted(f.keys()), len(f), 'z' in f, 'a/y' in f, 'q' in f"),
    Call("sorted(name for name, _ in f.items())"),
    Call("len([*f.values()])"),
    Call("f.get('q'), f.get('z').shape, f.get('q', 5)"),
    Call("names = []; f.visit(names.append); sorted(names)"),
    Call("f.visit(lambda name: name if name.endswith('y') else None)"),
    Call("f.visititems(lambda name, node: name if hasattr(node, 'shape') else None)"),
    Call("del f['z']; sorted(f)"),
    Call("f.move('z', 'a/moved'); sorted(f['a'])"),
    Call("f.copy('z', 'copy'); f['copy']"),
    Call("f.copy('z', f['a'], name='w'); f['a/w']"),
    Call("f.attrs['title'] = 't'; f.attrs['title'], 'q' in f.attrs, f.attrs.get('q'), len(f.attrs)"),
    Call("d.attrs.update({'a': 1}); d.attrs['a']"),
    Call("d[0], d[1:3, ::2], d[-1, 2], d[...], d[()]"),
    Call("d[0, [1, 3]], d[[0, 2]], d[values[:, 0] > 5]"),
    Call("d[0] = 5; d[1:3, 2] = [7, 8]; d[...]"),
    Call("d.shape, d.dtype, d.ndim, d.size, d.nbytes, d.chunks, d.fillvalue, len(d)"),
    Call("d.read_direct(out, np.s_[1:3], np.s_[:2]); out"),
    Call("d.write_direct(values * 2, np.s_[1:3], np.s_[:2]); d[...]"),
    Call("d.astype('i4')[1]"),
    Call("d.resize((4, 6)); d.shape"),
    Call("[tuple((part.start, part.stop) for part in region) for region in d.iter_chunks()]"),
    Call("d.name, f.name", "f'/{d.path}', f'/{f.path}'"),
    Call("d.compression", Refused("in tegula that is compressor")),
    Call("np.asarray(d)"),
    Call("float(d[:].mean()), max(row.max() for row in d)"),
    Call("d.parent", Refused("tegula.open")),
]

BCOLZ = [
    Call("bcolz.carray(values)[1]"),
    Call("bcolz.carray([1, 2, 3], dtype='i2').dtype"),
    Call("bcolz.carray(values, rootdir=new, mode='w').rootdir == new"),
    Call("bcolz.carray(values, cparams=bcolz.cparams(clevel=9, shuffle=1)).cparams.clevel"),
    Call("bcolz.open(bcolz.carray(values, rootdir=new, mode='w').rootdir, mode='r')[2]"),
    Call("bcolz.zeros(5, 'i4')[:]"),
    Call("bcolz.ones((2, 3))[:]"),
    Call("bcolz.fill((2, 3), 7)[:]"),
    Call("bcolz.arange(2, 20, 3)[:]"),
    Call("bcolz.fromiter((i * i for i in range(5)), dtype='i8', count=5)[:]"),
    Call("len(b), b.shape, b.dtype, b.ndim, b.size, b.itemsize"),
    Call("b.nbytes, b.dflt, b.chunklen"),
    Call("b[1], b[-1], b[1:3], b[::2]"),
    Call("bcolz.arange(4)[[0, 2]], bcolz.arange(4)[np.array([True, False, True, False])]"),
    Call("b[0] = 5; b[1:3] = 7; b[:]"),
    Call("b.append(values[:2]); len(b)"),
    Call("b.trim(2); len(b)"),
    Call("b.resize(6); b[:]"),
    Call("b.copy()[:]"),
    Call("b.reshape((8, 3))[:]"),
    Call("bcolz.arange(10).sum()"),
    Call("[*bcolz.arange(10).iter(2, 8, 2)]"),
    Call("[*bcolz.carray([1, 0, 1, 1], dtype='bool').wheretrue()]"),
    Call("[*bcolz.arange(5).where(np.array([0, 1, 0, 1, 1], bool))]"),
    Call("b.attrs['a'] = 1; b.attrs['a'], len(b.attrs)"),
    Call("b.flush()"),
    Call("len(t), t.names, t.dtype.names, t.size"),
    Call("t['i'][:], t[1], t[:2]"),
    Call("t[['i']][:]"),
    Call("t['x'][0]"),
    Call("t.append((9, 9.5)); len(t), t[-1]"),
    Call("t.addcol([7, 8, 9], name='n'); t.names"),
    Call("t.delcol('x'); t.names"),
    Call("t.trim(1); len(t)"),
    Call("t.resize(5); t['i'][:]"),
    Call("[*t.where('i > 0')]"),
    Call("[row.x for row in t.where('i > 0', outcols=['x'])]"),
    Call("t.fetchwhere('x < 2')[:]"),
    Call("t.eval('2 * i')[:]"),
    Call("t['i > 1']"),
    Call("[row.i for row in t.iter(1)]"),
    Call("[block['i'].sum() for block in bcolz.iterblocks(t, 2)]"),
    Call("t.copy().names"),
    Call("bcolz.ctable((bcolz.arange(3), [1, 2, 3]), names=['a', 'b'])[1]"),
    Call("bcolz.ctable(np.zeros(2, 'i4,f8')).names"),
    Call("bcolz.eval('v + 1', user_dict={'v': bcolz.arange(4)})[:]"),
    Call("bcolz.set_nthreads(1) >= 1"),
    Call("bcolz.detect_number_of_cores() >= 1"),
]

ZARR2 = [
    Call("zarr.zeros((4, 6), chunks=(2, 3), dtype='i4')", gives=np.zeros((4, 6), "i4")),
    Call("zarr.ones((2, 3))", gives=np.ones((2, 3))),
    Call("zarr.full((2, 3), fill_value=7)[:]", gives=np.full((2, 3), 7)),
    Call("zarr.empty((2, 3)).shape", gives=(2, 3)),
    Call("zarr.create((2, 3), dtype='i4', fill_value=1)[:]", gives=np.ones((2, 3), "i4")),
    Call("zarr.create(4, chunks=2, store=new).nchunks", gives=2),
    Call("zarr.array(values, chunks=(2, 3))", gives=VALUES),
    Call("zarr.array(values, compressor=None)", Refused("codecs=None for none")),
    Call("zarr.array(values, order='F').order", gives="F"),
    Call("zarr.zeros_like(z)", gives=np.zeros((4, 6), "f4")),
    Call("zarr.open(new, mode='w', shape=(3,), chunks=(2,), dtype='i4')[:]", gives=np.zeros(3, "i4")),
    Call("zarr.open(path, mode='r')[1]", gives=VALUES[1]),
    Call("zarr.open_array(new, mode='a', shape=(3,), dtype='f8').shape", gives=(3,)),
    Call("zarr.open_group(new, mode='w').path", gives=""),
    Call("zarr.group(store=new, overwrite=True).path", gives=""),
    Call("zarr.group().create_dataset('x', shape=(2, 3), dtype='i4').shape", gives=(2, 3)),
    Call("zarr.save(new, values); zarr.load(new)", gives=VALUES),
    Call("zarr.save_array(new, values); zarr.open_array(new, mode='r')[1]", gives=VALUES[1]),
    Call("zarr.save_group(new, values); sorted(zarr.load(new))", gives=["arr_0"]),
    Call("zarr.consolidate_metadata(group_path)", gives=["a", "z"]),
    Call("zarr.open_consolidated(consolidated_path)['a/y'].shape", gives=(3,)),
    Call("zarr.copy(g['z'], g['a'])", Refused("already exists")),
    Call("zarr.copy_store(new, new)", Refused("in tegula that is copy")),
    Call("zarr.DirectoryStore(new)", Refused("LocalStore, or the path")),
    Call("zarr.ThreadSynchronizer()", Refused("not needed: writers that share a chunk")),
    Call("zarr.tree(g)", "str(zarr.tree(g)).splitlines()[0]", "/"),
    Call("g.create_dataset('x', shape=(2, 3), dtype='i4', chunks=(1, 3)).chunks", gives=(1, 3)),
    Call("g.create_dataset('x', data=values)", gives=VALUES),
    Call("g.require_dataset('z', shape=(4, 6), dtype='f4')", gives=VALUES),
    Call("g.array('x', values)", gives=VALUES),
    Call("g.zeros('x', shape=(2, 3), dtype='i4')", gives=np.zeros((2, 3), "i4")),
    Call("g.ones('x', shape=3)", gives=np.ones(3)),
    Call("g.full('x', shape=3, fill_value=2, dtype='i4')", gives=np.full(3, 2, "i4")),
    Call("g.empty('x', shape=3).shape", gives=(3,)),
    Call("[group.path for group in g.create_groups('p', 'q')]", gives=["p", "q"]),
    Call("[group.path for group in g.require_groups('a', 'q')]", gives=["a", "q"]),
    Call("[*g.array_keys()], [*g.group_keys()]", gives=(["z"], ["a"])),
    Call("len([*g.arrays()]), len([*g.groups()])", gives=(1, 1)),
    Call("names = []; g.visitkeys(names.append); names", gives=["a", "a/y", "z"]),
    Call("names = []; g.visitvalues(lambda node: names.append(node.path)); names", gives=["a", "a/y", "z"]),
    Call("g.move('z', 'a/moved'); sorted(g['a'])", gives=["moved", "y"]),
    Call("g['/a/y'].path, g['a']['/z'].path", gives=("a/y", "z")),
    Call("z[1:3, ::2]", gives=VALUES[1:3, ::2]),
    Call("z[:, 0] = 9; z[:, 0]", gives=np.full(4, 9, "f4")),
    Call("z.get_orthogonal_selection(([0, 2], [1]))", gives=VALUES[[0, 2]][:, [1]]),
    Call("z.set_mask_selection(values > 20, 0); z[3]", gives=np.array([18, 19, 20, 0, 0, 0], "f4")),
    Call("r.get_basic_selection(slice(1, 3), fields='n')", gives=np.array([2, 3], "i4")),
    Call("z.append(values)", gives=(8, 6)),
    Call("z.resize(2, 3); z[:]", gives=VALUES[:2, :3]),
    Call("z.attrs.put({'a': 1}); z.attrs.asdict()", gives={"a": 1}),
    Call("[row[0] for row in z.islice(1, 3)]", gives=[6.0, 12.0]),
    Call("z.nchunks, z.cdata_shape, z.itemsize, z.fill_value, z.order", gives=(4, (2, 2), 4, 0.0, "C")),
    Call("z.basename, z.path, z.read_only", gives=("z", "z", False)),
    Call("z.hexdigest()", Refused("tegula.checksum")),
    Call("z.info['Shape']", gives=(4, 6)),
]


def plain(value: Any) -> Any:
    """Return a result as what can be compared: arrays as shape, type and elements, groups as names."""
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping) and not isinstance(value, dict):
        return sorted(value)
    if hasattr(value, "keys") and hasattr(value, "create_group"):
        return sorted(value)
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "dtype"):
        array = np.asarray(value[...])
        return (array.shape, array.dtype.str, array.tolist()) if array.shape else array.item()
    return value


def run(code: str, names: dict[str, Any]) -> Any:
    *statements, last = code.split("; ")
    for statement in statements:
        exec(statement, names)
    return plain(eval(last, names))


def names_of(library: Any, folder: Path, word: str) -> dict[str, Any]:
    """Return what the calls use: a group with an array `z`, and a group `a` with an array `a/y`."""
    folder.mkdir()
    names: dict[str, Any] = {word: library, "np": np, "values": VALUES.copy(), "out": np.zeros((4, 6))}
    names |= {name: str(folder / name) for name in ("new", "path", "group_path", "consolidated_path")}
    if word == "bcolz":
        made = {"b": library.carray(VALUES), "t": library.ctable(([0, 1, 2], [0.5, 1.5, 2.5]), names=["i", "x"])}
        return {**names, **made}
    if word == "h5py" and library is not tegula:
        group = library.File(folder / "x.h5", "w")
    else:
        group = library.open_group(str(folder / "x.zarr"), mode="w")
    for root in [group] if word == "h5py" else [group, library.open_group(names["group_path"], mode="w")]:
        make = root.create_dataset if word == "h5py" and library is not tegula else root.create_array
        more = {"maxshape": (None, None)} if word == "h5py" and library is not tegula else {}
        make("z", shape=(4, 6), dtype="f4", chunks=(2, 3), **more)[...] = VALUES
        make("a/y", shape=(3,), dtype="i4")
    names |= {"g": group, "z": group["z"], "f": group, "d": group["z"]}
    if word == "zarr":
        library.save(names["path"], VALUES)
        library.open_group(names["consolidated_path"], mode="w").create_array("z", shape=3, dtype="i4")
        library.open_group(names["consolidated_path"], mode="a").create_array("a/y", shape=3, dtype="i4")
        library.consolidate_metadata(names["consolidated_path"])
    return names


def check(call: Call, ours: Any, theirs: Any, word: str, folder: Path) -> None:
    names = names_of(ours, folder / "ours", word)
    if word == "zarr":
        names["r"] = tegula.array(np.array([(1, 0.5), (2, 1.5), (3, 2.5)], [("n", "i4"), ("x", "f8")]))
    if isinstance(call.ours, Refused):
        with pytest.raises(Exception, match=re.escape(call.ours)):
            run(call.theirs, names)
        return
    result = run(call.ours or call.theirs, names)
    wanted = plain(call.gives) if theirs is None or call.gives is not None else None
    if wanted is None and theirs is not None:
        wanted = run(call.theirs, names_of(theirs, folder / "theirs", word))
    assert result == wanted


@pytest.mark.filterwarnings("ignore")  # of the other libraries, on names that they will drop
@pytest.mark.parametrize("call", ZARR3, ids=lambda call: call.theirs)
def test_calls_of_zarr_python_3(call: Call, tmp_path: Path) -> None:
    check(call, tegula, pytest.importorskip("zarr", minversion="3"), "zarr", tmp_path)


@pytest.mark.parametrize("call", ZARR2, ids=lambda call: call.theirs)
def test_calls_of_zarr_python_2(call: Call, tmp_path: Path) -> None:
    check(call, tegula, None, "zarr", tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", H5PY, ids=lambda call: call.theirs)
def test_calls_of_h5py(call: Call, tmp_path: Path) -> None:
    check(call, tegula, pytest.importorskip("h5py"), "h5py", tmp_path)


@pytest.mark.slow  # importing bcolz starts a process
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", BCOLZ, ids=lambda call: call.theirs)
def test_calls_of_bcolz(call: Call, tmp_path: Path) -> None:
    check(call, importlib.import_module("tegula.bcolz"), pytest.importorskip("bcolz"), "bcolz", tmp_path)


def test_there_are_forty_calls_of_each() -> None:
    assert min(map(len, (ZARR2, ZARR3, H5PY, BCOLZ))) >= 40
