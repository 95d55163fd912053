"""Copying and verifying stored chunks without decoding them for the caller."""
