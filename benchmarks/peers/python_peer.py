"""PythonPeer: an engine with a Python interface, in a process that answers questions on its standard streams."""

import json
import subprocess
import threading
from collections.abc import Sequence as Seq
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from benchmarks.peers.peer_error import PeerError
from benchmarks.peers.questions import READY
from services.bench.answer import Answer, Arrival
from services.bench.contender import AUTO, PLAIN, Way, fixed

_LONGEST_SECONDS = 600.0  # for loading, and for each answer
_ROOT = Path(__file__).parents[2]


class PythonPeer:
    """A Contender; leaving the `with` block ends its process."""

    def __init__(
        self, name: str, command: Seq[str], *, draft_lengths: Seq[int], has_auto: bool = False, log: IO[str]
    ) -> None:
        """Start the command on all cores; it must call `benchmarks.peers.questions.serve`."""
        self.name = name
        self.ways = (PLAIN, *([AUTO] if has_auto else []), *map(fixed, draft_lengths))
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=_ROOT
        )

    def __enter__(self) -> Self:
        try:
            while self._line() != READY:
                pass
        except PeerError:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def answers(self, prompts: Seq[Seq[int]], way: Way, *, num_tokens: int) -> list[Answer]:
        """Continue all prompts concurrently and greedily, each by `num_tokens` tokens; raises PeerError on failure."""
        asked = {"prompts": [[*prompt] for prompt in prompts], "num_predictions": way.num_predictions}
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({**asked, "num_tokens": num_tokens}) + "\n")
        self._child.stdin.flush()
        return [_read(reply) for reply in json.loads(self._line())]

    def _end(self) -> None:
        self._child.kill()
        self._child.communicate()

    def _line(self) -> str:
        assert self._child.stdout is not None
        timer = threading.Timer(_LONGEST_SECONDS, self._child.kill)
        timer.start()
        try:
            line = self._child.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise PeerError(f"{self.name} ended with code {self._child.wait()}; its log says why")
        return line.rstrip()


def _read(reply: dict[str, Any]) -> Answer:
    arrivals = tuple(Arrival(*arrival) for arrival in reply.get("arrivals", ()))
    return Answer(**{**reply, "token_ids": tuple(reply["token_ids"]), "arrivals": arrivals})
