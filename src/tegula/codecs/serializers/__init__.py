"""Codecs from arrays to bytes."""
