"""The driver ``zarr``, for Zarr v2."""
