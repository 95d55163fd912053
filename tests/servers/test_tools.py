"""Servers in other languages: found, missing and installable or not."""

from pathlib import Path

import pytest
from tests.servers import tools
from tests.servers.azurite import Azurite
from tests.servers.buckets import Server
from tests.servers.fixtures import start_installed
from tests.servers.rclone import Rclone


@pytest.mark.parametrize("make", [Azurite, Rclone])
def test_a_missing_server_skips_its_tests_but_not_where_ci_could_have_installed_it(
    make: type[Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEGULA_SERVERS", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    managers = tmp_path / "bin"
    managers.mkdir()
    for name in ("npm", "go"):
        (managers / name).write_text("#!/bin/sh\n")
        (managers / name).chmod(0o755)
    for path, in_ci, outcome in (
        (managers, False, pytest.skip.Exception),
        (managers, True, pytest.fail.Exception),
        (tmp_path, True, pytest.skip.Exception),
    ):
        monkeypatch.setenv("PATH", str(path))
        if in_ci:
            monkeypatch.setenv("CI", "true")
        with pytest.raises(outcome, match=r"python -m tests\.servers\.tools"):
            start_installed(make)


def test_what_no_package_manager_can_install_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TEGULA_SERVERS", str(tmp_path / "new"))
    monkeypatch.setenv("PATH", str(tmp_path))
    tools.install()
    told = capsys.readouterr().out
    assert "azurite-blob needs npm" in told
    assert "rclone needs go" in told
    assert [*(tmp_path / "new").iterdir()] == []
