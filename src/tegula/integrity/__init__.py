"""What a check consists of: what can be found, the walk, documents, chunks, lengths, copies of metadata, repairs."""
