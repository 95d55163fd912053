"""The drivers: how arrays of each kind are described, opened, read and written."""
