"""Targets: paths, URLs, mappings and stores that users pass, and what these are as stores."""
