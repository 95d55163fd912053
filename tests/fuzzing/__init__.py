"""Fuzzing: hostile bytes, documents, archives, selections, specs, texts and keys, passed to the library as by a user.

``python -m tests.fuzzing --help`` says how to run it. One input is a small mapping that a target makes from a random
generator and carries out. `outcomes` judges the results. Inputs run in processes that `runner` watches, so that a crash
or a hang is a finding as well. `corpus/` holds the inputs of mutations, and the inputs of earlier findings.
"""
