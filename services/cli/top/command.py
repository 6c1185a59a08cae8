"""outrider top: shows the metrics of a target in a terminal."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc

from outrider.errors import as_error
from outrider.v1 import admin_pb2
from outrider.v1.admin_pb2_grpc import AdminServiceStub
from services.cli.connection import add_token_option, open_local_channel, read_token
from services.cli.terminal import Terminal
from services.cli.top.keys import waiting_for
from services.cli.top.scrape import Scrape
from services.service.printable import printable

_TIMEOUT_SECONDS = 5.0
_SHORTEST_INTERVAL = 0.1  # seconds


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    source = parser.add_mutually_exclusive_group()
    admin = "ask a target at its --admin-listen, HOST:PORT or unix:PATH"
    source.add_argument("--address", metavar="ADDRESS", help=admin)
    where = "or read its Prometheus metrics, at its --metrics-listen (%(default)s)"
    source.add_argument("--metrics-address", default="localhost:9464", metavar="HOST:PORT", help=where)
    add_token_option(parser)
    parser.add_argument("--interval", type=_seconds, default=1.0, metavar="S", help="seconds between updates")
    parser.add_argument("--once", action="store_true", help="print the figures of one interval, and end")


def run(arguments: argparse.Namespace) -> int:
    """Show the metrics until q or Ctrl-C; returns the exit code, 1 if they cannot be read."""
    err = Terminal(sys.stderr)
    try:
        import rich  # noqa: F401 - the view needs it
    except ImportError:
        err.error("outrider top: rich is not installed; it comes with: pip install 'outrider[top]'")
        return 1
    try:
        with _looking(arguments) as look:
            _watch(look, arguments.interval, once=arguments.once)
    except (OSError, ValueError) as error:
        err.error(f"outrider top: no metrics at {arguments.address or arguments.metrics_address}: {error}")
        return 1
    except grpc.RpcError as error:
        problem = " ".join(str(as_error(error)).split())  # on one line
        err.error(f"outrider top: no metrics at {arguments.address}: {printable(problem, 1000)}")
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


@contextmanager
def _looking(arguments: argparse.Namespace) -> Iterator[Callable[[], Scrape]]:
    """Yield a function that reads the metrics once, over a channel that is open meanwhile if one is needed."""
    if arguments.address is None:
        yield lambda: Scrape.of(arguments.metrics_address)
        return
    with open_local_channel(arguments.address, read_token(arguments.token_file)) as channel:
        stub = AdminServiceStub(channel)
        yield lambda: Scrape.read(stub.GetMetrics(admin_pb2.GetMetricsRequest(), timeout=_TIMEOUT_SECONDS).page)


def _watch(look: Callable[[], Scrape], interval: float, *, once: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    from services.cli.top.view import TopView

    before, console = look(), Console()
    time.sleep(interval)
    now = look()
    if once:
        console.print(TopView(before, now).render())
        return
    with waiting_for("q") as pressed, Live(TopView(before, now).render(), console=console, screen=True) as live:
        while not pressed(interval):
            before, now = now, look()
            live.update(TopView(before, now).render())


def _seconds(text: str) -> float:
    seconds = float(text)
    if not _SHORTEST_INTERVAL <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} must be from {_SHORTEST_INTERVAL} to 3600 seconds")
    return seconds
