# The commands of this project; `just` comes from PyPI: python -m pip install rust-just

# Show this list
default:
    @just --list

# Install everything into the active virtual environment
setup:
    python -m pip install -e '.[test,docs]'

# Build the kernel in place, for the active virtual environment
kernel:
    python -m pip install --quiet --no-deps -e .
    python -c 'import tegula._kernel'

# Run the tests of the kernel
test-kernel *args:
    cd rust && cargo test --package tegula-kernel {{args}}

# Run the tests, the examples of docstrings and documentation among them
test *args:
    python -m pytest -n auto {{args}}

# Test a change in less than three minutes: no processes, no servers, no browsers, few examples
quick *args:
    TEGULA_EFFORT=quick PYTHONDONTWRITEBYTECODE= python -m pytest -n auto {{args}}

# Test what takes a night, with fresh seeds, or some steps of it; the end says how long each step took
nightly *steps:
    .ci/nightly {{steps}}

# Check style and form
lint:
    ruff check .
    ruff format --check .
    cd rust && cargo fmt --check && cargo clippy --all-targets -- -D warnings

# Mend style and form where a machine can
format:
    ruff check --fix .
    ruff format .
    cd rust && cargo fmt

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

# Time tegula against other libraries on arrays in a bucket behind a latency; --quick takes minutes, --help says more
bench-remote *args:
    python benches/remote.py {{args}}

# Put the promises of docs/explanation/guarantees.md to the test; --quick takes minutes, --help says more
torture *args:
    python -m torture {{args}}

# Kill workers and drivers of jobs at random, so often for each runner, and compare the results
torture-jobs kills="300":
    TEGULA_KILLS={{kills}} python -m pytest -n 0 -o faulthandler_timeout=7200 tests/jobs/test_kills.py

# Give the library hostile input: a million inputs unless --inputs says otherwise; --help says more
fuzz *args:
    python -m tests.fuzzing {{args}}

# Start the object storage servers of the tests, and print how to reach them; --latency 50 makes them slow
servers *args:
    python -m tests.servers.tools
    python -m tests.servers {{args}}

# Draw the charts from the tables in docs/benchmarks.md
chart:
    python docs/assets/chart.py

# Build the page of `tegula serve` from viewer/ into the package
page:
    cd viewer && npm ci --no-audit --no-fund && npm run build

# Take the screenshots of the documentation; needs Chromium, and is no part of CI
screenshots:
    python docs/screenshots/take.py
    python docs/screenshots/take_page.py

# What CI runs
check:
    .ci/run

# Test local files, archives and arrays on Windows, by wine; --sample tests one in three; needs apt-get and Maven
windows *args:
    .ci/windows {{args}}

# Test crude file systems, check the kernel for other systems, and read and write arrays on a big-endian machine, by qemu
foreign *parts:
    .ci/foreign {{parts}}

# Build the wheels of all platforms, or of some, into dist/, check them, and try those that this machine or an emulator can run
wheels *platforms:
    .ci/wheels {{platforms}}

# Run under Miri those tests of the kernel that call no C function and no system call; needs `rustup toolchain install nightly -c miri`
miri:
    cd rust && MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --package tegula-kernel --lib -- \
        codecs::blosc::shuffle last_chunk pool::placement read::shard_indexes

# Run the tests of the kernel under AddressSanitizer; needs a nightly toolchain
sanitize *args:
    cd rust && CFLAGS=-fno-sanitize-address-use-after-scope RUSTFLAGS=-Zsanitizer=address cargo +nightly test \
        --no-fail-fast --package tegula-kernel --target x86_64-unknown-linux-gnu {{args}}
