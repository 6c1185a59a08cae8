"""Reload: what a running service reads anew on SIGHUP."""

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Reload:
    """Whoever holds what comes from a file, or may have been changed since the start, puts its reading on here."""

    def __init__(self) -> None:
        self._readings: dict[str, Callable[[], object]] = {}

    def add(self, name: str, read: Callable[[], object]) -> None:
        """Call `read` on the event loop at every reload; what it raises is logged, and all stays as it was."""
        self._readings[name] = read

    def __call__(self) -> list[str]:
        """Read everything anew, and return what could not be read, with the reasons."""
        problems = []
        for name, read in self._readings.items():
            try:
                read()
            except Exception as error:
                logger.exception("%s cannot be read anew, and stays as it was", name)
                problems.append(f"{name}: {error}")
        logger.info("reloaded: %s", ", ".join(self._readings) or "nothing")
        return problems
