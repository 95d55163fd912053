"""Zip archives, local and remote."""
