"""WeightsCache: keeps a checkpoint's packed weights for the next start."""

import hashlib
import json
import logging
import os
import time
from collections.abc import Generator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from services.engine.decoder.background_digest import BackgroundDigest
from services.engine.decoder.native import BUILD_ID, Decoder, Device
from services.engine.decoder.packed_file import PackedFile, PackedFileError
from services.engine.files.atomic_file import atomic_file

logger = logging.getLogger(__name__)


class WeightsCache:
    """Keeps packed weights in files of a folder, which may be deleted at any time.

    The files are trusted: a user who can write them decides what is served.
    """

    def __init__(self, folder: Path, digest: BackgroundDigest, *, threads: int) -> None:
        """`digest` is the digest of the checkpoint."""
        self._folder = folder
        self._digest = digest
        self._threads = threads

    def restore(self, decoder: Decoder, device: Device, weights: str) -> bool:
        """Fill a new decoder, whose weights are of the format `weights`.

        Returns False, with the decoder unchanged, if there is no undamaged file for this checkpoint, device, format and
        build.
        """
        if not self._digest.is_known and not any(self._folder.glob(f"{_prefix(device, weights)}*")):
            return False  # the weights are packed while their digest is computed
        file, begin = self._file(device, weights), time.perf_counter()
        packed = decoder.packed_weights()
        try:
            file.read(packed)
        except FileNotFoundError:
            return False
        except (OSError, PackedFileError) as error:
            logger.warning("weights are packed again: %s", error)
            for values in packed.values():
                values.fill(0)
            return False
        with suppress(OSError):  # of another user
            os.utime(file.path)  # it is in use
        decoder.mark_loaded()
        logger.info("weights read from %s in %.1f s", file.path, time.perf_counter() - begin)
        return True

    def save(self, decoder: Decoder, device: Device, weights: str) -> Generator[None]:
        """Save a decoder's packed weights, a part in each step; a failure is logged as a warning."""
        packed_file, begin = self._file(device, weights), time.perf_counter()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with atomic_file(packed_file.path) as file:
                yield from packed_file.write(file, decoder.packed_weights())
        except OSError as error:
            logger.warning("packed weights are not kept: %s: %s", packed_file.path, error)
            return
        logger.info("packed weights kept in %s in %.1f s", packed_file.path, time.perf_counter() - begin)

    def _file(self, device: Device, weights: str) -> PackedFile:
        key = {
            "version": version("outrider"),
            "build": BUILD_ID,
            "device": device.name,
            "weights": weights,
            "digest": self._digest.value(),
        }
        name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
        return PackedFile(self._folder / f"{_prefix(device, weights)}{name}.packed", key, threads=self._threads)


def _prefix(device: Device, weights: str) -> str:
    return f"{device.name}-{weights}-"
