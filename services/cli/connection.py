"""How commands connect to services: with or without TLS, and with which credentials."""

import argparse
from pathlib import Path
from typing import Any

import grpc

from outrider.servers.channel import IN_THE_CLEAR, bearer
from services.engine.config import resolve_token
from services.service.access.credential_files import CredentialFiles, Credentials


def add_tls_options(parser: "argparse._ActionsContainer") -> None:
    """Add the options for the trusted authorities and for our own certificate."""
    parser.add_argument("--tls-ca", type=Path, metavar="FILE", help="call over TLS, trusting these certificates (PEM)")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="show this certificate (chain, PEM)")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key (PEM)")


def add_token_option(parser: "argparse._ActionsContainer") -> None:
    """Add the option for the file of our token."""
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="send the token in this file (OUTRIDER_TOKEN)")


def read_credentials(arguments: argparse.Namespace) -> Credentials:
    """Return the credentials of the options and the environment; raises ConfigError if a file is bad."""
    files = CredentialFiles(authorities=arguments.tls_ca, certificate=arguments.tls_cert, key=arguments.tls_key)
    return Credentials(files.watch()().channel, read_token(getattr(arguments, "token_file", None)))


def read_token(path: Path | None) -> str | None:
    """Return the token in a file, or without a path that of the environment; raises ConfigError if it is bad."""
    return resolve_token() if path is None else CredentialFiles(token=path).watch()().token


def open_channel(address: str, credentials: grpc.ChannelCredentials | None) -> grpc.Channel:
    """Return a channel to a service, over TLS if there are credentials."""
    if credentials is None:
        return grpc.insecure_channel(address, IN_THE_CLEAR)
    return grpc.secure_channel(address, credentials)


def open_local_channel(address: str, token: str | None) -> grpc.Channel:
    """Return a channel to a service on this machine, whose calls send the token if there is one."""
    return grpc.intercept_channel(grpc.insecure_channel(address, IN_THE_CLEAR), _ShownToken(token))


class _ShownToken(grpc.UnaryUnaryClientInterceptor):
    def __init__(self, token: str | None) -> None:
        self._metadata = bearer(token)

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:  # noqa: ANN401
        return continuation(client_call_details._replace(metadata=self._metadata), request)
