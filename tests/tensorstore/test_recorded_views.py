"""Conversions, downsampling and views as TensorStore does them."""

import builtins
import json
from typing import Any

import numpy as np
import pytest
from tests.samples import recorded
from tests.tensorstore.recorded_errors import check

import tegula.tensorstore as ts
from tegula.tensorstore.constraints.casting import convertible


def element(text: str, name: str) -> Any:
    if name == "bool":
        return text == "True"
    if name.startswith("complex"):
        return complex(text)
    return float(text) if "float" in name else int(text)


def elements(texts: list[str], name: str) -> np.ndarray[Any, Any]:
    return np.array([element(text, name) for text in texts]).astype(ts.dtype(name).numpy_dtype)


def source(name: str) -> ts.TensorStore:
    """Return the source array of the recorded table of conversions."""
    values: dict[str, Any] = {
        "bool": [True, False],
        "json": [1, True, "5"],
        "string": [b"5", b"x"],
        "ustring": ["5", "x"],
    }
    return ts.array(values.get(name, [0, 1, 3] if name != "int2" else [0, 1, -1]), dtype=ts.dtype(name))


def shown(value: Any, name: str) -> Any:
    if name.startswith("complex"):
        return str(complex(value))
    if "float" in name:
        return float(value)
    if name == "bool":
        return bool(value)
    return value.decode() if isinstance(value, bytes) else value if name in ("json", "ustring") else int(value)


def test_types_are_convertible_as_recorded() -> None:
    for pair, row in recorded("golden_cast")["table"].items():
        from_type, to_type = pair.split("->")
        if "src_error" in row:  # bytes have no JSON
            with pytest.raises(ValueError) as caught:
                ts.open({"driver": "array", "array": [1], "dtype": from_type}).result()
            check(caught.value, row["src_error"], "array")
            continue
        if "error" in row:
            with pytest.raises(ValueError, match=f"{from_type}.*{to_type}") as caught:
                ts.cast(source(from_type), ts.dtype(to_type))
            check(caught.value, row["error"])
            continue
        view = ts.cast(source(from_type), ts.dtype(to_type))
        assert view.mode == row["mode"], pair
        if "read_error" in row:
            with pytest.raises(ValueError) as caught:
                view.read().result()
            check(caught.value, row["read_error"])
        elif "values" in row:
            values = [shown(value, to_type) for value in view.read().result()]
            wanted = row["values"]
            assert [json.dumps(value) if isinstance(value, list) else value for value in values] == wanted, pair


def test_elements_are_converted_as_recorded() -> None:
    for case in recorded("golden_cast")["cases"]:
        from_type, to_type = case["from"], case["to"]
        assert convertible(from_type, to_type)
        view = ts.cast(ts.array(elements(case["in"], from_type), dtype=ts.dtype(from_type)), ts.dtype(to_type))
        results = [str(shown(value, to_type)) for value in view.read().result()]
        assert results == case["out"], case


def test_arrays_are_downsampled_as_recorded() -> None:
    for case in recorded("golden_downsample")["cases"]:
        values = elements(case["in"], case["dtype"]).reshape(case["in_shape"])
        store = ts.array(values, dtype=ts.dtype(case["dtype"]))
        store = store.translate_to[tuple(case["origin"])]
        if "error" in case:
            with pytest.raises(ValueError, match=case["method"]) as caught:
                ts.downsample(store, case["factors"], case["method"])
            check(caught.value, case["error"], [case["method"], case["dtype"]])
            continue
        view = ts.downsample(store, case["factors"], case["method"])
        assert view.domain.to_json() == case["out_domain"]
        assert np.array_equal(view.read().result().ravel(), elements(case["out"], case["dtype"])), case


def test_values_of_views() -> None:
    x = ts.array(np.arange(336, dtype=np.int32).reshape(6, 7, 8))
    for case in recorded("golden_index")["cases"]:
        names = {"x": x, "ts": ts, "np": np}
        if "values" not in case:
            continue
        values = np.array(case["values"]).reshape(case["values_shape"])
        assert np.array_equal(eval(case["expr"], names).read().result(), values), case["expr"]


def test_errors_of_views() -> None:
    x = ts.array(np.arange(336, dtype=np.int32).reshape(6, 7, 8))
    for case in recorded("golden_index")["cases"]:
        error = case.get("error") or case.get("read_error")
        if error is None:
            continue
        with pytest.raises(getattr(builtins, error["type"])) as caught:
            eval(case["expr"], {"x": x, "ts": ts, "np": np}).read().result()
        check(caught.value, error, case["expr"])


def resized(case: dict[str, Any]) -> tuple[Any, Any]:
    names: dict[str, Any] = {"ts": ts}
    spec: dict[str, Any] = {"driver": "zarr", "kvstore": {"driver": "memory"}, "metadata": case["metadata"]}
    if case["field"]:
        spec["field"] = case["field"]
    context = ts.Context()
    store = ts.open(spec, context=context, create=True).result()
    if not case["field"]:
        store[...] = np.arange(1, store.size + 1).reshape(store.shape).astype(store.dtype.numpy_dtype)
    return store, eval(case["view"], {**names, "t": store})


NOT_COPIED = {
    "base {'exclusive_max': [-1, 3]}": "a negative extent is refused, not stored",
}


def test_views_are_resized_as_recorded() -> None:
    for case in recorded("golden_resize")["cases"]:
        store, view = resized(case)
        if case["name"] in NOT_COPIED:
            with pytest.raises(ValueError, match="extent"):
                view.resize(**case["kwargs"]).result()
            assert store.resolve().result().domain == store.domain
            continue
        if "error" in case:
            with pytest.raises((ValueError, TypeError)) as caught:
                view.resize(**case["kwargs"]).result()
            check(caught.value, case["error"], case["view"])
            continue
        before = view.domain
        result = view.resize(**case["kwargs"]).result()
        assert result.domain.to_json() == case["result_domain"], case["name"]
        assert view.domain == before
        current = store.resolve().result()
        assert list(current.shape) == case["stored_shape"], case["name"]
        if current.size < 10_000 and "data" in case and case["view"] == "t":
            assert np.array_equal(current.read().result(), np.array(case["data"]).reshape(current.shape)), case["name"]
