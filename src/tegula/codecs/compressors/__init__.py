"""Codecs from bytes to bytes: compressors and checksums."""
