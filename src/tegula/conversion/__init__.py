"""What a conversion consists of: the new metadata, chunks copied or values rewritten, the walk, the report."""
