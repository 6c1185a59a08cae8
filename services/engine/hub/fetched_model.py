"""FetchedModel: the location of a model on this machine, and its name."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from services.engine.hub.hub_name import HubName, ModelSource


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """A model's location, its name, and its downloaded files."""

    path: Path  # its folder, or its first GGUF file
    source: ModelSource  # a name on the hub is pinned to its commit
    files: Seq[Path] = ()  # the files of a name on the hub

    @property
    def name(self) -> str:
        """The model's name for clients: the name on the hub with its commit, or the name of the folder or file."""
        return str(self.source) if isinstance(self.source, HubName) else self.path.resolve().name
