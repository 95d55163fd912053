"""File systems of fsspec."""
