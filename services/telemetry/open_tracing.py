"""open_tracing: imports OpenTelemetry only if tracing is configured, so that others need not install it."""

from typing import TYPE_CHECKING

from services.engine.config import ConfigError

if TYPE_CHECKING:
    from services.telemetry.tracing import Tracing


def open_tracing(endpoint: str | None, service: str) -> "Tracing | None":
    """Return tracing to this collector, or None without one; raises ConfigError if OpenTelemetry is not installed."""
    if endpoint is None:
        return None
    try:
        from services.telemetry.tracing import Tracing
    except ImportError as error:
        raise ConfigError(
            f"otlp_endpoint is {endpoint!r}, but OpenTelemetry is not installed ({error}); "
            "it comes with: pip install 'outrider[tracing]'"
        ) from error
    return Tracing(endpoint, service)
