"""Caches of values, documents, shard indexes and decoded chunks."""
