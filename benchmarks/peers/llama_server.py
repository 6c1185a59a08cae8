"""LlamaServer: llama.cpp's server, used over HTTP, with a slot for each concurrent answer."""

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from benchmarks.peers.capacity import Capacity
from benchmarks.peers.peer_error import PeerError
from services.bench.answer import Answer, Arrival
from services.bench.contender import AUTO, PLAIN, Way, fixed

_START_SECONDS = 120.0
_ANSWER_SECONDS = 600.0
_POLL_SECONDS = 0.05
_WARM_UP = 64  # tokens
_LONGEST, _SURE = 8, 0.6  # run of predictions; least probability of each
_DATA = b"data: "


class LlamaServer:
    """A Contender; leaving the `with` block ends its process.

    The number of predictions is an option of the server's command, so the server is restarted for each way, and warmed
    up with the beginning of the next prompt. With AUTO its draft predicts for as long as it is confident enough.
    """

    def __init__(
        self,
        name: str,
        binary: Path,
        *,
        target: Path,
        draft: Path,
        draft_lengths: Seq[int],
        capacity: Capacity,
        log: IO[str],
    ) -> None:
        self.name = name
        self.ways = (PLAIN, *([AUTO] if draft_lengths else []), *map(fixed, draft_lengths))
        self._binary, self._target, self._draft, self._capacity, self._log = binary, target, draft, capacity, log
        self._child: subprocess.Popen[str] | None = None
        self._port = 0
        self._way: Way | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def answers(self, prompts: Seq[Seq[int]], way: Way, *, num_tokens: int) -> list[Answer]:
        """Continue all prompts concurrently and greedily, each by `num_tokens` tokens; raises PeerError on failure."""
        if way != self._way:
            self._stop()
            self._start(way)
            self._complete(prompts[0][:_WARM_UP], 8)
        with ThreadPoolExecutor(len(prompts)) as pool:
            return [*pool.map(lambda prompt: self._complete(prompt, num_tokens), prompts)]

    def _start(self, way: Way) -> None:
        cores = sorted(os.sched_getaffinity(0))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        command = [self._binary, "-m", self._target, "--host", "127.0.0.1", "--port", self._port]
        command += ["-c", self._capacity.sequences * self._capacity.positions, "-np", self._capacity.sequences]
        command += ["-t", len(cores), "--cpu-mask", hex(sum(1 << core for core in cores)), "--cpu-strict", 1]
        command += ["-lm", "none"]
        if way != PLAIN:
            longest, surest = (_LONGEST, _SURE) if way == AUTO else (way.num_predictions, 0)
            command += ["-md", self._draft, "--spec-type", "draft-simple", "--spec-draft-n-max", longest]
            command += ["--spec-draft-n-min", 0, "--spec-draft-p-min", surest]
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
                self._ask("/health").close()
                return
            except OSError:  # it does not listen yet, or is still loading
                time.sleep(_POLL_SECONDS)
        raise PeerError(f"{self.name} did not start within {_START_SECONDS} s")

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        self._child = self._way = None

    def _complete(self, prompt: Seq[int], num_tokens: int) -> Answer:
        question = {"prompt": [*prompt], "n_predict": num_tokens, "temperature": 0, "top_k": 1, "ignore_eos": True}
        question |= {"return_tokens": True, "cache_prompt": False, "stream": True}
        began, token_ids, arrivals = time.perf_counter(), [], []
        timings: dict[str, Any] = {}
        with self._ask("/completion", question) as response:
            for line in response:
                if line.startswith(_DATA):
                    event = json.loads(line.removeprefix(_DATA))
                    timings = event.get("timings", timings)
                    if tokens := event.get("tokens"):
                        token_ids += tokens
                        arrivals.append(Arrival(time.perf_counter(), len(tokens)))
        return Answer(
            token_ids=tuple(token_ids),
            first_token=arrivals[0].moment - began,
            num_first=1,
            decode=timings["predicted_ms"] / 1000,
            tokens_per_pass=num_tokens / (num_tokens - timings.get("draft_n_accepted", 0)),
            arrivals=tuple(arrivals),
        )

    def _ask(self, path: str, question: dict[str, object] | None = None) -> HTTPResponse:
        data = None if question is None else json.dumps(question).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", data, headers)
        response: HTTPResponse = urllib.request.urlopen(request, timeout=_ANSWER_SECONDS)
        return response
