"""`python -m tests.e2e.soak --hours 1`: see soak; returns 1 if anything was wrong."""

import sys

from tests.e2e.soak.soak import main

if __name__ == "__main__":
    sys.exit(main())
