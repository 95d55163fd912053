"""Run the command line program with ``python -m tegula``."""

import sys

from tegula.cli import main

if __name__ == "__main__":
    sys.exit(main())
