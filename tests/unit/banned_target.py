"""A target with the model of the rule on banned strings, and its answers to requests."""

import functools
from dataclasses import dataclass
from random import Random
from typing import Any

from services.engine.allowed_tokens import AllowedTokens
from services.engine.cache.block_manager import BlockManager
from services.engine.decoder.native import Sampler as NativeSampler
from services.engine.events import Chunk, Event, Finished, FinishReason, Suppressed
from services.engine.grammar.grammar import Grammar
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.request import (
    OutputOptions,
    Request,
    SpeculationPolicy,
    StopConditions,
)
from services.engine.sampling_params import SamplingParams
from services.target.generation.deferred_calls import DeferredCalls
from services.target.generation.sampler import Sampler
from services.target.generation.step import TargetStep
from services.target.output.output_pipeline import OutputPipeline
from services.target.scheduling.limits import SchedulerConfig
from services.target.scheduling.scheduler import Scheduler
from services.target.sequence.sequence import Sequence
from services.target.sequence.token_stream import TokenStream
from services.target.speculation.predictors.lookup_predictor import with_lookup
from services.target.speculation.speculation import Speculation
from tests.harness.grammar.grammars import compiler
from tests.unit.banned_model import END, VOCAB_SIZE, Expected, logits_of, tokenizer
from tests.unit.sequences import make_output
from tests.unit.toy_model import DEVICE, ToyModel
from tests.unit.unbanned_predictor import UnbannedPredictor

CONTEXT_LENGTH = 200
BLOCK_SIZE = 4


@dataclass
class Generation:
    """A sequence, its stream, and the events read from it."""

    sequence: Sequence
    stream: TokenStream
    events: list[Event]

    @property
    def chunks(self) -> list[Chunk]:
        return [event for event in self.events if isinstance(event, Chunk)]

    def answer(self) -> tuple[list[int], str, FinishReason, list[Suppressed]]:
        """All that the rule speaks of."""
        end = self.events[-1]
        assert isinstance(end, Finished)
        return (
            [record.token_id for chunk in self.chunks for record in chunk.records],
            "".join(chunk.text for chunk in self.chunks) + end.text,
            end.reason,
            [suppressed for chunk in self.chunks for suppressed in chunk.suppressed],
        )

    def boundaries(self) -> list[tuple[int, str, int]]:
        """After each chunk the tokens, the text and the number of suppressed texts delivered so far."""
        found = [(0, "", 0)]
        for chunk in self.chunks:
            num_tokens, text, num_suppressed = found[-1]
            after = (num_tokens + len(chunk.records), text + chunk.text, num_suppressed + len(chunk.suppressed))
            found.append(after)
        return found


class Target:
    """A target whose model is the one of the rule."""

    def __init__(self, *, num_blocks: int = 200, predicts: bool = True, random: Random | None = None) -> None:
        self.blocks = BlockManager(num_blocks=num_blocks, block_size=BLOCK_SIZE, copy_block=self._copy_block)
        self.scheduler = Scheduler(SchedulerConfig(max_rows=24, prefill_chunk=3, max_sequences=4), self.blocks)
        random = random or Random(0)
        self.model = ToyModel(self.blocks, logits_of, returns_early=random.random() < 0.5)
        predictors = with_lookup(UnbannedPredictor(random), long_match=8) if predicts else []
        speculation = Speculation(predictors, vocab_size=VOCAB_SIZE)
        self.driver = TargetStep(
            self.scheduler,
            self.model,  # type: ignore[arg-type]
            Sampler(NativeSampler(DEVICE)),
            speculation,
            DeferredCalls(),
        )
        self._outputs: dict[Sequence, OutputPipeline] = {}
        self.num_broken_passes = 0  # in which a banned string was complete before the last prediction

    def _copy_block(self, source: int, target: int) -> None:
        self.model.copy_block(source, target)

    def add(self, request: Request) -> Generation:
        output = make_output(request, context_length=CONTEXT_LENGTH, tokenizer=tokenizer())
        self._outputs[output.sequence] = output
        if output.sequence.is_finished:
            output.write()
        else:
            self.driver.add(output)
        assert isinstance(output.sequence.stream, TokenStream)
        return Generation(output.sequence, output.sequence.stream, [])

    def step(self) -> bool:
        before = {sequence: self._num_suppressed(sequence) for sequence in self.scheduler.sequences}
        worked = self.driver.step()
        self.blocks.check_integrity(sequence.text for sequence in self.scheduler.sequences)
        self.model.poison_empty_blocks()
        for rows in self.model.batch if worked else []:
            sequence = rows.sequence
            self.num_broken_passes += len(rows.predictions) > 1 and self._num_suppressed(sequence) > before[sequence]
        return worked

    def _num_suppressed(self, sequence: Sequence) -> int:
        return len(self._outputs[sequence]._buffer._suppressed)

    def run(self) -> None:
        for _ in range(20_000):
            if not self.step():
                return
        raise AssertionError("no end in sight")


async def complete(target: Target, *requests: Request) -> list[Generation]:
    """Run requests in company to their ends."""
    generations = [target.add(request) for request in requests]
    target.run()
    for generation in generations:
        generation.events = [event async for event in generation.stream]
    return generations


async def step_by_step(target: Target, request: Request) -> Generation:
    """Run one request, and read after every step."""
    generation = target.add(request)
    reader = aiter(generation.stream)
    while target.step():
        while generation.stream._events:
            generation.events.append(await anext(reader))
    return generation


@functools.cache
def grammar(regex: str) -> Grammar:
    return compiler(tokenizer(), VOCAB_SIZE).compile(GrammarSource(GrammarKind.REGEX, (regex,)))


def make(
    banned: list[str],
    *,
    prompt: list[int],
    seed: int = 1,
    temperature: float = 0.0,
    allowed: tuple[int, ...] = (),
    regex: str | None = None,
    **options: Any,
) -> Request:
    stops: dict[str, Any] = {"max_tokens": 24, "token_ids": frozenset([END]), **options}
    show_special = stops.pop("show_special_tokens", False)
    return Request(
        request_id="test",
        prompt=tuple(prompt),
        sampling=SamplingParams(
            seed=seed,
            temperature=temperature,
            banned_strings=tuple(banned),
            allowed_tokens=AllowedTokens.of(allowed, vocab_size=VOCAB_SIZE) if allowed else None,
        ),
        stops=StopConditions(**stops),
        grammar=None if regex is None else grammar(regex),
        output=OutputOptions(show_special_tokens=show_special, pass_reports=True),
        speculation=SpeculationPolicy(),
    )


def tuple_of(expected: Expected) -> tuple[list[int], str, FinishReason, list[Suppressed]]:
    return expected.ids, expected.text, expected.reason, expected.suppressed
