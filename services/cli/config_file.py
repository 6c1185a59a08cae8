"""Options of a service from a TOML file: `--config FILE`."""

import argparse
import tomllib
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from pathlib import Path


class ConfigFileError(ValueError):
    """A file that holds no options; the message names it, and what it must hold."""


def with_file(argv: Seq[str]) -> list[str]:
    """Return a command and its options, with those of its `--config FILE` in front of the others.

    So an option of the command line takes the place of the file's, or, where several may be given, is added. Raises
    ConfigFileError for a file that cannot be read, and for a value that no option has.
    """
    command, *options = argv
    parser = argparse.ArgumentParser(prog=f"outrider {command}", add_help=False, allow_abbrev=False)
    parser.add_argument("--config", action="append", type=Path, default=[], metavar="FILE")
    files: list[Path] = parser.parse_known_args(options)[0].config
    return [command, *(option for file in files for option in _options_of(file)), *options]


def _options_of(path: Path) -> Iterator[str]:
    try:
        values = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigFileError(f"config is {str(path)!r}; it must be a TOML file: {error}") from error
    for name, value in values.items():
        for each in value if isinstance(value, list) else [value]:
            yield _option(path, name.replace("_", "-"), each)


def _option(path: Path, name: str, value: object) -> str:
    """Return what the command line would say: true is an option without a value, false is `--no-` in front of it."""
    if name == "config":
        raise ConfigFileError(f"config is {value!r} in {path}; it must be on the command line")
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    if not isinstance(value, str | int | float):
        raise ConfigFileError(
            f"{name} is {value!r} in {path}; it must be a string, a number, true, false, or a list of these"
        )
    return f"--{name}={value}"
