"""LogLevel: how much is logged, which can be changed while a service runs."""

import logging

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_AT_START = "INFO"


def current_level() -> str:
    """Return the current level."""
    return logging.getLevelName(logging.getLogger().level)


def set_level(level: str = _AT_START) -> None:
    """Log messages of this level, one of LEVELS, or above; by default as at the start."""
    logging.getLogger().setLevel(level)
    logging.getLogger("grpc").setLevel(max(logging.INFO, logging.getLogger().level))  # DEBUG logs every message
