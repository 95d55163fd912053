"""Run the unit tests that the installed bcolz package carries against `tegula.bcolz`.

    python tests/bcolz/upstream.py [--floor N] [test_carray.py …]

The tests are run where they are installed: their ``import bcolz`` finds a module that has the names of `tegula.bcolz`,
and ``bcolz.utils`` and so on are `tegula.bcolz.utils` and so on. Of the real package, only the tests and their helpers
for Python 2 are imported. The exit status is not 0 if fewer tests pass than the floor.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tegula import bcolz

MODULES = ("arrayprint", "attrs", "carray_ext", "chunked_eval", "ctable", "defaults", "toplevel", "utils", "version")
FILES = (
    "test_attrs.py",
    "test_carray.py",
    "test_carray_objects.py",
    "test_ctable.py",
    "test_ndcarray.py",
    "test_queries.py",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--floor", type=int, default=0, help="how many tests have to pass")
    parser.add_argument("--traceback", action="store_true", help="show why tests fail")
    parser.add_argument("-k", default="", help="run only tests whose names match, as in pytest")
    parser.add_argument("files", nargs="*", default=FILES)
    options = parser.parse_args()
    folder = stand_in()
    results = Results()
    with tempfile.TemporaryDirectory() as empty:
        arguments = ["-p", "no:cacheprovider", "-p", "no:xdist", "-c", "/dev/null", "--rootdir", empty]
        arguments += [f"--confcutdir={folder / 'tests'}", "-k", options.k]
        arguments += ["-q", "--tb=short"] if options.traceback else ["-qqq", "--tb=no", "--no-summary"]
        pytest.main([*arguments, *(str(folder / "tests" / name) for name in options.files)], plugins=[results])
    passed = results.report()
    return int(passed < options.floor or not passed)


class Results:
    """Counts the outcomes of the tests; a plugin of pytest."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = f"{Path(report.location[0]).name}::{report.nodeid.partition('::')[2]}"
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[name] = report.outcome

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.outcomes[f"{Path(report.fspath).name}::"] = "failed"
            print(report.longreprtext)

    def report(self) -> int:
        """Print the failed tests and the numbers of outcomes, and return the number of passed tests."""
        for name, outcome in self.outcomes.items():
            if outcome == "failed":
                print(f"FAILED {name}")
        files = {name.partition("::")[0] for name in self.outcomes}
        for file in [*sorted(files), ""]:
            numbers = Counter(
                what for name, what in self.outcomes.items() if name.startswith(f"{file}::" if file else "")
            )
            line = ", ".join(f"{numbers[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))
            print(f"{file or 'total'}: {line}")
        return sum(1 for outcome in self.outcomes.values() if outcome == "passed")


def stand_in() -> Path:
    """Replace the module ``bcolz``, and return the folder of the real one."""
    spec = find_spec("bcolz")
    if spec is None or spec.origin is None:
        raise SystemExit("bcolz is not installed")
    folder = Path(spec.origin).parent
    module = ModuleType("bcolz")
    vars(module).update({name: value for name, value in vars(bcolz).items() if not name.startswith("__")})
    module.__file__ = spec.origin
    module.__path__ = [str(folder)]
    sys.modules["bcolz"] = module
    for name in MODULES:
        sys.modules[f"bcolz.{name}"] = import_module(f"tegula.bcolz.{name}")
    sys.meta_path.insert(0, Gate())
    return folder


class Gate(MetaPathFinder):
    """Refuses to import other modules of the real package."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.startswith("bcolz.") and fullname.split(".")[1] not in ("tests", "py2help", "py2help_tests"):
            raise ModuleNotFoundError(f"{fullname} is not a module of tegula.bcolz", name=fullname)


if __name__ == "__main__":
    sys.exit(main())
