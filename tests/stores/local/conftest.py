import pytest

from tegula.stores import LocalStore


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "root")
