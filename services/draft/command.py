"""The draft command: its options, and its process."""

import argparse
from pathlib import Path

from services.draft.server import DraftServer
from services.draft.vocabulary.vocabularies import Way
from services.engine.config import ConfigError
from services.engine.decoder.weight_choice import AUTO
from services.engine.hub.hub_name import SOURCES, read_source
from services.service.named_option import NamedOption
from services.service.options import OptionGroups, engine_config, server_config, telemetry_config
from services.service.options import add_options as add_service_options
from services.service.service_process import run_service


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the draft command."""
    parser.usage = "%(prog)s --model MODEL [option …]"
    groups = OptionGroups(parser)
    groups.first.add_argument("--model", type=read_source, required=True, help=SOURCES)
    add_service_options(groups)
    groups.model.add_argument("--name", help="the model's name for targets (default: the folder's, or the hub's)")
    groups.model.add_argument(
        "--lora",
        dest="loras",
        action="append",
        type=NamedOption.parse,
        default=[],
        metavar="NAME=DIR",
        help="a LoRA adapter of the draft's model, in PEFT's format, for requests that use the target's adapter of the "
        "same name; may be given several times",
    )
    groups.speculation.add_argument(
        "--target-tokenizer",
        dest="target_tokenizers",
        action="append",
        type=read_source,
        default=[],
        metavar="MODEL",
        help=f"the model of a target that has another vocabulary, {SOURCES}; may be given several times",
    )
    groups.speculation.add_argument(
        "--translate",
        choices=[way.value for way in Way],
        default=Way.AUTO.value,
        help="how to predict for such a target: only tokens that both have (intersection), any of the draft's tokens, "
        "whose bytes are encoded again in the target's (bytes), or whichever suits the two (auto, the default)",
    )
    groups.speculation.add_argument(
        "--head-shortlist",
        type=int,
        metavar="TOKENS",
        help="predict only among this many tokens, the vocabulary's most frequent and the most recently read ones, so "
        "that less of the model's head is read (default: all)",
    )
    parser.set_defaults(listen="127.0.0.1:50052", weights=AUTO)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code."""

    def make() -> DraftServer:
        return DraftServer(
            engine_config(arguments, arguments.model),
            server_config(arguments),
            name=arguments.name,
            loras=_loras(arguments.loras),
            telemetry=telemetry_config(arguments),
            target_tokenizers=arguments.target_tokenizers,
            translate=Way(arguments.translate),
            head_shortlist=arguments.head_shortlist,
        )

    return run_service("draft", make, log_format=arguments.log_format)


def _loras(options: list[NamedOption]) -> dict[str, Path]:
    """The folders by their adapters' names; raises ConfigError."""
    loras: dict[str, Path] = {}
    for name, folder in options:
        if not name:
            raise ConfigError(f"lora is {folder!r}; it must be NAME=DIR, in NAME letters, digits, . _ -")
        if name in loras:
            raise ConfigError(f"lora is {name!r} more than once; each must have a name of its own")
        loras[name] = Path(folder)
    return loras
