"""ServerConfig: where and how a service listens."""

from dataclasses import dataclass
from pathlib import Path

from services.engine.config import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The settings of one gRPC server; `listen` is HOST:PORT, with port 0 for a free one, or unix:PATH."""

    listen: str = "127.0.0.1:50051"
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    drain_seconds: float = 5.0  # for the streams that still run when the server is to end
    max_queue: int = 256  # requests that wait beside those that run

    def __post_init__(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("only one of tls_certificate and tls_key is set; both are needed, or neither")
        if not 0 <= self.drain_seconds <= 3600:
            raise ConfigError(f"drain_seconds is {self.drain_seconds}; it must be from 0 to 3600")
        if self.max_queue < 0:
            raise ConfigError(f"max_queue is {self.max_queue}; it must be at least 0")
        if not self.listen.startswith("unix:") and not self.listen.rpartition(":")[2].isdecimal():
            raise ConfigError(f"listen is {self.listen!r}; it must be HOST:PORT or unix:PATH")
