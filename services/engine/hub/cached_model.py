"""CachedModel: a model in the hub's local cache, which any program may have downloaded."""

from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CachedRepoInfo, CachedRevisionInfo, constants, scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from services.engine.hub.hub_name import HubName
from services.engine.hub.model_files import CONFIG, gguf_files
from services.engine.hub.model_summary import ModelSummary

_MAIN = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedModel:
    """A repository at one revision, or one of its GGUF files."""

    repository: str
    revision: str  # the commit's hash
    refs: Seq[str]  # branches and tags that pointed to the revision when they were resolved
    file: str | None
    path: Path
    num_bytes: int
    summary: ModelSummary

    @property
    def name(self) -> HubName:
        """The name that commands take for it, without the revision if it is the main branch's."""
        return HubName(self.repository, None if _MAIN in self.refs else self.revision, self.file)


@dataclass(frozen=True, slots=True)
class ModelCache:
    """The contents of the cache."""

    folder: Path
    models: Seq[CachedModel]
    damages: Seq[str]  # problems with its contents, such as downloads that have only begun

    @classmethod
    def scan(cls) -> "ModelCache":
        """Read the whole cache, which is empty if the folder does not exist; raises OSError and ValueError."""
        folder = Path(constants.HF_HUB_CACHE)
        try:
            cache = scan_cache_dir(folder)
        except CacheNotFound:
            return cls(folder, [], [])
        repositories = [repository for repository in cache.repos if repository.repo_type == "model"]
        models = [model for each in repositories for snapshot in each.revisions for model in _models(each, snapshot)]
        return cls(folder, sorted(models, key=lambda model: str(model.name)), [*map(str, cache.warnings)])


def _models(repository: CachedRepoInfo, snapshot: CachedRevisionInfo) -> Iterator[CachedModel]:
    folder = snapshot.snapshot_path
    sizes = {file.file_path.relative_to(folder).as_posix(): file.size_on_disk for file in snapshot.files}
    entries: list[tuple[str | None, Iterable[str]]] = [(parts[0], parts) for parts in gguf_files(sizes).values()]
    if CONFIG in sizes or not entries:
        entries.append((None, [name for name in sizes if not name.lower().endswith(".gguf")]))
    for file, names in entries:
        path = folder / file if file else folder
        yield CachedModel(
            repository=repository.repo_id,
            revision=snapshot.commit_hash,
            refs=sorted(snapshot.refs),
            file=file,
            path=path,
            num_bytes=sum(sizes[name] for name in names),
            summary=ModelSummary.of(path),
        )
