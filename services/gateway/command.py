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
    """Add all options of the command to the parser."""
    parser.usage = "%(prog)s --target HOST:PORT [option …]"
    _add_addresses(parser.add_argument_group("addresses"))
    _add_limits(parser.add_argument_group("limits"))
    _add_security(parser.add_argument_group("security"))
    _add_observability(parser.add_argument_group("observability"))


def _add_addresses(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--target",
        action="append",
        required=True,
        metavar="HOST:PORT",
        help="a target; several with the same model may be given: each takes over the answers of one that fails",
    )
    listen = "where HTTP is served (default: %(default)s)"
    group.add_argument("--listen", default=_DEFAULTS["listen"], metavar="HOST:PORT", help=listen)
    demo = "let callers disconnect the target's drafts: its --admin-listen, on this machine (default: no)"
    group.add_argument("--allow-demo-controls", metavar="ADMIN", help=demo)


def _add_limits(group: "argparse._ArgumentGroup") -> None:
    for name, description in _NUMBERS.items():
        default, text = _DEFAULTS[name], f"{description} (default: %(default)s)"
        group.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, metavar="N", help=text)
    hedge = "seconds without a token after which the next target is asked too; the one ahead answers (default: never)"
    group.add_argument("--hedge-seconds", type=float, metavar="N", help=hedge)


def _add_security(group: "argparse._ArgumentGroup") -> None:
    for name, description in _FILES.items():
        group.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"{description} (default: no TLS)")
    insecure = "allow clear text beyond this machine, if something else protects it"
    group.add_argument("--insecure", action="store_true", help=insecure)
    origins = "an origin of pages that may call, such as https://example.com; * for any (default: none)"
    group.add_argument("--cors-origin", action="append", default=[], metavar="ORIGIN", help=origins)
    hosts = "host names that requests may use, beside those of this machine; * for any (default: no others)"
    group.add_argument("--allowed-hosts", action="extend", nargs="+", default=[], metavar="NAME", help=hosts)


def _add_observability(group: "argparse._ArgumentGroup") -> None:
    endpoint = "send spans of requests to this OpenTelemetry collector (default: none)"
    group.add_argument("--otlp-endpoint", metavar="http://HOST:PORT", help=endpoint)
    formats = "format of the log's lines (default: %(default)s)"
    group.add_argument("--log-format", choices=LOG_FORMATS, default=LOG_FORMATS[0], help=formats)


_FILES = {
    "tls-cert": "serve over TLS with this certificate chain, PEM",
    "tls-key": "its private key, PEM",
    "target-tls-ca": "call targets over TLS, trusting certificates of these authorities, PEM",
    "target-tls-cert": "certificate chain to show to targets, PEM",
    "target-tls-key": "its private key, PEM",
}
_NUMBERS = {
    "max_body": "the most bytes of a request",
    "body_seconds": "seconds in which a request must arrive",
    "ping_seconds": "seconds of silence, after which a stream says that it is alive",
    "max_connections": "the most connections at once",
    "drain_seconds": "seconds for running answers when the gateway stops",
    "connect_seconds": "seconds in which a request must reach a target",
    "max_retries": "rounds in a row in which every target may fail before an answer fails",
}


def check_packages() -> None:
    """Raise ConfigError if a package that only the gateway needs is not installed."""
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise ConfigError(f"{missing[0]} is not installed; it comes with: pip install 'outrider[gateway]'")


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""
    configure_logging("gateway", arguments.log_format)
    try:
        check_packages()
        asyncio.run(_serve(arguments))
    except ConfigError as error:
        print(f"outrider gateway: {error}", file=sys.stderr)
        return ExitCode.NOT_STARTED
    return ExitCode.STOPPED


async def _serve(arguments: argparse.Namespace) -> None:
    from services.gateway.server import GatewayServer  # it needs packages that a plain installation lacks

    server = GatewayServer(_config(arguments))
    signals = StopSignals()
    await server.start()
    print(f"listening on {server.address}\nserving", flush=True)
    gc.freeze()  # scanning the loaded modules in a collection would delay all answers by tens of milliseconds
    stopped, ended = asyncio.create_task(signals.wait()), asyncio.create_task(server.ended())
    try:
        await asyncio.wait((stopped, ended), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
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
        hedge_seconds=arguments.hedge_seconds,
        **{name: getattr(arguments, name) for name in _NUMBERS},
    )
