"""Index domains and transforms: dimensions, intervals, output maps, composition, and indexing in NumPy's terms."""
