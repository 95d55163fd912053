"""Expressions over columns, evaluated block by block."""
