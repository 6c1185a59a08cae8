"""outrider pull: models from the hub, before anything has to wait for them."""

import argparse
import sys

from services.cli.quantity import byte_size
from services.cli.terminal import INTERRUPTED, Terminal
from services.engine.hub.fetched_model import fetch
from services.engine.hub.hub_error import HubError
from services.engine.hub.hub_name import HubName


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    parser.add_argument(
        "names", nargs="+", type=_read_name, metavar="NAME", help="on the hub: org/name[@revision][:file.gguf]"
    )


def run(arguments: argparse.Namespace) -> int:
    """Download one after the other, and say where each is; returns 1 where one of them cannot be had."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    code = 0
    for name in arguments.names:
        try:
            model = fetch(name)
        except HubError as error:
            err.error(f"outrider pull: {error}")
            code = 1
        except KeyboardInterrupt:
            err.error(f"outrider pull: {name} is not wholly there; the same command goes on with what is missing")
            return INTERRUPTED
        else:
            size = sum(file.stat().st_size for file in model.files)
            out.text(f"{model.name}\n  {byte_size(size)} in {model.path}\n")
    return code


def _read_name(text: str) -> HubName:
    if (name := HubName.parse(text)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no name on the hub; it must be org/name[@revision][:file.gguf]")
    return name
