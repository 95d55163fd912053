"""Run the unit tests of zarr 1.1 against `tegula.zarr1`.

    python tests/zarr1/upstream.py FOLDER [--traceback] [-k NAME] [test_core.py …]

FOLDER is that of an unpacked source distribution of zarr 1.1.0, of which the tests alone are imported: their ``import
zarr`` finds `tegula.zarr1`. nose, with whose functions they check, is stood in for.
"""

from __future__ import annotations

import argparse
import os
import sys
import unittest
from collections import Counter, UserDict
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tegula import zarr1

MODULES = (
    *("attrs", "blosc", "compressors", "core", "creation", "errors", "meta", "storage", "sync", "util", "version"),
)
FILES = ("test_attrs.py", "test_core.py", "test_creation.py", "test_storage.py", "test_sync.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--traceback", action="store_true", help="show why tests fail")
    parser.add_argument("-k", default="", help="run only tests whose names match, as in pytest")
    parser.add_argument("files", nargs="*", default=FILES)
    options = parser.parse_args()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # zarr 3 has one, which would look for it in what stands in
    stand_in(options.folder / "zarr")
    results = Results()
    arguments = ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(options.folder)]
    arguments += ["-k", options.k, f"--confcutdir={options.folder}"]
    arguments += ["-q", "--tb=short"] if options.traceback else ["-qqq", "--tb=no", "--no-summary"]
    places = [str(options.folder / "zarr" / "tests" / name) for name in options.files]
    pytest.main([*arguments, *places], plugins=[results])
    return results.report()


class Results:
    """Counts the outcomes of the tests; a plugin of pytest."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            file, _, name = report.nodeid.partition("::")  # a class that is imported is run once more
            self.outcomes[f"{Path(file).name}::{name}"] = report.outcome

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.outcomes[f"{Path(report.fspath).name}::"] = "failed"
            print(report.longreprtext)

    def report(self) -> int:
        """Print the failed tests and the numbers of outcomes."""
        for name, outcome in self.outcomes.items():
            if outcome == "failed":
                print(f"FAILED {name}")
        print("total: " + ", ".join(f"{count} {outcome}" for outcome, count in Counter(self.outcomes.values()).items()))
        return int(set(self.outcomes.values()) != {"passed"})


def stand_in(folder: Path) -> None:
    """Replace ``zarr``, its modules, and old packages that its tests import."""
    package = ModuleType("zarr")
    vars(package).update({name: value for name, value in vars(zarr1).items() if not name.startswith("__")})
    package.__path__ = [str(folder)]
    sys.modules["zarr"] = package
    for name in MODULES:
        sys.modules[f"zarr.{name}"] = import_module(f"tegula.zarr1.{name}")
        setattr(package, name, sys.modules[f"zarr.{name}"])
    add("zarr.compat", text_type=str, binary_type=bytes, PY2=False, integer_types=(int,))
    case = unittest.TestCase()
    names = {name: getattr(case, known) for name, known in NOSE.items()}
    add("nose.tools", **names)
    add("nose", tools=sys.modules["nose.tools"])
    add("zict", Zip=Other)


NOSE = {
    "eq_": "assertEqual",
    "assert_false": "assertFalse",
    "assert_is_instance": "assertIsInstance",
    "assert_is_none": "assertIsNone",
    "assert_raises": "assertRaises",
    "assert_true": "assertTrue",
}


class Other(UserDict[str, bytes]):
    """A mapping that is not a dict and has no size."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


def add(name: str, **values: Any) -> None:
    module = ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module


if __name__ == "__main__":
    sys.exit(main())
