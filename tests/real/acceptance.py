"""Acceptance: how often a published draft is right about its target, by task and temperature, over gRPC."""

import asyncio
import tempfile
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider import AsyncClient
from tests.e2e.acceptance.acceptance import share, tokens_per_pass
from tests.e2e.harness.draft_rig import Service
from tests.e2e.harness.pass_log import Pass, PassLog
from tests.harness.servers.server import RunningTarget, target_server
from tests.real.texts import Question, tasks

TEMPERATURES = (0.0, 0.7, 1.0)
NUM_PREDICTIONS = 4
_NEW_TOKENS = 96
_CONTEXT_LENGTH = 4096


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Of the answers to one task's questions at one temperature."""

    task: str
    temperature: float
    rate: float  # of the predictions that were judged: those accepted, and the first of each pass that was not
    tokens_per_pass: float
    num_tokens: int

    @property
    def row(self) -> str:
        """A row of the table."""
        figures = f"{self.rate:.2f} | {self.tokens_per_pass:.2f} | {self.num_tokens}"
        return f"| {self.task} | {self.temperature:g} | {figures} |"


def measure_acceptance(
    target: Path, draft: Path, wanted: Seq[tuple[str, float]], *, weights: str
) -> Iterator[Acceptance]:
    """Ask the questions of tasks at temperatures, one after the other, with so many predictions in every pass."""
    questions = tasks()
    with _served(target, draft, weights) as running:
        log = PassLog(running.engine)
        for task, temperature in wanted:
            passes = [one for question in questions[task] for one in _answer(running, log, question, temperature)]
            num_tokens = sum(one.num_tokens for one in passes)
            yield Acceptance(task, temperature, share(passes), tokens_per_pass(passes), num_tokens)


def _answer(running: RunningTarget, log: PassLog, question: Question, temperature: float) -> list[Pass]:
    async def generate() -> None:
        async with AsyncClient(running.address) as client:
            await client.generate(
                question.prompt,
                temperature=temperature,
                seed=0,
                max_tokens=_NEW_TOKENS,
                speculation="always",
                num_predictions=NUM_PREDICTIONS,
                **question.options,
            )

    asyncio.run(generate())
    return log.take()[1]


@contextmanager
def _served(target: Path, draft: Path, weights: str) -> Iterator[RunningTarget]:
    with tempfile.TemporaryDirectory() as logs:
        service = Service("draft", draft, Path(logs), "--weights", weights, "--context", str(_CONTEXT_LENGTH))
        service.start()
        settings: dict[str, Any] = {"weights": weights, "threads": 2, "kv_blocks": None}
        try:
            asyncio.run(service.logs("drafting with"))
            with target_server(target, drafts=[service.address], context_length=_CONTEXT_LENGTH, **settings) as running:
                running.wait_for_draft()
                yield running
        finally:
            service.kill()
