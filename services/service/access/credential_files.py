"""CredentialFiles: a client's certificate, token and trusted authorities, in files that may be replaced."""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import grpc

from outrider.servers.channel import check_token
from services.engine.config import ConfigError
from services.service.access.certificates import Certificates, channel_credentials, watch_certificates
from services.service.access.watched_files import WatchedFiles


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a connection and of its calls; without channel credentials it is in clear text."""

    channel: grpc.ChannelCredentials | None = None
    token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialFiles:
    """All PEM but the token, which is alone in its file. Without any file, calls are unauthenticated, in clear text."""

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    token: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("only one of a TLS certificate and its key is given; both are needed, or neither")
        if self.certificate is not None and self.authorities is None:
            raise ConfigError("a TLS certificate is given, but not the authorities of the server's certificate")

    def watch(self) -> Callable[[], Credentials]:
        """Return a function that returns the files' current credentials, the same object until a file changes.

        Raises ConfigError if a file is invalid now.
        """
        certificates = watch_certificates(self.certificate, self.key, self.authorities)
        token = watch_token(self.token) if self.token else None

        @lru_cache(1)
        def made(shown: Certificates | None, secret: str | None) -> Credentials:
            return Credentials(channel_credentials(shown) if shown else None, secret)

        return lambda: made(certificates.value if certificates else None, token.value if token else None)


def watch_token(path: Path) -> WatchedFiles[str]:
    """Return the watched token of a file, stripped of surrounding white space; raises ConfigError."""

    def read(contents: Seq[bytes]) -> str:
        token = contents[0].decode(errors="replace").strip()
        try:
            check_token(token)
        except ValueError as error:
            raise ConfigError(f"{path}: {error}") from error
        return token

    return WatchedFiles([path], read)
