"""What arrays and groups share: names of other libraries, and attributes."""

from __future__ import annotations

import pytest

import tegula


@pytest.mark.parametrize("name", ["create", "maxshape", "create_hierarchy", "cbytes"])
def test_attributes_of_other_libraries_name_the_equivalent(name: str) -> None:
    g = tegula.create_group({})
    for node in (g, g.create_array("x", shape=3, dtype="u1")):
        assert not hasattr(node, name)
        with pytest.raises(AttributeError, match="in tegula that is") as found:
            getattr(node, name)
        assert found.value.name == name


def test_attributes_are_updated_in_one_write() -> None:
    g = tegula.create_group({}, attributes={"a": 1})
    x = g.create_array("x", shape=3, dtype="u1")
    for node in (g, x):
        assert node.update_attributes({"b": 2, "c": [3]}) is node
        assert node.attrs["c"] == [3]
    assert g.attrs.asdict() == {"a": 1, "b": 2, "c": [3]}
