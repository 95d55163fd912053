"""The program as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.waiting import until

import tegula
import tegula.cli
from tegula.runtime.optional import tegula_command

SOURCE = str(Path(tegula.__file__).parent.parent)


def command(*arguments, code=None, **options):
    start = ["-c", code] if code else ["-m", "tegula"]
    path = os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")]))
    options["env"] = {**os.environ, "PYTHONPATH": path, **options.get("env", {})}
    return [sys.executable, "-W", "error", *start, *map(str, arguments)], options


def run(*arguments, **options):
    line, options = command(*arguments, **options)
    return subprocess.run(line, capture_output=True, check=False, timeout=300, **options)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("é x") / "température.zarr"
    tegula.save(str(path), np.arange(400_000, dtype=">f8").reshape(2000, 200), format="zarr2")
    return path


@pytest.mark.slow
def test_output_errors_and_exit_codes_are_separate(source, tmp_path):
    result = run("info", source, "--json")
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(result.stdout)["shape"] == [2000, 200]
    result = run("info", tmp_path / "nothing")
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.startswith(b"tegula: error: there is no array or group")
    assert result.stderr.count(b"\n") == 1
    result = run("cat", source, "1.5")
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"Usage: tegula cat" in result.stderr
    result = run("convert", source, tmp_path / "out", "--json", "--verify")
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(result.stdout)["ok"] is True


@pytest.mark.slow
def test_binary_output(source, tmp_path):
    result = run("cat", f"{source}[:, ::7]", "--format", "npy")
    (tmp_path / "x.npy").write_bytes(result.stdout)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), np.arange(400_000.0).reshape(2000, 200)[:, ::7])
    result = run("cat", source, "--format", "raw", env={"PYTHONUNBUFFERED": "1"})
    assert result.stdout == np.arange(400_000, dtype=">f8").tobytes()


@pytest.mark.slow
@pytest.mark.sampled(one_in=5)
@pytest.mark.parametrize(("form", "unbuffered"), [("csv", ""), ("raw", ""), ("raw", "1")])
def test_a_reader_that_closes_the_pipe(source, form, unbuffered):
    line, options = command("cat", source, "--format", form, env={"PYTHONUNBUFFERED": unbuffered})
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        assert len(process.stdout.read(10)) == 10
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


@pytest.mark.slow
@pytest.mark.sampled(one_in=26)
@pytest.mark.skipif(os.name == "nt", reason="shells of POSIX")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed(source, tmp_path, closed):
    for number, words in enumerate((["info", source], ["cat", source], ["convert", source, "OUT"], ["rm", "OUT"])):
        target = str(tmp_path / "out.zarr")
        line, options = command(*[target if word == "OUT" else word for word in words])
        shell = ["sh", "-c", f'exec "$@" {closed}', "sh"]
        done = subprocess.run([*shell, *line], capture_output=True, check=False, **options)
        assert (done.returncode, done.stderr) == (0, b""), words
        assert os.path.exists(target) == (number == 2)


@pytest.mark.slow
@pytest.mark.sampled(one_in=14)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("words", ["--version", "--help", "cat --help", "doctor", "nope"])
def test_output_that_can_not_be_written(words):
    line, options = command(*words.split())
    with open("/dev/full", "wb") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, check=False, **options)
    assert done.returncode == (2 if words == "nope" else 1)
    assert b"Traceback" not in done.stderr
    assert words == "nope" or done.stderr == b"tegula: error: [Errno 28] No space left on device\n"


@pytest.mark.slow
def test_without_the_extra():
    code = "import sys; sys.modules['typer'] = None; import tegula.cli; sys.exit(tegula.cli.main())"
    result = run("--version", code=code)
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.decode().splitlines() == [
        f"tegula: error: the package typer is not installed: {tegula_command('cli')}"
    ]


@pytest.mark.slow
def test_another_module_that_is_missing_is_not_hidden():
    code = "import sys; sys.modules['tegula.display.info'] = None; import tegula.cli; tegula.cli.main()"
    assert b"ModuleNotFoundError" in run(code=code).stderr


@pytest.mark.slow
def test_a_terminal_with_a_small_encoding(source):
    result = run("attrs", "get", source, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert result.returncode == 0
    result = run("info", f"{source}::nö", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert result.returncode == 1
    assert b"temp\\xe9rature" in result.stderr or b"%C3%A9" in result.stderr


@pytest.mark.slow
def test_a_misspelt_option_is_a_usage_error_and_creates_nothing(tmp_path):
    result = run("cat", "--jsn", "nope", cwd=tmp_path)
    assert result.returncode == 2
    result = run("attrs", "set", "nope.zip", "a", "1", cwd=tmp_path)
    assert result.returncode == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="there are no POSIX signals")
def test_an_interrupt_while_the_program_is_imported_ends_with_130(monkeypatch):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(tegula.cli, "import_module", interrupted)
    assert tegula.cli.main() == 130


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "advice"), [("convert", "convert … --resume"), ("sync", "sync …\n")])
def test_an_interrupt_says_how_to_go_on(tmp_path, operation, advice):
    array = tegula.create_array(tmp_path / "old.zarr", shape=(3000, 3000), chunks=(30, 30), dtype="f8", codecs="none")
    array[...] = np.random.default_rng(0).random(array.shape)
    line, options = command(operation, "old.zarr", "new.zarr", "--chunks", "40,40", "--codecs", "lzma", cwd=tmp_path)
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    with process:
        until(lambda: len([*(tmp_path / "new.zarr").glob("**/c/*/*")]) > 20)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out == b""
    assert f"tegula: interrupted: go on with: tegula {advice}" in error.decode()


@pytest.mark.slow
def test_an_interrupt_leaves_no_file_and_ends_with_130(tmp_path):
    group = tegula.create_group(str(tmp_path / "big"))
    group.create_array("x", shape=(10**7, 100), chunks=(10**4, 100), dtype="f8", fill_value=0.5)
    line, options = command("cat", f"{tmp_path / 'big'}::x", "-o", "out.csv", cwd=tmp_path)
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    with process:
        for _ in range(600):
            if any(each.name.endswith(".part") for each in tmp_path.iterdir()):
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=120)
    assert (process.returncode, out, b"Traceback" in error) == (130, b"", False)
    assert [each.name for each in tmp_path.iterdir()] == ["big"]


@pytest.mark.slow
def test_unused_modules_are_not_imported():
    code = (
        "import sys; sys.argv[1:] = ['--version']\n"
        "import tegula.cli\n"
        "try: tegula.cli.main()\n"
        "except SystemExit: print(*sys.modules)"
    )
    assert not {"numpy", "rich", "tegula.arrays.array", "tegula.cli.commands.convert"} & {
        *run(code=code).stdout.decode().split()
    }


HELP = """
import sys
from tegula.cli import main
for words in sys.argv[1:]:
    sys.argv = ["tegula", *words.split(), "--help"]
    try:
        main()
    except SystemExit:
        print(chr(12), end="")
"""


@pytest.mark.slow
@pytest.mark.sampled(one_in=4)
@pytest.mark.once(executors="none")
@pytest.mark.parametrize("width", ["60", "80"])
def test_help_is_wrapped_and_not_cut_off(width):
    commands = ["", "cat", "convert", "check", "compare", "stats", "cp", "ls", "head", "attrs set"]
    printed = run(*commands, code=HELP, env={"COLUMNS": width, "NO_COLOR": "1"}).stdout.decode()
    *texts, remaining = printed.split("\f")
    assert (len(texts), remaining) == (len(commands), "")
    for text in texts:
        wrapped, _, examples = text.partition("\nExamples:\n")  # which stay whole, to be copied
        assert max(map(len, wrapped.splitlines())) <= int(width)
        assert 0 < max(map(len, examples.splitlines())) <= 80
        _usage, _, below = text.partition("\n\n")
        assert not [line for line in below.splitlines() if line.rstrip().endswith(("…", "..."))], text
        assert "\x1b" not in text
