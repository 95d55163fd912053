"""The format of bcolz 1.x."""
