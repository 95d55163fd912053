"""JSON and keyword arguments, read with errors that say where."""
