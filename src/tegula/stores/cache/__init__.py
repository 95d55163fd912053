"""Copies of remote values in memory and on a local disk."""
