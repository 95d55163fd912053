"""A long run that tests the promises of tegula, and what other libraries do in the same situations.

``python -m torture --help`` says how; ``docs/explanation/guarantees-tested.md`` holds the resulting table.
"""
