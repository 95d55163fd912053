"""The driver ``zarr3``."""
