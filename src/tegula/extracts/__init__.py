"""Parts of nodes as text and bytes: selections in words, windows that fit into memory, writers of files, JSON."""
