"""fetch: a model on this machine, whether it was there or had to be downloaded."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from services.engine.hub.hub_name import HubName, ModelSource


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """Where a model is, and what it is called."""

    path: Path  # its folder, or its first GGUF file
    source: ModelSource  # a name on the hub has the commit that was found, under which it never changes
    files: Seq[Path] = ()  # those that a name on the hub stands for

    @property
    def name(self) -> str:
        """What clients see as its name: the name on the hub with its commit, or that of the folder or file."""
        return str(self.source) if isinstance(self.source, HubName) else self.path.resolve().name


def fetch(source: ModelSource) -> FetchedModel:
    """Download what the hub's cache lacks of a model; a path stands for itself. Raises HubError."""
    if isinstance(source, Path):
        return FetchedModel(source, source)
    # The library and its HTTP client are loaded for names alone: a third of a second.
    from services.engine.hub.download import Download

    return Download(source).run()


def fetch_tokenizer(source: ModelSource) -> Path:
    """As `fetch`, without the weights where the tokenizer has a file of its own."""
    if isinstance(source, Path):
        return source
    from services.engine.hub.download import Download

    return Download(source, tokenizer_only=True).run().path
