"""``python -m gpucf``: the command line."""

import sys

from gpucf._cli import main

if __name__ == "__main__":
    sys.exit(main())
