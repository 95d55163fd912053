"""What the code needs of the process it runs in: imports on first use, optional packages, the kernel, threads."""
