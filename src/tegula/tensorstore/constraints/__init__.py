"""What an array is asked to be: data type, unit, chunk layout, codec, fill value, and the schema that gathers them."""
