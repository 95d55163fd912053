"""Constraints on arrays: data type, unit, chunk layout, codec, fill value, and the schema that gathers them."""
