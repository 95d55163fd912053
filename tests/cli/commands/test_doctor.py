"""``tegula doctor``, with and without a kernel."""

import json
import os
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
from typer.testing import CliRunner

import tegula
from tegula import config
from tegula.cli.program import app
from tegula.runtime import executors


def run(*arguments):
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def facts():
    return json.loads(run("--json"))


@pytest.fixture
def fake(monkeypatch):
    """A kernel with two codecs."""
    module = ModuleType("tegula._kernel")
    module.__version__ = "1.2.3"
    module.codecs = lambda: ["zlib", "packbits"]
    module.versions = lambda: {"libdeflate": "1.2"}
    module.features = lambda: ["avx2", "bmi2"]
    monkeypatch.setattr(executors, "_load", lambda: module)
    return module


@pytest.fixture
def missing(monkeypatch):
    monkeypatch.setattr(executors, "_load", lambda: "was not built")


def test_doctor_describes_the_kernel(fake):
    with config.configure(executor="auto", threads=3):
        output, text = facts(), run()
    assert output["executor"] == {"setting": "auto", "used": "kernel", "reason": "it is installed"}
    assert output["kernel"] == {
        "version": "1.2.3",
        "libraries": {"libdeflate": "1.2"},
        "processor_features": ["avx2", "bmi2"],
    }
    assert (output["threads"], output["tegula"]) == (3, tegula.__version__)
    assert output["packages"]["numpy"] == np.__version__
    where = output["codecs"]
    native = {name for name, executor in where.items() if executor == "kernel"}
    # packbits of Zarr v3 is a different codec
    assert native == {
        "bytes",
        "n5_default",
        "zarrs.squeeze",
        "transpose",
        "reshape",
        "sharding_indexed",
        "vlen-utf8",
        "vlen-bytes",
        "numcodecs.vlen-utf8",
        "numcodecs.vlen-bytes",
        "numcodecs.zlib",
        "numcodecs.packbits",
    }
    assert {where["packbits"], where["zstd"], where["numcodecs.json2"]} == {"reference"}
    lines = dict(line.split("  ", 1) for line in text.splitlines())
    assert lines["Executor"].strip() == "kernel: it is installed"
    assert lines["Processor"].strip() == "avx2, bmi2"
    assert lines["Kernel"].strip() == "1.2.3, with libdeflate 1.2"
    assert lines["Threads"].strip() == "3"
    assert "numcodecs.zlib" in lines["In the kernel"]


def test_the_executor_of_the_setting_is_used(fake):
    with config.configure(executor="reference"):
        output = facts()
    assert output["executor"] == {
        "setting": "reference",
        "used": "reference",
        "reason": "chosen by the setting executor",
    }
    assert {*output["codecs"].values()} == {"reference"}
    with config.configure(executor="kernel"):
        assert facts()["executor"]["used"] == "kernel"


def test_doctor_says_how_to_build_a_missing_kernel(missing):
    with config.configure(executor="auto"):
        output, text = facts(), run()
    assert output["kernel"] is None
    assert output["executor"]["used"] == "reference"
    assert output["executor"]["reason"].startswith("the kernel was not built; to build it, install a Rust toolchain")
    assert {*output["codecs"].values()} == {"reference"}
    assert "Kernel" not in text
    assert text.splitlines()[-2].split() == ["In", "the", "kernel", "none"]


def test_doctor_lists_missing_packages(missing, monkeypatch):
    monkeypatch.setattr("tegula.cli.commands.doctor._OPTIONAL", ("typer", "no-such-package"))
    assert facts()["optional_packages"]["no-such-package"] is None
    lines = dict(line.split("  ", 1) for line in run().splitlines())
    assert lines["Missing"].strip() == "no-such-package"


def test_doctor_describes_the_compiled_kernel(kernel):
    with config.configure(executor="kernel"):
        output = facts()
    assert output["executor"]["used"] == "kernel"
    assert output["kernel"]["version"] == tegula.__version__
    assert output["kernel"]["libraries"]
    needed = ["blosc", "zstd", "gzip", "crc32c", "blpk", *(f"numcodecs.{name}" for name in ("blosc", "lz4", "delta"))]
    assert {output["codecs"][name] for name in needed} == {"kernel"}


@pytest.mark.slow
def test_commands_do_not_warn_about_a_missing_kernel(tmp_path):
    code = """if True:
        import sys
        sys.modules["tegula._kernel"] = None
        from tegula.cli import main
        sys.exit(main())
    """
    tegula.save(str(tmp_path / "x.zarr"), [1, 2])
    environment = {**os.environ, "TEGULA_EXECUTOR": "auto"}
    command = [sys.executable, "-c", code, "cat", str(tmp_path / "x.zarr")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    assert (done.stdout.split(), done.stderr) == (["1", "2"], "")


def test_the_text_for_a_report_has_the_facts_and_no_values(monkeypatch):
    monkeypatch.setenv("TEGULA_SECRET", "hush")
    output = run("--report")
    assert "### What I did" in output
    for line in run().splitlines():
        assert line in output
    assert "TEGULA_SECRET" in output
    assert "hush" not in output
