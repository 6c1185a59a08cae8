"""ServerConfig: the settings of a service's gRPC server."""

from dataclasses import dataclass
from pathlib import Path

from outrider.servers.channel import is_local
from services.engine.config import ConfigError, check_range, split_address
from services.service.limits import MAX_REQUEST_BYTES

_LARGEST_QUEUE = 1 << 20
_LARGEST = 1 << 40
_SHORTEST_TIMEOUT = 0.1  # seconds
_DAY = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The settings of one gRPC server; `listen` is HOST:PORT, with port 0 for a free one, or unix:PATH."""

    listen: str = "127.0.0.1:50051"
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None  # if set, clients must present a certificate from its authorities
    tokens_file: Path | None = None  # if set, calls must carry one of its tokens
    insecure: bool = False  # whether clear text may leave this machine
    admin_listen: str | None = None  # as `listen`, on this machine only; default: no AdminService
    drain_seconds: float = 5.0  # for running streams to finish when the server is to end
    hang_seconds: float = 60.0  # the least time after which a step of the engine counts as late
    max_connection_age: float | None = None  # seconds after which a client is asked to reconnect; default: never
    max_connection_age_grace: float = 600.0  # seconds that its streams may continue after that
    max_queue: int = 256  # queued requests beside the running ones
    max_waiting_tokens: int = 1 << 18  # prompt tokens that wait for prefill
    max_held_bytes: int = 1 << 28  # of large requests, from their arrival to the end of their calls
    max_text_calls: int = 64  # Tokenize and Detokenize at once
    max_streams_per_caller: int | None = None  # default: the running sequences plus half of the queue
    reader_timeout: float = 60.0  # seconds that a stream waits for its reader

    def streams_per_caller(self, max_sequences: int) -> int:
        """Return the limit of one caller's requests on a server that runs `max_sequences` at once."""
        return self.max_streams_per_caller or max_sequences + self.share(self.max_queue)

    def share(self, amount: int) -> int:
        """Return one caller's limit of a total amount: half, or all of it if callers cannot be distinguished."""
        are_all_alike = self.listen.startswith("unix:") and self.tokens_file is None
        return amount if are_all_alike else -(-amount // 2)

    def __post_init__(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("only one of tls_certificate and tls_key is set; both are needed, or neither")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ConfigError("tls_client_ca is set without tls_certificate and tls_key; it needs both")
        check_range("drain_seconds", self.drain_seconds, 0, 3600)
        check_range("hang_seconds", self.hang_seconds, _SHORTEST_TIMEOUT, _DAY)
        if self.max_connection_age is not None:
            check_range("max_connection_age", self.max_connection_age, _SHORTEST_TIMEOUT, _DAY)
        check_range("max_connection_age_grace", self.max_connection_age_grace, 0, _DAY)
        check_range("max_queue", self.max_queue, 0, _LARGEST_QUEUE)
        check_range("max_text_calls", self.max_text_calls, 1, _LARGEST_QUEUE)
        check_range("max_waiting_tokens", self.max_waiting_tokens, 1, _LARGEST)
        check_range("max_held_bytes", self.max_held_bytes, 2 * MAX_REQUEST_BYTES, _LARGEST)
        if self.max_streams_per_caller is not None:
            check_range("max_streams_per_caller", self.max_streams_per_caller, 1, _LARGEST)
        check_range("reader_timeout", self.reader_timeout, _SHORTEST_TIMEOUT, 3600)
        check_address("listen", self.listen)
        if self.admin_listen is not None:
            check_address("admin_listen", self.admin_listen)
            if not is_local(self.admin_listen):
                allowed = "an address of this machine, as 127.0.0.1:PORT, or unix:PATH"
                raise ConfigError(f"admin_listen is {self.admin_listen!r}; it must be {allowed}")


def check_address(name: str, address: str) -> None:
    """Raise ConfigError unless this is HOST:PORT or unix:PATH."""
    if not address.startswith("unix:"):
        split_address(name, address, other=", or unix:PATH")
