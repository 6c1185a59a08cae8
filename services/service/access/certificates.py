"""Certificates: what one end of a TLS connection shows, and whom it trusts, read from files and checked."""

import os
import ssl
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import grpc

from services.engine.config import ConfigError
from services.service.access.watched_files import WatchedFiles


@dataclass(frozen=True, slots=True)
class Certificates:
    """All PEM; `pair` is the private key and the chain of certificates that it belongs to."""

    pair: tuple[bytes, bytes] | None
    authorities: bytes | None


def watch_certificates(
    chain: Path | None, key: Path | None, authorities: Path | None
) -> WatchedFiles[Certificates] | None:
    """The certificates in these files, chain and key together, or None where there are none; raises ConfigError."""
    paths = [path for path in (chain, key, authorities) if path is not None]
    if not paths:
        return None

    def read(contents: Seq[bytes]) -> Certificates:
        found = dict(zip(paths, contents, strict=True))
        if authorities is not None:
            _check_authorities(authorities, found[authorities])
        if chain is None or key is None:
            return Certificates(None, contents[-1])
        _check_pair(chain, key, found)
        return Certificates((found[key], found[chain]), found[authorities] if authorities else None)

    return WatchedFiles(paths, read)


def server_credentials(files: WatchedFiles[Certificates]) -> grpc.ServerCredentials:
    """Credentials that show what the files hold when a connection is made.

    With authorities, only connections come about that show a certificate of theirs.
    """
    told = files.value

    def changed() -> "grpc.ServerCertificateConfiguration | None":
        """What gRPC asks before each handshake, on a thread of its own: None if nothing is new."""
        nonlocal told
        if (now := files.value) is told:
            return None
        told = now
        return _configuration(now)

    credentials: grpc.ServerCredentials = grpc.dynamic_ssl_server_credentials(
        _configuration(told),
        cast(Callable[[], grpc.ServerCertificateConfiguration], changed),  # the type stub forgets None
        require_client_authentication=told.authorities is not None,
    )
    return credentials


def channel_credentials(certificates: Certificates) -> grpc.ChannelCredentials:
    """Credentials for a connection to a server, whose name is checked."""
    key, chain = certificates.pair or (None, None)
    return grpc.ssl_channel_credentials(certificates.authorities, key, chain)


def server_context(files: WatchedFiles[Certificates]) -> ssl.SSLContext:
    """The same for Python's own TLS: it shows what the files hold when a connection is made."""
    told = files.value
    context = current = _context(told)

    def look(connection: ssl.SSLObject, *_: object) -> None:
        """What OpenSSL calls in each handshake, whether or not the other side has named a server."""
        nonlocal told, current
        if (now := files.value) is not told:
            told, current = now, _context(now)
        connection.context = current

    context.sni_callback = look
    return context


def _context(certificates: Certificates) -> ssl.SSLContext:
    assert certificates.pair is not None
    key, chain = certificates.pair
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _in_memory(chain) as chain_file, _in_memory(key) as key_file:
        # An encrypted key would be asked for at the terminal; an empty password makes it an error.
        context.load_cert_chain(chain_file, key_file, password="")
    return context


def _configuration(certificates: Certificates) -> "grpc.ServerCertificateConfiguration":
    assert certificates.pair is not None
    return grpc.ssl_server_certificate_configuration([certificates.pair], certificates.authorities)


def _check_authorities(path: Path, data: bytes) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{path}: holds no certificates in PEM: {error}") from error


def _check_pair(chain: Path, key: Path, found: dict[Path, bytes]) -> None:
    try:
        _context(Certificates((found[key], found[chain]), None))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{chain} and {key}: are no certificate and its key in PEM: {error}") from error


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A path to these bytes: OpenSSL reads certificates from files only, and those on disk may change meanwhile."""
    with os.fdopen(os.memfd_create("certificate"), "wb") as file:
        file.write(data)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"
