"""The bench command: its options, and what it prints and saves."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from outrider import OutriderError
from services.cli.bench.report import print_report
from services.cli.bench.setting import Setting
from services.cli.bench.vital_signs import measure
from services.cli.service_pair import ModelPair, demo_models
from services.cli.service_process import ServiceFailedError
from services.cli.terminal import Terminal
from services.engine.config import CPU, KV_FORMATS, WEIGHT_FORMATS, ConfigError
from services.engine.files.checkpoint_error import CheckpointError

_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Setting)}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    parser.add_argument("--model", type=Path, metavar="DIR", help="the target's folder (default: the demo models)")
    parser.add_argument("--draft-model", type=Path, metavar="DIR", help="the draft's folder, with --model")
    for flag, choices, what in (
        ("--weights", WEIGHT_FORMATS, "how the target's weights are held"),
        ("--draft-weights", WEIGHT_FORMATS, "how the draft's weights are held"),
        ("--kv", KV_FORMATS, "how keys and values are held"),
    ):
        parser.add_argument(flag, choices=choices, default="bf16", help=f"{what} (%(default)s)")
    parser.add_argument("--device", default=CPU, help="what computes the target: cpu, or cuda:N (%(default)s)")
    parser.add_argument("--draft-device", metavar="DEVICE", help="what computes the draft (default: as --device)")
    parser.add_argument("--threads", type=int, metavar="N", help="of each service (default: one per core that it has)")
    _add_count(parser, "context", "tokens before the rows of a pass")
    _add_count(parser, "runs", "timings of each pass")
    _add_count(parser, "rounds", "answers in each way")
    _add_count(parser, "prompt_tokens", "of each prompt, which are random")
    _add_count(parser, "new_tokens", "of each answer, at least 2")
    _add_count(parser, "streams", "that run at once, at least 1")
    _add_list(parser, "draft_lengths", "predictions in each pass, where their number is fixed")
    _add_list(parser, "placements", "of the two services on the cores; none: they are not run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the figures there as well")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print and save; returns the exit code."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    models = ModelPair(arguments.model, arguments.draft_model) if arguments.model else demo_models()
    if models is None:
        err.error("outrider bench: there is no demo model here; name a model folder with --model")
        return 1
    with tempfile.TemporaryFile("w+") as log:
        try:
            setting = Setting(
                models=models, **{name: getattr(arguments, name) for name in _DEFAULTS if name != "models"}
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


def _add_count(parser: argparse.ArgumentParser, field: str, help_text: str) -> None:
    flag = f"--{field.replace('_', '-')}"
    parser.add_argument(flag, type=int, default=_DEFAULTS[field], metavar="N", help=f"{help_text} (%(default)s)")


def _add_list(parser: argparse.ArgumentParser, field: str, help_text: str) -> None:
    default: Sequence[object] = _DEFAULTS[field]
    parser.add_argument(
        f"--{field.replace('_', '-')}",
        nargs="*",
        type=type(default[0]),
        default=default,
        help=f"{help_text} (default: {' '.join(map(str, default))})",
    )
