"""Reload: the settings that a running service reloads on SIGHUP."""

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Reload:
    """Runs the functions that were added: each reloads a file, or resets a setting that was changed since the start."""

    def __init__(self) -> None:
        self._readings: dict[str, Callable[[], object]] = {}

    def add(self, name: str, read: Callable[[], object]) -> None:
        """Call `read` on the event loop at every reload; an error that it raises is logged, and the old state stays."""
        self._readings[name] = read

    def __call__(self) -> list[str]:
        """Reload everything, and return each failure's name and reason."""
        problems = []
        for name, read in self._readings.items():
            try:
                read()
            except Exception as error:
                logger.exception("%s cannot be reloaded; the previous state stays in use", name)
                problems.append(f"{name}: {error}")
        logger.info("reloaded: %s", ", ".join(self._readings) or "nothing")
        return problems
