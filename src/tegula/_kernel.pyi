"""The compiled kernel: carries out plans in Rust. It is optional; `tegula.executors` knows whether it is there."""

__version__: str
"""The version of tegula that it belongs to."""

class Array:
    """A stored array, as far as the kernel needs to know it."""

def versions() -> dict[str, str]:
    """Return the version of each library that is compiled in."""

def features() -> list[str]:
    """Return the extensions of the processor's instructions that are made use of."""

def codecs() -> list[str]:
    """Return the names of the codecs that the kernel has."""

def after_fork() -> None:
    """Forget the threads of the parent process, which a forked child does not have."""

def trim() -> None:
    """Give back the memory that is kept for reuse."""

def allocate(nbytes: int) -> memoryview:
    """Return that many bytes of memory, in which anything may stand."""
