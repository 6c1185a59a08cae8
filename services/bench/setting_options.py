"""The options of a command from which a Setting is made."""

import argparse
from collections.abc import Sequence as Seq
from dataclasses import fields
from typing import Any

from services.bench.setting import Setting
from services.engine.config import CPU

_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Setting)}
_COUNTS = {
    "context": "tokens before the rows of a pass",
    "runs": "timings of each pass",
    "rounds": "answers in each way",
    "prompt_tokens": "random tokens of each prompt",
    "new_tokens": "tokens of each answer, at least 2",
    "streams": "concurrent answers, at least 1",
}
_LISTS = {
    "draft_lengths": "fixed numbers of predictions in each pass",
    "placements": "how the two services share the cores; none: do not run them",
}


def add_setting_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all measuring commands share: the device, sizes and numbers."""
    parser.add_argument("--device", default=CPU, help="device of the target: cpu, or cuda:N (%(default)s)")
    for name, description in _COUNTS.items():
        default = _DEFAULTS[name]
        parser.add_argument(_flag(name), type=int, default=default, metavar="N", help=f"{description} (%(default)s)")
    for name, description in _LISTS.items():
        values: Seq[object] = _DEFAULTS[name]
        text = f"{description} (default: {' '.join(map(str, values))})"
        parser.add_argument(_flag(name), nargs="*", type=type(values[0]), default=values, help=text)


def read_setting(arguments: argparse.Namespace, **others: Any) -> Setting:  # noqa: ANN401 - as in Setting
    """Return the setting with these options; `others` are its remaining fields. Raises ConfigError for a bad value."""
    names = ("device", *_COUNTS, *_LISTS)
    return Setting(**{name: getattr(arguments, name) for name in names}, **others)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
