"""`python -m tests.e2e.acceptance`: see acceptance; returns 1 if a share is not as it has to be."""

import sys

from tests.e2e.acceptance.acceptance import main

if __name__ == "__main__":
    sys.exit(main())
