# The commands of this project; `just` comes from PyPI: python -m pip install rust-just

# Show this list
default:
    @just --list

# Install everything into the active virtual environment
setup:
    python -m pip install -e '.[test,docs]'

# Run the tests, the examples of docstrings and documentation among them
test *args:
    python -m pytest -n auto {{args}}

# Check style and form
lint:
    ruff check .
    ruff format --check .

# Mend style and form where a machine can
format:
    ruff check --fix .
    ruff format .

# Check types
types:
    mypy

# Build the documentation into site/
docs:
    python -m mkdocs build --strict

# Show the documentation while it is written
serve:
    python -m mkdocs serve

# Time tegula against other libraries and the machine's limit; --quick takes minutes, --help says more
bench *args:
    python benches/compare.py {{args}}

# What CI runs
check:
    .ci/run
