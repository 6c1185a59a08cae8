"""BackgroundDigest: a checkpoint's digest, computed beside what else is loaded."""

import threading
from concurrent.futures import Future

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.decoder.digest_record import DigestRecord


class BackgroundDigest:
    """Begins at once, on a thread of its own: the weights that it reads from a disk are in memory for who packs them,
    so that they are read once.
    """

    def __init__(self, checkpoint: Checkpoint, record: DigestRecord | None = None) -> None:
        """`record` may know the digest from an earlier start, and nothing is read then."""
        self._future: Future[str] = Future()
        self._cancelled = threading.Event()
        self._compute = record.compute if record else checkpoint.weights_digest
        self._thread = threading.Thread(target=self._run, name="digest", daemon=True)
        if record and (known := record.known()):
            self._future.set_result(known)
        else:
            self._thread.start()

    def __enter__(self) -> "BackgroundDigest":
        return self

    def __exit__(self, problem: object, *_: object) -> None:
        """Wait until no file is read any more: one that is cut short then ends no process. A problem ends the reading,
        since nobody will ask for the digest.
        """
        if problem is not None:
            self._cancelled.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def is_known(self) -> bool:
        """Whether `value` returns at once."""
        return self._future.done()

    def value(self) -> str:
        """The checkpoint's `weights_digest`, as soon as it is known."""
        return self._future.result()

    def _run(self) -> None:
        try:
            self._future.set_result(self._compute(self._cancelled))
        except BaseException as error:
            self._future.set_exception(error)
