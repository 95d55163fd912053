"""Checksums of values, whatever the format, the chunks and the codecs."""
