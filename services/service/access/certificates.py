"""Certificates: the certificate that one end of a TLS connection presents and the authorities that it trusts."""

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
    """All PEM; `pair` is the private key and its certificate chain."""

    pair: tuple[bytes, bytes] | None
    authorities: bytes | None


def watch_certificates(
    chain: Path | None, key: Path | None, authorities: Path | None
) -> WatchedFiles[Certificates] | None:
    """Return the watched certificates of these files, or None if no file is given; raises ConfigError.

    The chain and its key are reloaded together.
    """
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
    """Return credentials that present the files' current certificate to each new connection.

    With authorities, a client must present a certificate that one of them signed.
    """
    current = files.value

    def changed() -> "grpc.ServerCertificateConfiguration | None":
        """Return the new configuration, or None if the files have not changed; gRPC calls it before each handshake."""
        nonlocal current
        if (latest := files.value) is current:
            return None
        current = latest
        return _configuration(latest)

    credentials: grpc.ServerCredentials = grpc.dynamic_ssl_server_credentials(
        _configuration(current),
        cast(Callable[[], grpc.ServerCertificateConfiguration], changed),  # the type stub omits None
        require_client_authentication=current.authorities is not None,
    )
    return credentials


def channel_credentials(certificates: Certificates) -> grpc.ChannelCredentials:
    """Return the credentials of a connection to a server, whose name is verified."""
    key, chain = certificates.pair or (None, None)
    return grpc.ssl_channel_credentials(certificates.authorities, key, chain)


def server_context(files: WatchedFiles[Certificates]) -> ssl.SSLContext:
    """Return a context for Python's own TLS that presents the files' current certificate to each new connection."""
    loaded = files.value
    context = current = _context(loaded)

    def select(connection: ssl.SSLObject, *_: object) -> None:
        """Set the latest context; OpenSSL calls it in each handshake, whether or not the client sends a server name."""
        nonlocal loaded, current
        if (latest := files.value) is not loaded:
            loaded, current = latest, _context(latest)
        connection.context = current

    context.sni_callback = select
    return context


def _context(certificates: Certificates) -> ssl.SSLContext:
    assert certificates.pair is not None
    key, chain = certificates.pair
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _in_memory(chain) as chain_file, _in_memory(key) as key_file:
        # Without a password OpenSSL would prompt for an encrypted key; an empty one makes it an error.
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
        raise ConfigError(f"{chain} and {key}: are not a certificate and its key in PEM: {error}") from error


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """Yield a path to these bytes: OpenSSL loads certificates from files only, and those on disk may have changed."""
    with os.fdopen(os.memfd_create("certificate"), "wb") as file:
        file.write(data)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"
