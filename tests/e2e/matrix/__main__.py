"""`python -m tests.e2e.matrix`: see matrix; returns 1 if a cell has other bytes."""

import sys

from tests.e2e.matrix.matrix import main

if __name__ == "__main__":
    sys.exit(main())
