"""PipSettings: where this machine's pip finds packages, carried into the build of an image and not into the image."""

import ast
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

_SOURCES = ("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "cert", "proxy")
_PRECEDENCE = ("global", "install", ":env:")  # later ones win


@dataclass(frozen=True)
class PipSettings:
    """Settings by name, as pip.conf has them."""

    values: dict[str, str]

    @classmethod
    def of_this_machine(cls) -> "PipSettings":
        """What pip itself says that it would use."""
        command = [sys.executable, "-m", "pip", "config", "list"]
        return cls.parse(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    @classmethod
    def parse(cls, listing: str) -> "PipSettings":
        """Read what `pip config list` prints: lines such as `global.cert='ca.pem'`."""
        found: dict[str, dict[str, str]] = {section: {} for section in _PRECEDENCE}
        for line in listing.splitlines():
            name, _, value = line.partition("=")
            section, _, key = name.rpartition(".")
            if section in found and key in _SOURCES:
                found[section][key] = ast.literal_eval(value)
        return cls({key: value for section in _PRECEDENCE for key, value in found[section].items()})

    def volumes(self, folder: Path) -> list[str]:
        """Mounts, as HOST:CONTAINER:ro, of a pip.conf, which is written into the folder, and of all that it names."""
        configuration = folder / "pip.conf"
        lines = [f"{key} = {value}" for key, value in self.values.items()]
        configuration.write_text("\n".join(["[global]", *lines, ""]))
        named = {path for value in self.values.values() for word in value.split() if (path := _local_path(word))}
        return [f"{configuration}:/etc/pip.conf:ro", *(f"{path}:{path}:ro" for path in sorted(named))]


def _local_path(word: str) -> Path | None:
    """The existing file or folder that a setting names; an index may keep its packages beside its pages."""
    path = Path(unquote(urlsplit(word).path)).parent if word.startswith("file:") else Path(word)
    return path if path.is_absolute() and path.exists() else None
