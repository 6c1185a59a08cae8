"""The bench command: its options, and what it prints and saves."""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from outrider import OutriderError
from services.bench.report import print_report
from services.bench.setting import add_setting_options, read_setting
from services.bench.vital_signs import measure
from services.cli.service_pair import ModelPair, demo_models
from services.cli.service_process import ServiceFailedError
from services.cli.terminal import Terminal
from services.engine.config import KV_FORMATS, WEIGHT_FORMATS, ConfigError
from services.engine.decoder.weight_choice import STORED
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.hub.hub_name import SOURCES, read_source


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    parser.add_argument("--model", type=read_source, help=f"the target's model, {SOURCES} (default: the demo models)")
    parser.add_argument("--draft-model", type=read_source, metavar="MODEL", help="a draft or a head for --model")
    formats = (STORED, *WEIGHT_FORMATS)
    for flag, choices, what in (
        ("--weights", formats, "format of the target's weights"),
        ("--draft-weights", formats, "format of the draft's weights"),
        ("--kv", KV_FORMATS, "format of keys and values"),
    ):
        parser.add_argument(flag, choices=choices, default="bf16", help=f"{what} (%(default)s)")
    parser.add_argument("--draft-device", metavar="DEVICE", help="device of the draft (default: as --device)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of each service (default: one for each core)")
    add_setting_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also save the figures to this file")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print and save; returns the exit code."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    models = ModelPair(arguments.model, arguments.draft_model) if arguments.model else demo_models()
    if models is None:
        err.error("outrider bench: there is no demo model here; name a model with --model")
        return 1
    with tempfile.TemporaryFile("w+") as log:
        try:
            setting = read_setting(
                arguments,
                models=models.fetched(),
                weights=arguments.weights,
                draft_weights=arguments.draft_weights,
                kv=arguments.kv,
                draft_device=arguments.draft_device,
                threads=arguments.threads,
            )
            signs = measure(setting, say=err.note, log=log)
        except (CheckpointError, ConfigError, OutriderError, ServiceFailedError) as error:
            log.seek(0)
            err.text(log.read())
            err.error(f"outrider bench: {error}")
            return 1
    print_report(signs, out)
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(signs), indent=1) + "\n")
    return 0
