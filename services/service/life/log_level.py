"""LogLevel: how much is logged, which can be changed while a service runs."""

import logging

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_AT_START = "INFO"


def current_level() -> str:
    """The level of what is logged."""
    return logging.getLevelName(logging.getLogger().level)


def set_level(level: str = _AT_START) -> None:
    """Log what is of this level, one of LEVELS, or above; by default as at the start."""
    logging.getLogger().setLevel(level)
    logging.getLogger("grpc").setLevel(max(logging.INFO, logging.getLogger().level))  # it would tell of each message
