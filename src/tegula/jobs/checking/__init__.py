"""Checks of stored nodes, and repairs."""
