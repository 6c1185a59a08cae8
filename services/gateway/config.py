"""GatewayConfig: where the gateway listens, which targets it asks, and what it takes from whom."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from outrider.servers.channel import is_local
from services.engine.config import ConfigError, check_range
from services.service.access.credential_files import CredentialFiles
from services.service.server_config import check_address

_LARGEST_BODY = 1 << 30
_HOST = re.compile(r"\*|[\w.-]+", re.ASCII)
_LOCAL = ("localhost", "host.docker.internal")  # the second is what containers call the machine that they are on


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """The settings of one gateway; `listen` is HOST:PORT, with port 0 for a free one."""

    targets: tuple[str, ...]  # that hold the same model; the first one is asked first
    listen: str = "127.0.0.1:8000"
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    credentials: CredentialFiles = field(default_factory=CredentialFiles)  # for the targets
    insecure: bool = False  # whether clear text may leave this machine
    cors_origins: tuple[str, ...] = ()  # of pages that may call; "*" for any
    allowed_hosts: tuple[str, ...] = ()  # names of the gateway beside those of this machine; "*" for any
    otlp_endpoint: str | None = None  # of a collector of traces, http://HOST:PORT or https
    max_body: int = 4 << 20  # bytes of one request
    body_seconds: float = 60.0  # in which it has to arrive
    max_connections: int = 1024
    drain_seconds: float = 5.0  # for the answers that are still written when the gateway is to end
    max_retries: int = 10  # of each target in a row, before an answer is given up
    demo_controls: str | None = None  # a target's admin address on this machine, where callers may take its drafts away

    def __post_init__(self) -> None:
        check_address("listen", self.listen)
        if self.listen.startswith("unix:"):
            raise ConfigError(f"listen is {self.listen!r}; it must be HOST:PORT")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("only one of tls_certificate and tls_key is set; both are needed, or neither")
        for host in self.allowed_hosts:
            if not _HOST.fullmatch(host):
                raise ConfigError(f"allowed_hosts has {host!r}; allowed: a name without scheme and port, or *")
        if self.demo_controls is not None and not is_local(self.demo_controls):
            raise ConfigError(f"demo_controls is {self.demo_controls!r}; it must be an address on this machine")
        if self.demo_controls is not None and self.hosts is None:
            raise ConfigError(
                f"demo_controls need a listen of this machine, or names in allowed_hosts; listen is {self.listen!r}"
            )
        check_range("max_body", self.max_body, 1, _LARGEST_BODY)
        check_range("body_seconds", self.body_seconds, 0.1, 3600)
        check_range("max_connections", self.max_connections, 1, 1 << 20)
        check_range("drain_seconds", self.drain_seconds, 0, 3600)
        check_range("max_retries", self.max_retries, 0, 1000)

    @property
    def hosts(self) -> frozenset[str] | None:
        """The names by which requests may call, None for any.

        Names of this machine alone are known to be right; by which others reach it, where they can, has to be told.
        """
        if "*" in self.allowed_hosts or not (self.allowed_hosts or is_local(self.listen)):
            return None
        return frozenset(map(str.lower, (*_LOCAL, *self.allowed_hosts, self.listen.rpartition(":")[0])))
