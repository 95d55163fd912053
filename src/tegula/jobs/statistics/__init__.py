"""Statistics of the elements of arrays."""
