"""outrider pull: downloads models from the hub ahead of their use."""

import argparse
import sys

from services.cli.quantity import byte_size
from services.cli.terminal import INTERRUPTED, Terminal
from services.engine.hub.fetch import fetch
from services.engine.hub.hub_error import HubError
from services.engine.hub.hub_name import HubName


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    parser.add_argument(
        "names", nargs="+", type=_read_name, metavar="NAME", help="a name on the hub: org/name[@revision][:file.gguf]"
    )


def run(arguments: argparse.Namespace) -> int:
    """Download one model after the other, and print the path of each; returns 1 if one could not be downloaded."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    code = 0
    for name in arguments.names:
        try:
            model = fetch(name)
        except HubError as error:
            err.error(f"outrider pull: {error}")
            code = 1
        except KeyboardInterrupt:
            err.error(f"outrider pull: {name} is incomplete; the same command continues the download")
            return INTERRUPTED
        else:
            size = sum(file.stat().st_size for file in model.files)
            out.text(f"{model.name}\n  {byte_size(size)} in {model.path}\n")
    return code


def _read_name(text: str) -> HubName:
    if (name := HubName.parse(text)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no name on the hub; it must be org/name[@revision][:file.gguf]")
    return name
