"""Metadata of arrays and groups: frozen values, independent of stores, files and codec implementations."""
