"""Servers in other languages: found, missing and installable or not."""

from pathlib import Path

import pytest
from tests.servers import tools
from tests.servers.azurite import Azurite
from tests.servers.buckets import Server
from tests.servers.fixtures import start_installed
from tests.servers.rclone import Rclone

pytestmark = [pytest.mark.once(executors="none"), pytest.mark.slow]


@pytest.mark.parametrize("make", [Azurite, Rclone])
def test_a_missing_server_skips_its_tests(make: type[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEGULA_SERVERS", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=r"python -m tests\.servers\.tools"):
        start_installed(make)


@pytest.mark.parametrize("script", [None, "exit 1"])
def test_what_can_not_be_installed_is_named_and_left_out(
    script: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    managers = tmp_path / "bin"
    managers.mkdir()
    for name in ("npm", "pip") if script else ():
        (managers / name).write_text(f"#!/bin/sh\n{script}\n")
        (managers / name).chmod(0o755)
    monkeypatch.setenv("TEGULA_SERVERS", str(tmp_path / "new"))
    monkeypatch.setenv("PATH", str(managers))
    monkeypatch.setattr(tools.time, "sleep", lambda seconds: None)
    tools.install()
    printed = capsys.readouterr().out
    assert "azurite-blob is missing: npm" in printed
    assert "rclone is missing: pip" in printed
    assert [*(tmp_path / "new").iterdir()] == []
