"""Runners: they carry out units of a job on threads, in processes, or on a cluster of dask."""
