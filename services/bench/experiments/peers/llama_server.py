"""LlamaServer: llama.cpp's server, asked over HTTP."""

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence as Seq
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from services.bench.answer import Answer
from services.bench.contender import PLAIN, Way, fixed
from services.bench.experiments.peers.peer_error import PeerError

_START_SECONDS = 120.0
_ANSWER_SECONDS = 600.0
_POLL_SECONDS = 0.05


class LlamaServer:
    """A Contender; leaving the `with` block ends its process.

    The number of predictions is an option of the server's command, so it is started anew for each way, and warmed up
    with the prompt that it is then asked for.
    """

    def __init__(
        self, name: str, binary: Path, *, target: Path, draft: Path, draft_lengths: Seq[int], log: IO[str]
    ) -> None:
        self.name = name
        self.ways = (PLAIN, *map(fixed, draft_lengths))
        self._binary, self._target, self._draft, self._log = binary, target, draft, log
        self._child: subprocess.Popen[str] | None = None
        self._port = 0
        self._way: Way | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def answer(self, prompt: Seq[int], way: Way, *, num_tokens: int) -> Answer:
        """Continue the prompt greedily by just so many tokens, whatever they are; raises PeerError if it fails."""
        if way != self._way:
            self._stop()
            self._start(way)
            self._complete(prompt, 8)
        reply = self._complete(prompt, num_tokens)
        timings = reply["timings"]
        return Answer(
            token_ids=tuple(reply["tokens"]),
            first_token=timings["prompt_ms"] / 1000,
            num_first=1,
            decode=timings["predicted_ms"] / 1000,
            tokens_per_pass=num_tokens / (num_tokens - timings.get("draft_n_accepted", 0)),
        )

    def _start(self, way: Way) -> None:
        cores = sorted(os.sched_getaffinity(0))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        command = [self._binary, "-m", self._target, "--host", "127.0.0.1", "--port", self._port, "-c", 1024, "-np", 1]
        command += ["-t", len(cores), "--cpu-mask", hex(sum(1 << core for core in cores)), "--cpu-strict", 1]
        command += ["-lm", "none"]
        if way.num_predictions:
            command += ["-md", self._draft, "--spec-type", "draft-simple", "--spec-draft-n-max", way.num_predictions]
            command += ["--spec-draft-n-min", 0, "--spec-draft-p-min", 0]
        self._child = subprocess.Popen([*map(str, command)], stdout=self._log, stderr=self._log, text=True)
        self._way = way
        self._wait()

    def _wait(self) -> None:
        ends = time.monotonic() + _START_SECONDS
        while time.monotonic() < ends:
            assert self._child is not None
            if (code := self._child.poll()) is not None:
                raise PeerError(f"{self.name} ended with code {code}; its log says why")
            try:
                self._ask("/health")
                return
            except OSError:  # it does not listen yet, or is still loading
                time.sleep(_POLL_SECONDS)
        raise PeerError(f"{self.name} did not start within {_START_SECONDS} s")

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        self._child = self._way = None

    def _complete(self, prompt: Seq[int], num_tokens: int) -> dict[str, Any]:
        question = {"prompt": [*prompt], "n_predict": num_tokens, "temperature": 0, "top_k": 1, "ignore_eos": True}
        return self._ask("/completion", {**question, "return_tokens": True, "cache_prompt": False})

    def _ask(self, path: str, question: dict[str, object] | None = None) -> dict[str, Any]:
        data = None if question is None else json.dumps(question).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as response:
            reply: dict[str, Any] = json.loads(response.read())
        return reply
