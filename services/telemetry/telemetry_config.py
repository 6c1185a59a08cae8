"""TelemetryConfig: what a service tells of itself, and where."""

from dataclasses import dataclass

from services.engine.config import ConfigError

METRICS_PREFIXES = ("outrider", "vllm")
LOG_FORMATS = ("text", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryConfig:
    """The settings of one service; `metrics_listen` is HOST:PORT, with port 0 for a free one."""

    metrics_listen: str | None = None  # default: no metrics are served
    metrics_prefix: str = "outrider"  # of the names that other engines have too
    otlp_endpoint: str | None = None  # http://HOST:PORT of a collector; default: no traces are sent
    log_format: str = "text"
    load_reports: bool = False  # whether every answer tells the load, and not only those that ask for it

    def __post_init__(self) -> None:
        _check_choice("metrics_prefix", self.metrics_prefix, METRICS_PREFIXES)
        _check_choice("log_format", self.log_format, LOG_FORMATS)
        if self.metrics_listen is not None:
            split_address(self.metrics_listen)
        if self.otlp_endpoint is not None and not self.otlp_endpoint.startswith(("http://", "https://")):
            raise ConfigError(f"otlp_endpoint is {self.otlp_endpoint!r}; it must begin with http:// or https://")


def split_address(listen: str) -> tuple[str, int]:
    """Host and port of HOST:PORT or [HOST]:PORT; raises ConfigError for anything else."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
        raise ConfigError(f"metrics_listen is {listen!r}; it must be HOST:PORT, with a port from 0 to 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")
