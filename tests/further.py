"""further: parameters that `make matrix` runs and `make test` leaves out."""

from collections.abc import Iterable
from typing import Any

import pytest


def further(*values: Any, id: str | None = None) -> Any:
    """One set of parameters that only `make matrix` runs."""
    return pytest.param(*values, id=id, marks=pytest.mark.exhaustive)


def all_with(values: Iterable[Any], *kept: Any) -> list[Any]:
    """All values, of which only `make matrix` runs those that are not `kept`."""
    return [value if value in kept else further(value) for value in values]
