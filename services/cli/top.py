"""outrider top: what a target does, as its metrics tell, in a terminal."""

import argparse
import sys
import time

from services.cli.scrape import Scrape
from services.cli.terminal import Terminal

_SHORTEST_INTERVAL = 0.1  # seconds


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    where = "where a target serves metrics, as its --metrics-listen says (%(default)s)"
    parser.add_argument("--metrics-address", default="localhost:9464", metavar="HOST:PORT", help=where)
    parser.add_argument("--interval", type=_seconds, default=1.0, metavar="S", help="seconds between two looks")
    parser.add_argument("--once", action="store_true", help="look for one interval, print that, and end")


def run(arguments: argparse.Namespace) -> int:
    """Watch until Ctrl-C; returns the exit code, 1 where nobody serves metrics there."""
    err = Terminal(sys.stderr)
    try:
        import rich  # noqa: F401 - the view needs it
    except ImportError:
        err.error("outrider top: rich is not installed; it comes with: pip install 'outrider[top]'")
        return 1
    try:
        _watch(arguments.metrics_address, arguments.interval, once=arguments.once)
    except (OSError, ValueError) as error:
        err.error(f"outrider top: no metrics at {arguments.metrics_address}: {error}")
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def _watch(address: str, interval: float, *, once: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    from services.cli.top_view import TopView

    before, console = Scrape.of(address), Console()
    time.sleep(interval)
    now = Scrape.of(address)
    if once:
        console.print(TopView(before, now).render())
        return
    with Live(TopView(before, now).render(), console=console, screen=True) as live:
        while True:
            time.sleep(interval)
            before, now = now, Scrape.of(address)
            live.update(TopView(before, now).render())


def _seconds(text: str) -> float:
    seconds = float(text)
    if not _SHORTEST_INTERVAL <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} must be from {_SHORTEST_INTERVAL} to 3600 seconds")
    return seconds
