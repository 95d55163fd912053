"""Constraints on arrays: data type, unit, chunk layout, codec, fill value, and the schema, which combines them."""
