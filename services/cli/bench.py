"""outrider bench: how fast the decoder is on this machine, and what verifying several rows costs."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from services.cli.decoder_figures import DecoderFigures, measure_decoder
from services.cli.service_pair import ModelPair, demo_models
from services.cli.terminal import Terminal
from services.engine.checkpoint_error import CheckpointError
from services.engine.config import (
    KV_FORMATS,
    WEIGHT_FORMATS,
    ConfigError,
    EngineConfig,
    resolve_isa,
    resolve_threads,
)
from services.engine.loaded_model import LoadedModel


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options."""
    parser.add_argument("--model", type=Path, metavar="DIR", help="a model folder (default: the demo model)")
    parser.add_argument("--threads", type=int, metavar="N", help="compute threads (default: one per core)")
    parser.add_argument("--weights", choices=WEIGHT_FORMATS, default="bf16", help="how weights are held (%(default)s)")
    parser.add_argument("--kv", choices=KV_FORMATS, default="bf16", help="how keys and values are held (%(default)s)")
    parser.add_argument("--context", type=int, default=256, metavar="N", help="tokens before the rows (%(default)s)")
    parser.add_argument("--runs", type=int, default=100, metavar="N", help="timings of each figure (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the figures there as well")


def run(arguments: argparse.Namespace) -> int:
    """Print the figures; returns the exit code."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    models = ModelPair(arguments.model, None) if arguments.model else demo_models()
    if models is None:
        err.error("outrider bench: there is no demo model here; name a model folder with --model")
        return 1
    try:
        config = EngineConfig(
            model=models.target,
            isa=resolve_isa(),
            threads=resolve_threads(arguments.threads),
            weights=arguments.weights,
            kv=arguments.kv,
            max_sequences=1,
        )
        model = LoadedModel.load(config)
        figures = measure_decoder(model, context=arguments.context, runs=arguments.runs)
    except (CheckpointError, ConfigError) as error:
        err.error(f"outrider bench: {error}")
        return 1
    setting = {name: getattr(config, name) for name in ("isa", "threads", "weights", "kv")}
    out.note(", ".join(f"{name} {value}" for name, value in setting.items()))
    _print(figures, out)
    if arguments.json:
        text = json.dumps({"model": models.target.name, **setting, **asdict(figures)}, indent=2)
        arguments.json.write_text(text + "\n")
    return 0


def _print(figures: DecoderFigures, out: Terminal) -> None:
    one = figures.pass_seconds[1]
    lines = [
        ("bytes per step", f"{figures.step_bytes / 1e6:9.1f} MB"),
        ("memory read", f"{figures.read_rate / 1e9:9.1f} GB/s"),
        ("plain decode", f"{1 / one:9.1f} tokens/s  ({one * 1000:.2f} ms a pass)"),
        ("bandwidth fraction", f"{figures.bandwidth_fraction:9.2f}"),
        ("prefill", f"{figures.prefill_rate:9.1f} tokens/s"),
    ]
    lines += [
        (f"v({rows})", f"{seconds / one:9.2f}  ({seconds * 1000:.2f} ms)")
        for rows, seconds in figures.pass_seconds.items()
        if rows > 1
    ]
    for name, text in lines:
        out.text(name.ljust(20) + text + "\n")
