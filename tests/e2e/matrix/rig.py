"""Rig: runs cells one after the other, with one server process at a time, and keeps what came of them."""

import asyncio
import time
import traceback
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import replace

from outrider import AsyncClient, OutriderError
from tests.e2e.matrix.cells import Cell, Setup, plainest
from tests.e2e.matrix.draft_harness import DraftHarness
from tests.e2e.matrix.run import CellRun, connect, run_reference
from tests.e2e.matrix.server_process import ServerProcess
from tests.e2e.matrix.store import CellResult, Store
from tests.e2e.matrix.streams import (
    NEW_TOKENS,
    StreamKey,
    UselessReferenceError,
    banned_string,
    stop_string,
    streams_of,
    tokenizer_of,
)
from tests.e2e.matrix.transcript import Transcript
from tests.e2e.matrix.verdict import differences_of, undone_of

_VARIED = ("truncated", "penalised")  # settings under which no model repeats itself for long
_CUTS = {"stopped": ("stop", stop_string), "banned": ("banned_strings", banned_string)}  # out of the free answer
_FEW_TOKENS = 32  # of 128 in a varied answer: with fewer different ones it would test sampling poorly
_FEW_TO_THE_END = 8  # of an answer that its grammar ends: forced text may be long tokens
_TRIES = 5  # of a cell whose bytes are right but that did not do what it names: a kill may come at an odd moment


class Rig:
    """Holds the server of the setup that was last asked for; neighbouring cells of one setup share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._setup: Setup | None = None
        self._server: ServerProcess | None = None
        self._draft: DraftHarness | None = None
        self._is_used = False  # by a cell

    def __enter__(self) -> "Rig":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server and its draft."""
        if self._draft is not None:
            self._draft.clear()
        if self._server is not None:
            self._server.stop()
        self._setup = self._server = self._draft = None

    def run(self, cell: Cell) -> CellResult:
        """Run one cell and keep its result; any error is a problem of the cell."""
        started = time.monotonic()
        try:
            problems = asyncio.run(self._run(cell))
        except (OutriderError, TimeoutError, RuntimeError, ValueError):
            problems = [traceback.format_exc(limit=-1), f"the server's exit code is {self._exit_code()}"]
            self.stop()
        result = CellResult(cell.name, problems, time.monotonic() - started)
        self._store.save_result(result)
        return result

    def make_references(self, keys: Iterable[StreamKey]) -> None:
        """Run the plainest run of every stream that has no transcript yet; a useless one is not kept."""
        missing = [key for key in keys if not self._store.has_reference(key)]
        if missing:
            asyncio.run(self._make_references(sorted(missing)))

    def _exit_code(self) -> int | None:
        return None if self._server is None else self._server.exit_code

    async def _run(self, cell: Cell) -> list[str]:
        references = {key: self._reference(key) for key in streams_of(cell)}
        server = await self._serve(cell.setup)
        assert self._draft is not None
        if self._is_used and cell.setup.source == "draft":  # what it has learned of another's pace is no part of this
            server.kill_and_start_again()
            await server.wait_until_serving()
        self._is_used = True
        undone: list[str] = []
        for attempt in range(_TRIES):
            outcome = await CellRun(cell, server, self._draft, references, attempt).run()
            undone = undone_of(cell, outcome)
            if (differences := differences_of(cell, outcome, references)) or not undone:
                return [*differences, *undone]
        return undone

    async def _make_references(self, missing: list[StreamKey]) -> None:
        for key in missing:
            server = await self._serve(plainest(Setup(model=key.model, isa=key.isa, weights=key.weights, kv=key.kv)))
            async with connect(server) as client:
                try:
                    await self._make_reference(client, key)
                except UselessReferenceError as error:
                    print(f"matrix: the reference {key.name} is useless: {error}", flush=True)

    async def _make_reference(self, client: AsyncClient, key: StreamKey) -> Transcript:
        if key.setting in _CUTS:
            free = await self._free(client, key)
            option, cut = _CUTS[key.setting]
            string = cut(free.text)
            transcript = await run_reference(client, key, **{option: string})
            is_of_use = _is_cut(transcript, free, string)
        elif key.setting == "samples":
            further = [await run_reference(client, key, num_samples=1, seed=seed) for seed in key.further_seeds]
            transcript = replace(await self._free(client, key), further_samples=tuple(further))
            is_of_use = _are_different(transcript.samples, key)
        else:
            transcript = await run_reference(client, key)
            is_of_use = _is_long(transcript, key)
        if not is_of_use:
            raise UselessReferenceError(f"it ends by {transcript.reason}: {transcript.text!r}")
        self._store.save_reference(key, transcript)
        return transcript

    async def _free(self, client: AsyncClient, key: StreamKey) -> Transcript:
        return self._store.reference(key.free) or await self._make_reference(client, key.free)

    def _reference(self, key: StreamKey) -> Transcript:
        transcript = self._store.reference(key)
        if transcript is None:
            raise ValueError(f"{key.name} has no reference")
        return transcript

    async def _serve(self, setup: Setup) -> ServerProcess:
        if self._server is None or self._setup != setup:
            self.stop()
            self._setup, self._is_used = setup, False
            self._server = ServerProcess(setup, self._store.root)
            self._draft = DraftHarness(self._server.draft_address, self._server.probe, self._server.logs)
        await self._server.wait_until_serving()
        return self._server


def _is_cut(transcript: Transcript, free: Transcript, string: str) -> bool:
    if transcript.stop is not None:
        return transcript.stop == string and transcript.text == free.text[: free.text.index(string)]
    is_banned = string.casefold() not in transcript.text.casefold() and string.casefold() in free.text.casefold()
    return is_banned and len(transcript.suppressed) > 0 and len(transcript.token_ids) == NEW_TOKENS


def _is_long(transcript: Transcript, key: StreamKey) -> bool:
    if not key.options()["ignore_eos"]:
        return transcript.reason == "stop_token" and len(transcript.token_ids) > _FEW_TO_THE_END
    is_whole = (transcript.reason, len(transcript.token_ids)) == ("max_tokens", NEW_TOKENS)
    is_varied = key.setting not in _VARIED or len(set(transcript.token_ids)) > _FEW_TOKENS
    return is_whole and is_varied and (key.setting != "healed" or _is_healed(transcript, key))


def _is_healed(transcript: Transcript, key: StreamKey) -> bool:
    """Whether the text begins with a part of another token than the prompt's last one was."""
    tokenizer = tokenizer_of(key.model)
    visible = (token_id for token_id in transcript.token_ids if not tokenizer.is_special(token_id))
    return transcript.text != b"".join(map(tokenizer.token_bytes, visible)).decode(errors="replace")


def _are_different(samples: Seq[Transcript], key: StreamKey) -> bool:
    return all(_is_long(sample, key) for sample in samples) and len({one.text for one in samples}) == len(samples)
