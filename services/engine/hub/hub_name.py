"""HubName: a model by its name on the Hugging Face hub."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

_PART = r"[A-Za-z0-9_][\w.-]*"
_NAME = re.compile(rf"(?P<repository>{_PART}/{_PART})(?:@(?P<revision>[^@:]+))?(?::(?P<file>.+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HubName:
    """`org/name[@revision][:file.gguf]`; the revision is a branch, a tag or a commit."""

    repository: str
    revision: str | None = None  # default: the repository's main branch
    file: str | None = None  # a GGUF file of the repository

    @classmethod
    def parse(cls, text: str) -> "HubName | None":
        """Return the name in a text, None if it is not one."""
        match = _NAME.fullmatch(text)
        return cls(**match.groupdict()) if match else None

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"{self.repository}{revision}{f':{self.file}' if self.file else ''}"


ModelSource = Path | HubName
"""A folder or a file of this machine, or a name on the hub."""

SOURCES = "a folder, a GGUF file, or a name on the hub, org/name[@revision][:file.gguf]"


def read_source(text: str) -> ModelSource:
    """Read a model option: a path if it exists or cannot be a name, else a name on the hub."""
    name = None if os.path.exists(text) else HubName.parse(text)
    if name is None or (name.repository.endswith(".gguf") and not name.file):  # such a file is missing
        return Path(text)
    return name
