"""URLs without the packages of the extra ``cloud``: one line that says what to install, and nothing else breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tegula

pytestmark = pytest.mark.slow

SOURCE = str(Path(tegula.__file__).parents[1])
WITHOUT = """if True:
    import sys
    for name in ("obstore", "fsspec", "s3fs"):
        sys.modules[name] = None
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-W", "error", "-c", WITHOUT + code]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.sampled(one_in=40)
@pytest.mark.parametrize("url", ["s3://b/x", "gs://b/x", "az://c/x", "https://host/x", "memory://x", "sftp://host/x"])
def test_each_scheme_names_the_command_that_installs_it(url: str) -> None:
    done = run(f"""
    import tegula
    for call in (tegula.open, tegula.create_group, tegula.load, tegula.check):
        try:
            call({url!r}, storage_options={{"anon": True}})
        except tegula.UnsupportedError as error:
            print(error.message)
    """)
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done.stderr
    assert all("python -m pip install" in line for line in lines)


def test_the_program_says_so_in_one_line() -> None:
    done = run("""
    sys.argv = ["tegula", "info", "s3://b/x"]
    from tegula.cli import main
    sys.exit(main())
    """)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "python -m pip install" in done.stderr


def test_everything_else_works(tmp_path: Path) -> None:
    done = run(f"""
    import tegula
    tegula.save({str(tmp_path / "x.zarr")!r}, [1, 2, 3])
    tegula.copy({str(tmp_path / "x.zarr")!r}, {str(tmp_path / "x.zip")!r})
    print(tegula.load({str(tmp_path / "x.zip")!r}))
    """)
    assert (done.stdout.split(), done.stderr) == (["[1", "2", "3]"], "")


def test_local_paths_import_neither(tmp_path: Path) -> None:
    done = run(f"""
    import tegula
    del sys.modules["obstore"], sys.modules["fsspec"]
    tegula.save({str(tmp_path / "x.zarr")!r}, [1, 2, 3])
    assert tegula.load({str(tmp_path / "x.zarr")!r})[0] == 1
    print([name for name in ("obstore", "fsspec") if name in sys.modules])
    """)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
