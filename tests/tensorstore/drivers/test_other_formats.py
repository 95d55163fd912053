"""Formats that TensorStore lacks, detected formats, plain paths, and attributes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tegula
import tegula.tensorstore as ts

VALUES = np.arange(12, dtype="<i4").reshape(4, 3)


def where(path: Path) -> dict[str, Any]:
    return {"driver": "file", "path": str(path)}


@pytest.mark.parametrize("driver", ["zarr1", "bcolz", "zarr", "zarr3"])
def test_life_of_an_array(driver: str, tmp_path: Path) -> None:
    spec = {"driver": driver, "kvstore": where(tmp_path / "a")}
    array = ts.open(spec, create=True, dtype=ts.int32, shape=[4, 3], fill_value=7).result()
    assert array.read().result().tolist() == [[7] * 3] * 4
    array[...] = VALUES
    np.testing.assert_array_equal(tegula.open_array(tmp_path / "a")[:], VALUES)
    again = ts.open(tmp_path.as_posix() + "/a").result()
    assert again.spec().to_json()["driver"] == driver
    np.testing.assert_array_equal(again[1:3, ::2].read().result(), VALUES[1:3, ::2])
    np.testing.assert_array_equal(again[[3, 0]].read().result(), VALUES[[3, 0]])
    grown = again.resize(exclusive_max=[6, 3]).result()
    assert grown.shape == (6, 3)
    assert grown[4:].read().result().tolist() == [[7] * 3] * 2
    assert array.shape == (4, 3)
    assert array.resolve().result().shape == (6, 3)
    assert grown.fill_value == 7
    spec_again = ts.Spec(grown.spec().to_json())
    assert ts.open(spec_again).result().shape == (6, 3)


@pytest.mark.parametrize("driver", ["zarr1", "bcolz"])
def test_open_modes_mean_the_same(driver: str) -> None:
    context = ts.Context()
    spec = {"driver": driver, "kvstore": "memory://a/"}
    with pytest.raises(ValueError, match=r"^NOT_FOUND: "):
        ts.open(spec, context=context).result()
    options: dict[str, Any] = {"dtype": ts.uint8, "shape": [5], "context": context}
    ts.open(spec, create=True, **options).result()[...] = 1
    with pytest.raises(ValueError, match=r"^ALREADY_EXISTS: "):
        ts.open(spec, create=True, **options).result()
    assert ts.open(spec, create=True, open=True, **options).result().read().result().tolist() == [1] * 5
    for wrong in ({"dtype": ts.int8}, {"shape": [4]}, {"rank": 2}):
        with pytest.raises(ValueError, match=r"Mismatch between metadata and schema|FAILED_PRECONDITION"):
            ts.open(spec, context=context, **wrong).result()
    with pytest.raises(ValueError, match='Expected "shape"'):
        ts.open({**spec, "metadata": {"shape": [4]}}, context=context).result()
    fresh = ts.open(spec, create=True, delete_existing=True, **options).result()
    assert fresh.read().result().tolist() == [0] * 5
    with pytest.raises(ValueError, match='Object includes extra members: "x"'):
        ts.Spec({**spec, "metadata": {"x": 1}})
    with pytest.raises(ValueError, match='"shape": Expected array, but received: 5'):
        ts.Spec({**spec, "metadata": {"shape": 5}})


def test_what_a_zarr1_array_is_made_of(tmp_path: Path) -> None:
    spec = {
        "driver": "zarr1",
        "kvstore": where(tmp_path / "a"),
        "metadata": {"chunks": [2, 3], "compression": "zlib", "compression_opts": 3, "order": "F", "dtype": ">i2"},
    }
    array = ts.open(spec, create=True, shape=[4, 3]).result()
    assert array.dtype == ts.int16
    assert array.chunk_layout.to_json() == {
        "grid_origin": [0, 0],
        "inner_order": [0, 1],  # only Blosc chunks were ever written in Fortran order
        "read_chunk": {"shape": [2, 3]},
        "write_chunk": {"shape": [2, 3]},
    }
    assert array.codec is not None
    assert array.codec.to_json() == {"driver": "zarr1", "compression": "zlib", "compression_opts": 3}


def test_columns_of_a_table(tmp_path: Path) -> None:
    tegula.create_table(tmp_path / "t", {"n": np.arange(5), "x": np.linspace(0, 1, 5)}, format="bcolz")
    spec = {"driver": "bcolz", "kvstore": where(tmp_path / "t")}
    x = ts.open({**spec, "field": "x"}).result()
    assert x.dtype == ts.float64
    x[1:3] = 9
    assert tegula.open_table(tmp_path / "t")["x"][:].tolist() == [0, 9, 9, 0.75, 1]
    with pytest.raises(ValueError, match='Must specify a "field" that is one of: \\["n","x"\\]'):
        ts.open(spec).result()
    with pytest.raises(ValueError, match='Requested field "z" is not one of'):
        ts.open({**spec, "field": "z"}).result()


@pytest.mark.parametrize("driver", ["zarr1", "bcolz", "zarr", "zarr3"])
def test_attributes_are_stored_with_the_array(driver: str, tmp_path: Path) -> None:
    spec = {"driver": driver, "kvstore": where(tmp_path / "a")}
    array = ts.open(spec, create=True, dtype=ts.int32, shape=[4]).result()
    assert dict(array.attributes) == {}
    array.attributes.update(units="K", scale=[1, 2])
    del array.attributes["scale"]
    again = ts.open(spec).result()
    assert dict(again.attributes) == {"units": "K"}
    assert dict(tegula.open_array(tmp_path / "a").attrs) == {"units": "K"}
    again[...] = 3
    assert array.read().result().tolist() == [3] * 4
    with pytest.raises(KeyError):
        array.attributes["nothing"]


def test_units_stay_beside_other_attributes() -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": {"attributes": {"a": 1}}}
    context = ts.Context()
    options: dict[str, Any] = {"dtype": ts.int32, "shape": [4], "dimension_units": ["4 nm"], "context": context}
    array = ts.open(spec, create=True, **options).result()
    assert dict(array.attributes) == {"a": 1, "dimension_units": ["4 nm"]}
    array.attributes["b"] = 2
    again = ts.open({"driver": "zarr3", "kvstore": "memory://"}, context=context).result()
    assert again.spec().to_json()["metadata"]["attributes"] == {
        "a": 1,
        "b": 2,
        "dimension_units": ["4 nm"],
    }


def test_formats_found_out() -> None:
    context = ts.Context()
    for driver in ("zarr", "zarr3"):
        spec = {"driver": driver, "kvstore": f"memory://{driver}/"}
        ts.open(spec, create=True, dtype=ts.uint8, shape=[3], context=context).result()
        for url in (f"memory://{driver}", f"memory://{driver}/", f"memory://{driver}/|auto:"):
            assert ts.open(url, context=context).result().spec().to_json()["driver"] == driver
    with pytest.raises(ValueError, match=r'^FAILED_PRECONDITION: Error opening "auto" driver: Failed to detect format'):
        ts.open("memory://none/", context=context).result()
    with pytest.raises(ValueError, match="create mode not compatible with format auto-detection"):
        ts.open("memory://none/", create=True, context=context).result()
    both = ts.KvStore.open("memory://", context=context).result()
    both["zarr/zarr.json"] = both["zarr3/zarr.json"]
    with pytest.raises(ValueError, match='Multiple possible formats detected, zarr2, zarr3, for "zarr/"'):
        ts.open("memory://zarr/", context=context).result()


def test_plain_paths_open_arrays_of_any_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tegula.save(tmp_path / "a", VALUES, format="zarr3")
    tegula.save(tmp_path / "b.zip", VALUES, format="zarr2")
    monkeypatch.chdir(tmp_path)
    for path in (Path("a"), "a", "./a", str(tmp_path / "a"), "b.zip", str(tmp_path / "b.zip"), f"{tmp_path}/a|zarr3:"):
        np.testing.assert_array_equal(ts.open(path).result().read().result(), VALUES)
    with pytest.raises(ValueError, match='unsupported URL scheme: "nothing"'):
        ts.open("nothing").result()
    with pytest.raises(ValueError, match="Failed to detect format"):
        ts.open("./nothing").result()


@pytest.mark.parametrize("driver", ["zarr1", "bcolz", "zarr", "zarr3"])
def test_transactions(driver: str) -> None:
    context = ts.Context()
    spec = {"driver": driver, "kvstore": "memory://a/"}
    layout = ts.ChunkLayout(chunk_shape=[2])
    array = ts.open(spec, create=True, dtype=ts.int32, shape=[6], chunk_layout=layout, context=context).result()
    with ts.Transaction() as transaction:
        inside = array.with_transaction(transaction)
        inside[1] = 5
        inside[4:] = 7
        assert array.read().result().tolist() == [0] * 6
        assert inside.read().result().tolist() == [0, 5, 0, 0, 7, 7]
        array[0] = 9  # changes the chunk that the transaction changes too
    assert array.read().result().tolist() == [9, 5, 0, 0, 7, 7]
    transaction = ts.Transaction()
    grown = array.with_transaction(transaction).resize(exclusive_max=[8]).result()
    assert (grown.shape, array.resolve().result().shape) == ((8,), (6,))
    transaction.abort()
    assert array.resolve().result().shape == (6,)


@pytest.mark.parametrize(
    ("driver", "written", "wrong"), [("zarr1", [["a", "<i2"]], "int16"), ("bcolz", "[('a', '<i2')]", [["a", "<i2"]])]
)
def test_data_types_are_read_as_their_format_reads_them(driver: str, written: Any, wrong: Any) -> None:
    context = ts.Context()
    base = {"driver": driver, "kvstore": {"driver": "memory"}}
    array = ts.open({**base, "metadata": {"dtype": written}}, create=True, shape=[3], context=context).result()
    assert array.dtype == ts.dtype(np.dtype([("a", "<i2")]))
    array[1] = np.array((5,), [("a", "<i2")])
    again = ts.open(array.spec().to_json(), context=context).result()
    assert again.read().result()["a"].tolist() == [0, 5, 0]
    with pytest.raises(ValueError, match=r'"metadata".*"dtype"'):
        ts.Spec({**base, "metadata": {"dtype": wrong}})
