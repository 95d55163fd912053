"""Writers that add to one number, each of which must count."""

from inspect import getsource

from tegula.errors import ConflictError
from tegula.stores import Store


def count_up(store: Store, key: str, times: int) -> None:
    """Add 1 to a stored number so many times, whoever else adds to it."""
    for _ in range(times):
        while True:
            value, generation = store.get(key, with_generation=True)
            try:
                store.set(key, b"%d" % (int(value or b"0") + 1), if_generation=generation)
                break
            except ConflictError:
                pass


COUNT_UP = (
    f"from tegula.errors import ConflictError\nfrom tegula.stores import LocalStore, Store\n{getsource(count_up)}"
)
"""The function for another process, which can't import the tests."""
