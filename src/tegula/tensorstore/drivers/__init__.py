"""Drivers: each describes, opens, reads and writes one kind of array."""
