"""The modules of bcolz: their names, and the real bcolz as the oracle of their functions."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import bcolz as real
import bcolz.utils as bcolz_utils
import numpy as np
import pytest
from bcolz.carray_ext import chunk as real_chunk
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tegula import TegulaError, bcolz
from tegula.bcolz import utils
from tegula.bcolz.carray_ext import chunk

MODULES = {
    "arrayprint": ["array2string", "get_printoptions", "set_printoptions"],
    "attrs": ["ATTRSDIR", "attrs"],
    "carray_ext": ["_blosc_set_nthreads", "blosc_compressor_list", "blosc_version", "carray", "chunk"],
    "chunked_eval": ["eval"],
    "ctable": ["ROOTDIRS", "cols", "ctable"],
    "defaults": ["Defaults", "defaults", "defaults_ctx"],
    "toplevel": ["arange", "cparams", "fromiter", "iterblocks", "open", "print_versions", "walk", "zeros"],
    "utils": ["build_carray", "calc_chunksize", "human_readable_size", "quantize", "to_ndarray"],
    "version": ["version"],
}


@pytest.mark.slow
@pytest.mark.sampled(one_in=24)
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("first", ["package", "module"])
def test_the_names_of_modules_and_their_members(name: str, first: str) -> None:
    lines = [f"from tegula.bcolz.{name} import {', '.join(MODULES[name])}", "import tegula.bcolz as bcolz"]
    lines += [
        f"import tegula.bcolz.{name}",
        "assert isinstance(bcolz.ctable, type) and bcolz.ctable.__name__ == 'ctable'",
        "assert type(bcolz.defaults).__name__ == 'Defaults'",
        "assert isinstance(bcolz.ctable([[1]]).attrs, bcolz.attrs.attrs)",
    ]
    code = "\n".join([*(lines[:2] if first == "module" else lines[1::-1]), *lines[2:]])
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=300)
    module = importlib.import_module(f"tegula.bcolz.{name}")
    for public in module.__all__:
        there = getattr(bcolz, public, None)
        assert there is None or there is getattr(module, public) or public in MODULES


@given(st.floats(0, 1e9, allow_nan=False) | st.integers(0, 10**12))
def test_sizes_of_chunks(size: float) -> None:
    assert utils.calc_chunksize(size) == bcolz_utils.calc_chunksize(size)
    assert utils.limit_es(size) == bcolz_utils.limit_es(size)
    if size > 1e-6:
        assert utils.csformula(size) == bcolz_utils.csformula(size)
    assert utils.human_readable_size(int(size)) == bcolz_utils.human_readable_size(int(size))


@given(
    values=hnp.arrays("i4", hnp.array_shapes(min_dims=0, max_dims=3), elements=st.integers(-9, 99)),
    source=st.sampled_from(["i4", "f8", "S3"]),
    dtype=st.sampled_from([None, "f4", "S2", "i8"]),
    transposed=st.booleans(),
    as_list=st.booleans(),
)
def test_conversion_to_an_array(values: Any, source: str, dtype: str | None, transposed: bool, as_list: bool) -> None:
    wanted = None if dtype is None else np.dtype(dtype)
    values = (values.T if transposed else values).astype(source)
    given_values = values.tolist() if as_list else values
    expected = bcolz_utils.to_ndarray(given_values, wanted)
    found = utils.to_ndarray(given_values, wanted)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert found.tobytes() == expected.tobytes()
    assert found.flags.c_contiguous


def test_conversion_to_a_number_of_rows() -> None:
    for values, dtype in ((7, "i4"), ([7], "i4"), (np.float64(2), "f8"), ([1, 2], ("i4", (2,)))):
        found = utils.to_ndarray(values, np.dtype(dtype), arrlen=3)
        expected = bcolz_utils.to_ndarray(values, np.dtype(dtype), arrlen=3)
        np.testing.assert_array_equal(found, expected)
    repeated = np.broadcast_to(np.int32(5), 4)
    assert utils.to_ndarray(repeated, np.dtype("i4")) is repeated
    assert utils.to_ndarray("anything", None, safe=False) == "anything"
    with pytest.raises(TypeError):
        utils.to_ndarray(repeated, np.dtype("f4"))
    with pytest.raises(ValueError, match="rows"):
        utils.to_ndarray([1, 2], np.dtype("i4"), arrlen=3)


@given(hnp.arrays(st.sampled_from(["f4", "f8"]), 5, elements=st.floats(-1e3, 1e3, width=32)), st.integers(0, 9))
def test_quantization(values: Any, digits: int) -> None:
    np.testing.assert_array_equal(utils.quantize(values, digits), bcolz_utils.quantize(values, digits))


def test_other_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ((0, 10, 3), (5, 5, 1), (7, 3, 2), (1, 2, 9)):
        assert utils.get_len_of_range(*arguments) == bcolz_utils.get_len_of_range(*arguments)
    bcolz.carray([1, 2], rootdir=str(tmp_path / "c")).flush()
    assert utils.build_carray(None, str(tmp_path / "c"))[:].tolist() == [1, 2]
    assert utils.show_stats("now", 0) > 0
    assert "VmRSS" in capsys.readouterr().out
    for wrong in (
        lambda: utils.csformula(0),
        lambda: utils.calc_chunksize("1"),
        lambda: utils.calc_chunksize(float("nan")),
        lambda: utils.quantize(np.arange(3), 1),
        lambda: utils.quantize(np.ones(3), 10**6),
        lambda: chunk([], np.dtype("i4"), bcolz.cparams()),
        lambda: chunk(3, np.dtype("i4"), bcolz.cparams()),
    ):
        with pytest.raises(TegulaError):
            wrong()


@given(
    values=hnp.arrays(st.sampled_from(["i8", "f4", "S3", "?"]), st.integers(2, 200), unique=False),
    selection=st.slices(200).filter(lambda s: (s.step or 1) > 0) | st.integers(0, 1),
)
def test_a_chunk(values: Any, selection: Any) -> None:
    ours = chunk(values, values.dtype, bcolz.cparams())
    np.testing.assert_array_equal(ours[selection], values[selection])
    assert (len(ours), ours.nbytes, ours.dtype) == (len(values), values.nbytes, values.dtype)
    theirs = real_chunk(values, values.dtype, real.cparams(), _memory=False)
    assert len(ours.getdata()) == ours.cbytes
    assert ours.getdata()[:4] == theirs.getdata()[:4]
    assert repr(ours).startswith(f"chunk({values.dtype})  nbytes: {values.nbytes}; cbytes: {ours.cbytes}; ratio: ")
    assert str(ours) == str(ours[:])
