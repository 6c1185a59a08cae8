"""outrider models: lists the models in the hub's cache, and which of them can be served."""

import argparse
import json
import logging
from dataclasses import asdict

from services.cli.calls.ending import exit_code
from services.cli.quantity import byte_size, large_count
from services.cli.terminal import Terminal
from services.engine.hub.cached_model import CachedModel, ModelCache
from services.engine.hub.model_summary import ModelSummary

_SHORT = 12  # characters


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser."""
    parser.add_argument("--json", action="store_true", help="print a JSON list of objects with all fields")


def run(arguments: argparse.Namespace) -> int:
    """List all models; returns the exit code."""
    logging.disable(logging.WARNING)  # warnings about a model matter when it is served
    return exit_code("models", lambda out, err: _list(out, err, is_json=arguments.json))


def _list(out: Terminal, err: Terminal, *, is_json: bool) -> int:
    cache = ModelCache.scan()
    if is_json:
        out.text(json.dumps([_fields(model) for model in cache.models], indent=1) + "\n")
    else:
        for model in cache.models:
            _print(model, out)
        if not cache.models:
            out.note(f"no models in {cache.folder}; `outrider pull NAME` downloads one")
    for damage in cache.damages:
        err.note(f"outrider models: {damage}")
    return 0


def _print(model: CachedModel, out: Terminal) -> None:
    out.heading(str(model.name))
    where = f"{byte_size(model.num_bytes)} · revision {model.revision[:_SHORT]}"
    out.text(f"  {where} · {_described(model.summary)}\n")


def _described(summary: ModelSummary) -> str:
    if summary.problem is not None:
        return f"cannot be served: {summary.problem}"
    assert summary.parameters is not None
    size = f"{large_count(summary.parameters)} parameters in {summary.bits_per_weight:.3g} bits each"
    return f"{summary.architecture} · {size} · context of {summary.context_length} tokens"


def _fields(model: CachedModel) -> dict[str, object]:
    values = {"name": str(model.name), **asdict(model), "path": str(model.path)}
    return {name: value for name, value in values.items() if name != "summary"} | asdict(model.summary)
