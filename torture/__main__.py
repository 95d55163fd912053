"""``python -m torture``."""

from torture.program import main

main()
