"""Does tegula keep its promises, and what do other libraries do: the long run that a person can start.

``python -m torture --help`` says how; ``docs/explanation/guarantees.md`` holds the table that comes of it.
"""
