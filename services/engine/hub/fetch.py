"""fetch: returns the location of a model on this machine, after downloading it if necessary."""

from pathlib import Path

from services.engine.hub.fetched_model import FetchedModel
from services.engine.hub.hub_name import ModelSource


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
