"""Completion of paths, members and codecs, and the script of the shell."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

import tegula
from tegula.cli.completion import complete_codecs, complete_target

SOURCE = str(Path(tegula.__file__).parent.parent)


def run(*arguments: str, cwd: Path | None = None, **env: str) -> str:
    path = os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")]))
    program = [sys.executable, "-m", "tegula", *arguments]
    env = {**os.environ, "PYTHONPATH": path, **env}
    done = subprocess.run(program, env=env, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    assert done.stderr == ""
    return done.stdout


def test_paths_and_members_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("_TEGULA_COMPLETE", raising=False)
    (tmp_path / ".hidden").mkdir()
    tegula.save(tmp_path / "a.zarr", temperature=[1], time=[2])
    tegula.save(tmp_path / "a.zip", [1])
    assert complete_target(f"{tmp_path}/a") == [f"{tmp_path}/a.zarr/", f"{tmp_path}/a.zip"]
    assert complete_target(f"{tmp_path}/.h") == [f"{tmp_path}/.hidden/"]
    assert complete_target(f"{tmp_path}/a.zarr::te") == [f"{tmp_path}/a.zarr::temperature"]
    assert complete_target(f"{tmp_path}/a.zarr::nothing/te") == []
    monkeypatch.chdir(tmp_path)
    assert complete_target("a.z") == ["a.zarr/", "a.zip"]
    for shell in ("bash", "zsh", "fish"):
        monkeypatch.setenv("_TEGULA_COMPLETE", f"complete_{shell}")
        assert complete_target("a.z") == []  # these shells complete file names by themselves
        assert complete_target("a.zarr::ti") == ["a.zarr::time"]


def test_columns_of_tables_are_completed(tmp_path: Path) -> None:
    tegula.create_table(tmp_path / "t", {"day": [1], "price": [2.0]})
    assert complete_target(f"{tmp_path}/t::p") == [f"{tmp_path}/t::price"]


def test_codecs_are_completed() -> None:
    assert "gzip" in complete_codecs("gz")
    assert "shuffle,zstd" in complete_codecs("shuffle,zst")


@pytest.mark.slow
@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(shell: str) -> None:
    # otherwise typer looks for the shell that started the process
    env = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert "_TEGULA_COMPLETE" in run("--show-completion", shell, **env)


@pytest.mark.slow
@pytest.mark.sampled(one_in=10)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cat a.zarr :: te", ["temperature"]),
        ("cat a.zarr ::", ["deep", "temperature", "time"]),
        ("cat a.zarr :: deep/", ["deep/x"]),
        ("cat a.zarr::te", ["a.zarr::temperature"]),  # without a colon in COMP_WORDBREAKS, or in quotation marks
        ("cat file : URL/a.zarr :: ti", ["time"]),
        ("cat 'a.zarr' :: ti", ["time"]),
        ("cat b\\ c.zarr :: x", ["x"]),
        ("cat e = f.zarr :: x", ["x"]),
        ("cp a.zarr :: time --storage-option a = b --overwrite x.zarr", []),
        ("cp a.zarr :: time --overwrite a.zarr :: te", ["temperature"]),
        ("convert a --format = z", ["zarr1", "zarr2", "zarr3"]),
        ("cat a.zarr :: q", []),
    ],
)
def test_members_where_bash_cuts_words_at_colons(tmp_path: Path, words: str, expected: list[str]) -> None:
    """As by the variables that bash sets in a terminal: it replaces only the last part of a word."""
    group = tegula.create_group(tmp_path / "a.zarr")
    for name in ("temperature", "time", "deep/x"):
        group[name] = [1]
    for name in ("b c.zarr", "e=f.zarr"):
        tegula.create_group(tmp_path / name)["x"] = [1]
    parts = words.replace("\\ ", "\0").split(" ")
    arguments = ["tegula", *(part.replace("\0", "\\ ").replace("URL", f"//{tmp_path}") for part in parts)]
    env = {
        "_TEGULA_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(arguments),
        "COMP_CWORD": str(len(arguments) - 1),
    }
    assert [name for name in run(cwd=tmp_path, **env).splitlines() if name] == expected


@pytest.mark.slow
def test_completion_through_the_script() -> None:
    env = {"_TEGULA_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    assert {"compare", "consolidate", "convert"} == {*run(**env, COMP_WORDS="tegula co").split()}
    env["COMP_CWORD"] = "5"
    result = run(**env, COMP_WORDS="tegula convert a b --format z").split()
    assert result == ["zarr1", "zarr2", "zarr3"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "init"),
    [("bash", ["--norc", "--noprofile", "-i"]), ("zsh", ["-f", "-i"]), ("fish", ["--no-config", "-i"])],
)
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
def test_the_tab_key_in_a_real_shell(tmp_path: Path, shell: str, init: list[str]) -> None:
    """A name that is the only one is written to the line; of several, all are shown."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    tegula.save(tmp_path / "a.zarr", temperature=[1], time=[2], lat=[3])
    tegula.save(tmp_path / "b c.zarr/deep", lone=[1])
    script = tmp_path / "tegula"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m tegula "$@"\n')
    script.chmod(0o755)
    env = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    (tmp_path / "completion").write_text(run("--show-completion", shell, **env))
    before = "autoload -Uz compinit; compinit -u -d dump; " if shell == "zsh" else ""
    terminal = Terminal([program, *init], tmp_path)
    try:
        terminal.type(f"{before}source ./completion; echo rea''dy\n", "ready")
        assert "lat" in terminal.type("tegula cat a.zarr::la\t", "lat")
        terminal.type("\x15", "")
        shown = terminal.type("tegula cat a.zarr::t\t\t", "temperature", "time")
        assert "lat" not in shown
        terminal.type("\x15", "")
        assert "deep/lone" in terminal.type("tegula cat b\\ c.zarr::deep/l\t", "deep/lone")
    finally:
        terminal.close()


class Terminal:
    """A program in a pseudo terminal."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.process, self.handle = import_module("pty").fork()  # which Windows lacks
        if self.process == 0:
            path = os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")]))
            os.chdir(folder)
            os.environ.update(
                PYTHONPATH=path, PATH=f"{folder}:{os.environ['PATH']}", HOME=str(folder), TERM="xterm", COLUMNS="120"
            )
            os.execv(words[0], words)

    def type(self, text: str, *expected: str) -> str:
        """Type text, and return what is shown until all expected words are, at most a minute later."""
        os.write(self.handle, text.encode())
        shown, end = b"", time.monotonic() + 60
        while time.monotonic() < end:
            if select.select([self.handle], [], [], 0.2)[0]:
                shown += os.read(self.handle, 65536)
                if b"\x1b[c" in shown or b"\x1b[0c" in shown:  # fish asks what terminal this is
                    os.write(self.handle, b"\x1b[?1;2c")
            elif all(word.encode() in shown for word in expected):
                break
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode(errors="replace"))

    def close(self) -> None:
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.handle)
