"""Frozen values that describe arrays and groups: no store, no file, no codec implementation is known here."""
