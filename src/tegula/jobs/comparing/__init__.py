"""Comparison of the elements and metadata of nodes."""
