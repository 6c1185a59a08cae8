"""GatewayConfig: where the gateway listens, its targets, and the limits of requests."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from outrider.servers.channel import is_local
from services.engine.config import ConfigError, check_range
from services.service.access.credential_files import CredentialFiles
from services.service.server_config import check_address

_LARGEST_BODY = 1 << 30
_FEWEST_HEDGED = 2
_HOST = re.compile(r"\*|[\w.-]+", re.ASCII)
_LOCAL = ("localhost", "host.docker.internal")  # the second is the name of the host machine in containers


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """The settings of one gateway; `listen` is HOST:PORT, and port 0 chooses a free port.

    Making one with a bad setting raises ConfigError.
    """

    targets: tuple[str, ...]  # with the same model; the first one is tried first
    listen: str = "127.0.0.1:8000"
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    credentials: CredentialFiles = field(default_factory=CredentialFiles)  # for the targets
    insecure: bool = False  # whether clear text may leave this machine
    cors_origins: tuple[str, ...] = ()  # of pages that may call; "*" for any
    allowed_hosts: tuple[str, ...] = ()  # host names of the gateway beside those of this machine; "*" for any
    otlp_endpoint: str | None = None  # of a trace collector, http://HOST:PORT or https
    max_body: int = 4 << 20  # the most bytes of a request
    body_seconds: float = 60.0  # in which a request must arrive
    ping_seconds: float = 10.0  # of silence, after which a stream says that it is alive
    max_connections: int = 1024
    drain_seconds: float = 5.0  # for running answers when the gateway stops
    connect_seconds: float = 2.5  # in which a request must reach a target
    max_retries: int = 10  # failures in a row of each target before an answer fails
    hedge_seconds: float | None = None  # without a token, after which another target is asked too
    demo_controls: str | None = None  # a target's admin address on this machine, if callers may disconnect its drafts

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
        check_range("ping_seconds", self.ping_seconds, 0.01, 3600)
        check_range("max_connections", self.max_connections, 1, 1 << 20)
        check_range("drain_seconds", self.drain_seconds, 0, 3600)
        check_range("connect_seconds", self.connect_seconds, 0.1, 3600)
        check_range("max_retries", self.max_retries, 0, 1000)
        if self.hedge_seconds is not None:
            check_range("hedge_seconds", self.hedge_seconds, 0.01, 3600)
            if len(self.targets) < _FEWEST_HEDGED:
                raise ConfigError(f"hedge_seconds is {self.hedge_seconds}; it must not be set with one target only")

    @property
    def hosts(self) -> frozenset[str] | None:
        """The host names that requests may use, None for any.

        A gateway that only this machine can reach has known names; for others they must be configured.
        """
        if "*" in self.allowed_hosts or not (self.allowed_hosts or is_local(self.listen)):
            return None
        return frozenset(map(str.lower, (*_LOCAL, *self.allowed_hosts, self.listen.rpartition(":")[0])))
