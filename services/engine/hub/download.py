"""Download: fetches the files that a model needs from the hub into the cache that all programs share."""

import logging
import shutil
from collections.abc import Collection, Mapping
from collections.abc import Sequence as Seq
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import Any

from huggingface_hub import (
    HfApi,
    ResolvedRevision,
    constants,
    get_cached_repo_tree,
    hf_hub_download,
    is_offline_mode,
    resolve_revision,
    snapshot_download,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RevisionNotFoundError,
    RevisionResolutionError,
)
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils.tqdm import tqdm

from services.engine.checkpoint.attached.drafter_kind import is_drafter
from services.engine.checkpoint.tensor_files import INDEX, SINGLE, read_weight_map
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import JsonFields
from services.engine.hub.fetched_model import FetchedModel
from services.engine.hub.hub_error import HubError, SeveralFilesError, explain
from services.engine.hub.hub_name import HubName
from services.engine.hub.model_files import CONFIG, TOKENIZER, gguf_parts, is_gguf, text_files

logger = logging.getLogger(__name__)


class Download:
    """The download of one model; files that are in the cache are not downloaded again, so a complete model needs no
    network.

    The library gives a file its name once it is complete, resumes after a broken connection, and shows progress if
    stderr is a terminal. It reads its settings, such as HF_TOKEN, HF_HOME, HF_ENDPOINT and HF_HUB_OFFLINE, from the
    environment.
    """

    def __init__(self, name: HubName, *, tokenizer_only: bool = False) -> None:
        self._name = name
        self._tokenizer_only = tokenizer_only

    def run(self) -> FetchedModel:
        """Download the missing files, and return the location of the model; raises HubError."""
        try:
            return self._run()
        except HubError:
            raise
        except CheckpointError as error:
            raise HubError(f"{self._name}: {error}") from error
        except Exception as error:  # of the library, of its HTTP client, or of the file system
            raise explain(error, self._name) from error

    def _run(self) -> FetchedModel:
        names = self._names()
        for name in names:  # one by one on this thread, so that Ctrl-C ends a transfer at once
            self._get(name)
        # This call only saves the list of files, so that the next start needs no network.
        folder = self._snapshot(allow_patterns=[*map(escape, names)], tqdm_class=_Silent)
        source, files = replace(self._name, revision=self._revision.resolved), [folder / name for name in names]
        if files[0].suffix.lower() == ".gguf":
            return FetchedModel(files[0], replace(source, file=names[0]), files)
        return FetchedModel(folder, source, files)

    def _names(self) -> Seq[str]:
        try:
            sizes = self._listed()
        except Exception as error:  # another program may have downloaded the model without saving the list
            try:
                return self._choose(self._on_disk())
            except SeveralFilesError:
                raise
            except (CheckpointError, LocalEntryNotFoundError):
                raise error from None
        names = self._choose(sizes)
        self._check_space(sum(sizes.get(name, 0) for name in names if not self._is_here(name)))
        return names

    def _choose(self, files: Collection[str]) -> Seq[str]:
        if self._tokenizer_only and self._name.file is None and TOKENIZER in files:
            return [TOKENIZER]
        if is_gguf(self._name, files):
            return gguf_parts(self._name, files)
        texts = text_files(self._name, files, is_drafter=self._is_drafter(files))
        if SINGLE in files:
            return [*texts, SINGLE]
        return [*texts, INDEX, *sorted({*read_weight_map(self._get(INDEX)).values()})]

    def _is_drafter(self, files: Collection[str]) -> bool:
        return TOKENIZER not in files and CONFIG in files and is_drafter(JsonFields.from_file(self._get(CONFIG)))

    @cached_property
    def _revision(self) -> ResolvedRevision:
        """The commit of the name now, or if the hub does not answer, the last known one."""
        name = self._name
        try:
            return resolve_revision(name.repository, revision=name.revision, local_files_only=is_offline_mode())
        except RevisionNotFoundError:
            raise
        except HfHubHTTPError as error:  # an expired token must not keep a cached model from starting
            try:
                revision = resolve_revision(name.repository, revision=name.revision, local_files_only=True)
            except RevisionResolutionError:
                raise error from None
            logger.warning("%s; using revision %s from the cache", explain(error, name), revision.resolved)
            return revision

    def _listed(self) -> Mapping[str, int]:
        """Return the size in bytes of each file of the repository."""
        repository, revision = self._name.repository, self._revision
        with suppress(CachedRepoTreeNotFoundError):
            return {file.path: file.size for file in get_cached_repo_tree(repository, revision=revision)}
        entries = HfApi().list_repo_tree(repository, revision=revision.resolved, recursive=True)
        return {entry.path: entry.size for entry in entries if isinstance(entry, RepoFile)}

    def _on_disk(self) -> Collection[str]:
        folder = self._snapshot(local_files_only=True)
        return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]

    def _check_space(self, size: int) -> None:
        """Raise HubError if the disk has too little space for the download."""
        cache = Path(constants.HF_HUB_CACHE)
        free = shutil.disk_usage(next(folder for folder in (cache, *cache.absolute().parents) if folder.is_dir())).free
        if size > free:
            problem = f"the download has {size} bytes, but the disk of {cache} has {free} left"
            raise HubError(f"{self._name}: {problem}: free some space, or set HF_HOME to a folder on another disk")
        if size:
            logger.info("downloading %s bytes of %s into %s", size, self._name, cache)

    def _is_here(self, file: str) -> bool:
        cached = try_to_load_from_cache(self._name.repository, file, revision=self._revision.resolved)
        return isinstance(cached, str)

    def _get(self, file: str) -> Path:
        return Path(hf_hub_download(self._name.repository, file, revision=self._revision.resolved))

    def _snapshot(self, **options: Any) -> Path:  # noqa: ANN401 - the library's
        return Path(snapshot_download(self._name.repository, revision=self._revision, **options))


class _Silent(tqdm):
    """A progress bar that is not displayed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - the library's
        super().__init__(*arguments, **{**options, "disable": True})  # type: ignore[no-untyped-call]
