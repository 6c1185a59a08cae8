"""How the commands that call services connect to them: over TLS or not, and with what they show."""

import argparse
from pathlib import Path
from typing import Any

import grpc

from outrider.servers.channel import IN_THE_CLEAR, bearer
from services.engine.config import resolve_token
from services.service.access.credential_files import CredentialFiles, Credentials


def add_tls_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say whom to trust, and which certificate to show."""
    parser.add_argument("--tls-ca", type=Path, metavar="FILE", help="call over TLS, trusting these certificates (PEM)")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="show this certificate (chain, PEM)")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key (PEM)")


def add_token_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which token to show."""
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="show the token in this file (OUTRIDER_TOKEN)")


def read_credentials(arguments: argparse.Namespace) -> Credentials:
    """What the options and the environment give; raises ConfigError."""
    files = CredentialFiles(authorities=arguments.tls_ca, certificate=arguments.tls_cert, key=arguments.tls_key)
    return Credentials(files.watch()().channel, read_token(getattr(arguments, "token_file", None)))


def read_token(path: Path | None) -> str | None:
    """The token in a file, or else of the environment; raises ConfigError."""
    return resolve_token() if path is None else CredentialFiles(token=path).watch()().token


def open_channel(address: str, credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
    """A channel to a service."""
    if credentials is None:
        return grpc.insecure_channel(address, IN_THE_CLEAR)
    return grpc.secure_channel(address, credentials)


def open_local_channel(address: str, token: str | None) -> grpc.Channel:
    """A channel to a service on this machine, whose calls show a token if there is one."""
    return grpc.intercept_channel(grpc.insecure_channel(address, IN_THE_CLEAR), _ShownToken(token))


class _ShownToken(grpc.UnaryUnaryClientInterceptor):
    def __init__(self, token: str | None) -> None:
        self._metadata = bearer(token)

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:  # noqa: ANN401
        return continuation(client_call_details._replace(metadata=self._metadata), request)
