"""`carray`: compressed arrays."""
