"""fetch: returns the location of a model on this machine, after downloading it if necessary."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from services.engine.hub.hub_name import HubName, ModelSource


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """The location of a model, and its name."""

    path: Path  # its folder, or its first GGUF file
    source: ModelSource  # a name on the hub is pinned to its commit
    files: Seq[Path] = ()  # the files of a name on the hub

    @property
    def name(self) -> str:
        """The model's name for clients: the name on the hub with its commit, or the name of the folder or file."""
        return str(self.source) if isinstance(self.source, HubName) else self.path.resolve().name


def fetch(source: ModelSource) -> FetchedModel:
    """Download the files of a model that the cache lacks, and return its location; raises HubError.

    A path is returned as it is.
    """
    if isinstance(source, Path):
        return FetchedModel(source, source)
    # Imported only for names: the library and its HTTP client take a third of a second.
    from services.engine.hub.download import Download

    return Download(source).run()


def fetch_tokenizer(source: ModelSource) -> Path:
    """As `fetch`, but download only the tokenizer if it has a file of its own; raises HubError."""
    if isinstance(source, Path):
        return source
    from services.engine.hub.download import Download

    return Download(source, tokenizer_only=True).run().path
