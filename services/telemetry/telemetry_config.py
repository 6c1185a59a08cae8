"""TelemetryConfig: the settings of a service's metrics, traces and log."""

from dataclasses import dataclass

from services.engine.config import ConfigError, check_choice, split_address

METRICS_PREFIXES = ("outrider", "vllm")
LOG_FORMATS = ("text", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryConfig:
    """The settings of one service; `metrics_listen` is HOST:PORT, with port 0 for a free one."""

    metrics_listen: str | None = None  # default: no metrics are served
    metrics_prefix: str = "outrider"  # of the metrics that other engines have too
    otlp_endpoint: str | None = None  # http://HOST:PORT of a collector; default: no traces are sent
    log_format: str = "text"
    load_reports: bool = False  # whether every answer reports the load, rather than only on request

    def __post_init__(self) -> None:
        check_choice("metrics_prefix", self.metrics_prefix, METRICS_PREFIXES)
        check_choice("log_format", self.log_format, LOG_FORMATS)
        if self.metrics_listen is not None:
            split_address("metrics_listen", self.metrics_listen)
        if self.otlp_endpoint is not None and not self.otlp_endpoint.startswith(("http://", "https://")):
            raise ConfigError(f"otlp_endpoint is {self.otlp_endpoint!r}; it must begin with http:// or https://")
