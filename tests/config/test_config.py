"""Settings: valid values, and initial values from environment variables."""

import subprocess
import sys
from typing import Any

import pytest

from tegula import config
from tegula.errors import MetadataError, TegulaError


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("threads", 1.5, "threads must be a whole number, not 1.5"),
        ("threads", "2", "threads must be a whole number, not '2'"),
        ("threads", True, "threads must be a whole number"),
        ("threads", None, "threads must be a whole number"),
        ("threads", 0, "threads must be at least 1, not 0"),
        ("max_chunk_bytes", "1", "max_chunk_bytes must be a whole number"),
        ("max_chunk_bytes", 2.0**31, "max_chunk_bytes must be a whole number"),
        ("max_chunk_bytes", -1, "max_chunk_bytes must be at least 1"),
        ("max_input_bytes", 0, "max_input_bytes must be at least 1, not 0"),
        ("max_input_bytes", 1e6, "max_input_bytes must be a whole number"),
        ("write_empty_chunks", 1, "write_empty_chunks must be True or False, not 1"),
        ("write_empty_chunks", "no", "write_empty_chunks must be True or False"),
        ("executor", "fast", "executor must be one of auto, kernel, reference, not 'fast'"),
        ("executor", None, "executor must be one of auto, kernel, reference, not None"),
        ("executor", "", "executor must be one of auto, kernel, reference, not ''"),
        ("cache_bytes", -1, "cache_bytes must be at least 0, not -1"),
        ("cache_bytes", 1.5, "cache_bytes must be a whole number, not 1.5"),
        ("recheck", "now", "recheck must be one of open, always, never, or seconds, not 'now'"),
        ("recheck", -1, "recheck must be one of open, always, never, or seconds, not -1"),
        ("recheck", True, "recheck must be one of open"),
        ("recheck", float("nan"), "recheck must be one of open"),
        ("thread", 1, "there is no setting 'thread'"),
    ],
)
def test_invalid_values(name, value, message):
    before = config.current()
    with pytest.raises(MetadataError) as caught, config.configure(**{name: value}):
        pass
    assert str(caught.value).startswith(message)
    assert caught.value.field == name
    assert config.current() is before


def test_settings_hold_until_the_block_ends():
    before = config.current()
    with config.configure(threads=3) as inside:
        assert config.current() is inside
        with config.configure(write_empty_chunks=True):
            assert (config.current().threads, config.current().write_empty_chunks) == (3, True)
        assert config.current() is inside
    with pytest.raises(ZeroDivisionError), config.configure(threads=3):
        raise ZeroDivisionError
    assert config.current() is before


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("TEGULA_THREADS", "0", "threads must be at least 1, not 0"),
        ("TEGULA_THREADS", "1.5", "TEGULA_THREADS is not a whole number: '1.5'"),
        ("TEGULA_THREADS", "", "TEGULA_THREADS is not a whole number: ''"),
        ("TEGULA_MAX_CHUNK", "2GB", "TEGULA_MAX_CHUNK is not a whole number: '2GB'"),
        ("TEGULA_MAX_CHUNK", "-5", "max_chunk_bytes must be at least 1, not -5"),
        ("TEGULA_MAX_INPUT", "1GB", "TEGULA_MAX_INPUT is not a whole number: '1GB'"),
        ("TEGULA_EXECUTOR", "Kernel", "executor must be one of auto, kernel, reference, not 'Kernel'"),
    ],
)
def test_invalid_environment_variables(monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    with pytest.raises(TegulaError) as caught:
        config._from_environment()
    assert str(caught.value).removeprefix("the environment variable ").startswith(message)


@pytest.mark.slow
def test_environment_variables_set_the_initial_values(monkeypatch):
    names = "THREADS MAX_CHUNK MAX_CHUNKS MAX_INPUT BUFFER_BYTES CONCURRENCY WRITE_EMPTY EXECUTOR CACHE_BYTES RECHECK"
    for name in names.split():
        monkeypatch.delenv(f"TEGULA_{name}", raising=False)
    plain = config._from_environment()
    assert plain.threads >= 1
    assert (plain.max_chunk_bytes, plain.max_chunks) == (2**31, 10**7)
    assert plain.max_input_bytes == 2**28
    assert (plain.buffer_bytes, plain.concurrency) == (2**28, 64)
    assert (plain.write_empty_chunks, plain.executor) == (False, "auto")
    assert (plain.cache_bytes, plain.recheck) == (0, "open")
    values = {"THREADS": "3", "MAX_CHUNK": "1000", "MAX_CHUNKS": "70", "BUFFER_BYTES": "99"}
    values |= {"MAX_INPUT": "8000", "CONCURRENCY": "7"}
    values |= {"WRITE_EMPTY": "Yes", "EXECUTOR": "reference", "CACHE_BYTES": "500", "RECHECK": "1.5"}
    for name, value in values.items():
        monkeypatch.setenv(f"TEGULA_{name}", value)
    code = "from tegula import config; print(config.current())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    settings = "threads=3, max_chunk_bytes=1000, max_chunks=70, max_input_bytes=8000, buffer_bytes=99, concurrency=7"
    settings += ", write_empty_chunks=True, executor='reference', cache_bytes=500, recheck=1.5, missing_chunks='fill'"
    assert done.stdout.strip() == f"Config({settings})"


@pytest.mark.parametrize("changes", [{"thread": 3}, {"threads": 0}, {"recheck": "sometimes"}])
def test_wrong_settings_are_refused_by_the_call_even_without_a_block(changes: dict[str, Any]) -> None:
    with pytest.raises(MetadataError):
        config.configure(**changes)


def test_a_call_without_a_block_changes_nothing() -> None:
    before = config.current()
    config.configure(threads=before.threads + 1)
    assert config.current() is before
