"""Conversion between formats, chunks and codecs."""
