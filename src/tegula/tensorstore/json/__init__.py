"""Readers of JSON and keyword arguments, with errors that name the member or argument."""
