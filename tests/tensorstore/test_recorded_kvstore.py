"""Answers of TensorStore's key-value stores."""

from pathlib import Path
from typing import Any

import pytest
from tests.samples import recorded
from tests.tensorstore.recorded_errors import check

import tegula.tensorstore as ts
from tegula.tensorstore.kvstore.values import NO_VALUE

OWN_WAYS = {
    "kv['a']": "the error names the key",
    "kv.write(b'\\xff\\xfe',b'x').result()": "files have names that are text",
    "kv.list(ts.KvStore.KeyRange('x','a')).result()": "an empty range holds no keys; no memory is asked for",
    "kv.write('d',b'x').result()": "the message names no lock file",
}
NOT_TEXT = "ÿþ"


def shown(result: Any) -> Any:
    if isinstance(result, ts.KvStore.ReadResult):
        return {"state": result.state, "value": result.value.decode("latin-1")}
    if isinstance(result, ts.KvStore.TimestampedStorageGeneration):
        token = result.generation
        plain = token in {NO_VALUE, b""}
        return {
            "generation_hex": token.hex() if plain else "<opaque>",
            "generation_is_no_value": token == NO_VALUE,
            "generation_len": len(token),
        }
    if isinstance(result, bytes):
        return result.decode("latin-1")
    if isinstance(result, list):
        return sorted(shown(each) for each in result)
    return str(result) if isinstance(result, dict) else result


@pytest.mark.parametrize("case", recorded("golden_kvstore")["cases"].items(), ids=lambda case: case[0])
def test_steps_give_what_was_recorded(case: Any, tmp_path: Path) -> None:
    driver, steps = case
    url = f"file://{tmp_path}/p/" if driver == "file" else "memory://p/"
    names = {"ts": ts, "kv": ts.KvStore.open(url).result()}
    for step in steps:
        if driver == "file" and "\\xff" in step["step"]:
            continue
        try:
            actual: dict[str, Any] = {"result": shown(eval(step["step"], names))}
        except Exception as error:
            actual = {"error": error}
        if step["step"] in OWN_WAYS and "error" in step:
            continue
        if "error" in step:
            check(actual["error"], step["error"], step["step"])
            continue
        expected = step["result"]
        if isinstance(expected, list):
            expected = sorted(name for name in expected if driver != "file" or name != NOT_TEXT)
        if isinstance(expected, str):
            expected = expected.replace("<ROOT>", str(tmp_path))
        assert actual.get("result", actual) == expected, step["step"]
