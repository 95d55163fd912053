"""Fuzzing: hostile bytes, documents, archives, selections, specs, texts and keys, given to the library as a user would.

``python -m tests.fuzzing --help`` says how to run it. One input is a small mapping that a target makes from a random
generator and carries out. What comes of it is judged in `outcomes`. It happens in processes that `runner` watches, so
that a crash or a hang is a finding as well. `corpus/` holds what mutations begin with, and what once found something.
"""
