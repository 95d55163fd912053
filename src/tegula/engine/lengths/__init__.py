"""Changing the lengths of arrays: appending and resizing."""
