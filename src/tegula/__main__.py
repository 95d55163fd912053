"""``python -m tegula``: the command line program."""

import sys

from tegula.cli import main

if __name__ == "__main__":
    sys.exit(main())
