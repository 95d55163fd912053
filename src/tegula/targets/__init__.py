"""Targets: paths, URLs, mappings and stores that users pass, and the formats that names and files imply."""
