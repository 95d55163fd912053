"""Stored arrays: where their chunks are, and which state of a node they belong to."""
