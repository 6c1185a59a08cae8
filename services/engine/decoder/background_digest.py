"""BackgroundDigest: computes a checkpoint's digest in the background while the model is loaded."""

import threading
from concurrent.futures import Future

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.decoder.digest_record import DigestRecord


class BackgroundDigest:
    """Runs on a thread of its own. The loader finds the weights that it reads in the system's page cache, so they are
    read from the disk once.
    """

    def __init__(self, checkpoint: Checkpoint, record: DigestRecord | None = None) -> None:
        """If `record` holds the digest from an earlier start, nothing is read."""
        self._future: Future[str] = Future()
        self._cancelled = threading.Event()
        self._compute = record.compute if record else checkpoint.weights_digest
        self._thread = threading.Thread(target=self._run, name="digest", daemon=True)
        self._beginning = threading.Lock()
        if record and (known := record.known()):
            self._future.set_result(known)

    def __enter__(self) -> "BackgroundDigest":
        return self

    def __exit__(self, problem: object, *_: object) -> None:
        """Wait until no file is read any more: then truncating a mapped file cannot end the process.

        After an exception the reading is cancelled: the digest will not be needed.
        """
        if problem is not None:
            self._cancelled.set()
        if self._thread.ident is not None:
            self._thread.join()

    def begin(self) -> None:
        """Compute it from now on, if it is not known; `value` does so too."""
        with self._beginning:
            if not self.is_known and self._thread.ident is None:
                self._thread.start()

    @property
    def is_known(self) -> bool:
        """Whether `value` returns at once."""
        return self._future.done()

    def value(self) -> str:
        """Wait for the checkpoint's `weights_digest`, and return it; raises the errors of computing it."""
        self.begin()
        return self._future.result()

    def _run(self) -> None:
        try:
            self._future.set_result(self._compute(self._cancelled))
        except BaseException as error:
            self._future.set_exception(error)
