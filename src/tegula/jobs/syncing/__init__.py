"""Mirrors: `tegula.sync` and `tegula.diff`."""
