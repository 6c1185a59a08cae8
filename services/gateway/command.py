"""outrider gateway: HTTP in front of a target."""

import argparse
import asyncio
import gc
import importlib.util
import sys
from dataclasses import fields
from pathlib import Path

from services.engine.config import ConfigError
from services.gateway.config import GatewayConfig
from services.service.access.credential_files import CredentialFiles
from services.service.life.exit_code import ExitCode
from services.service.life.stop_signals import StopSignals
from services.telemetry.log_lines import configure_logging
from services.telemetry.telemetry_config import LOG_FORMATS

_DEFAULTS = {field.name: field.default for field in fields(GatewayConfig)}
_NEEDED = ("starlette", "uvicorn", "httptools", "pydantic")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    parser.add_argument(
        "--target",
        action="append",
        required=True,
        metavar="HOST:PORT",
        help="a target; of several, all with the same model, each takes over what another leaves",
    )
    parser.add_argument("--listen", default=_DEFAULTS["listen"], metavar="HOST:PORT", help="(%(default)s)")
    for name, description in _FILES.items():
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=description)
    insecure = "allow clear text beyond this machine, for what else keeps it safe"
    parser.add_argument("--insecure", action="store_true", help=insecure)
    origins = "a page's origin, such as https://example.com, that may call; * for any (default: none)"
    parser.add_argument("--cors-origin", action="append", default=[], metavar="ORIGIN", help=origins)
    hosts = "names by which requests may call this gateway beside those of this machine; * for any"
    parser.add_argument("--allowed-hosts", action="extend", nargs="+", default=[], metavar="NAME", help=hosts)
    endpoint = "a collector of OpenTelemetry that spans of requests go to (default: none)"
    parser.add_argument("--otlp-endpoint", metavar="http://HOST:PORT", help=endpoint)
    demo = "let callers take the target's drafts away and give them back: its --admin-listen, on this machine"
    parser.add_argument("--allow-demo-controls", metavar="ADMIN", help=demo)
    for name, description in _NUMBERS.items():
        flag, default = f"--{name.replace('_', '-')}", _DEFAULTS[name]
        parser.add_argument(flag, type=type(default), default=default, metavar="N", help=f"{description} (%(default)s)")
    parser.add_argument("--log-format", choices=LOG_FORMATS, default=LOG_FORMATS[0], help="(default: %(default)s)")


_FILES = {
    "tls-cert": "answer over TLS with this certificate chain, PEM",
    "tls-key": "its private key, PEM",
    "target-tls-ca": "ask targets over TLS, trusting certificates of these authorities, PEM",
    "target-tls-cert": "certificate chain that is shown to targets, PEM",
    "target-tls-key": "its private key, PEM",
}
_NUMBERS = {
    "max_body": "bytes of a request at most",
    "body_seconds": "seconds in which a request has to arrive",
    "max_connections": "connections at once",
    "drain_seconds": "seconds for answers that are written when the gateway ends",
    "max_retries": "rounds in a row that every target may fail before an answer is given up",
}


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        said = f"{missing[0]} is not installed; it comes with: pip install 'outrider[gateway]'"
        print(f"outrider gateway: {said}", file=sys.stderr)
        return ExitCode.NOT_STARTED
    configure_logging(arguments.log_format)
    try:
        asyncio.run(_serve(arguments))
    except ConfigError as error:
        print(f"outrider gateway: {error}", file=sys.stderr)
        return ExitCode.NOT_STARTED
    return ExitCode.TOLD_TO


async def _serve(arguments: argparse.Namespace) -> None:
    from services.gateway.server import GatewayServer  # it needs what a plain installation lacks

    server = GatewayServer(_config(arguments))
    signals = StopSignals()
    await server.start()
    print(f"listening on {server.address}\nserving", flush=True)
    gc.freeze()  # what is loaded stays: looking through it would hold up every answer for tens of milliseconds
    told, ended = asyncio.create_task(signals.wait()), asyncio.create_task(server.ended())
    try:
        await asyncio.wait((told, ended), return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
        ended.cancel()
        await server.close()


def _config(arguments: argparse.Namespace) -> GatewayConfig:
    return GatewayConfig(
        targets=tuple(arguments.target),
        listen=arguments.listen,
        tls_certificate=arguments.tls_cert,
        tls_key=arguments.tls_key,
        credentials=CredentialFiles(
            authorities=arguments.target_tls_ca, certificate=arguments.target_tls_cert, key=arguments.target_tls_key
        ),
        insecure=arguments.insecure,
        cors_origins=tuple(arguments.cors_origin),
        allowed_hosts=tuple(arguments.allowed_hosts),
        otlp_endpoint=arguments.otlp_endpoint,
        demo_controls=arguments.allow_demo_controls,
        **{name: getattr(arguments, name) for name in _NUMBERS},
    )
