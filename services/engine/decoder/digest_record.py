"""DigestRecord: stores the digest of a checkpoint for as long as its files do not change."""

import hashlib
import json
import logging
import re
import threading
import time
from dataclasses import astuple
from importlib.metadata import version
from pathlib import Path

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.files.atomic_file import atomic_file
from services.engine.files.regular_file import open_regular

logger = logging.getLogger(__name__)

_SETTLED_SECONDS = 2.0  # beyond the resolution of any file system's times
_MOST_BYTES = 100
_DIGEST = re.compile("[0-9a-f]{64}")


class DigestRecord:
    """One checkpoint's digest in a folder, under a name that depends on the states of its files and how it is read."""

    def __init__(self, folder: Path, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._states = checkpoint.file_states()
        states = [astuple(state) for state in self._states]
        known_by = json.dumps([version("outrider"), checkpoint.identity(), states])
        self._path = folder / f"{hashlib.sha256(known_by.encode()).hexdigest()[:32]}.digest"

    def known(self) -> str | None:
        """Return the stored `weights_digest` of the checkpoint, None if there is none."""
        try:
            with open_regular(self._path) as file:
                text = file.read(_MOST_BYTES).decode("ascii")
            if _DIGEST.fullmatch(text):
                return text
            logger.warning("%s: holds no digest; it is computed again", self._path)
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            logger.warning("%s: cannot be read: %s", self._path, error)
        return None

    def compute(self, cancelled: threading.Event | None = None) -> str:
        """Compute the digest, which reads all weights, and store it; raises CancelledError."""
        # A file could be changed twice within the clock's resolution, with the same time.
        settled = time.time() - max(state.changed for state in self._states) / 1e9 > _SETTLED_SECONDS
        digest = self._checkpoint.weights_digest(cancelled)
        if settled and all(state.is_current for state in self._states):
            self._remember(digest)
        return digest

    def _remember(self, digest: str) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(self._path) as file:
                file.write(digest.encode())
        except OSError as error:
            logger.warning("%s: cannot be written: %s", self._path, error)
