"""What is banned is never said: whatever goes on, an answer is what the rule on whole strings makes it."""

import asyncio
import functools
import re
from dataclasses import dataclass, replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.allowed_tokens import AllowedTokens
from services.engine.block_manager import BlockManager
from services.engine.events import Chunk, Event, Finished, FinishReason, Refused, Suppressed
from services.engine.grammar import Grammar
from services.engine.grammar_source import GrammarKind, GrammarSource
from services.engine.native import Sampler as NativeSampler
from services.engine.output_text import OutputText
from services.engine.request import (
    Loop,
    OutputOptions,
    Request,
    SamplingParams,
    SpeculationMode,
    SpeculationPolicy,
    StopConditions,
)
from services.engine.sampler import Sampler
from services.engine.scheduler import Scheduler, SchedulerConfig
from services.engine.sequence import Sequence
from services.engine.token_stream import TokenStream
from services.engine.wake_ups import WakeUps
from services.target.lookup_predictor import with_lookup
from services.target.speculation import Speculation
from services.target.step import TargetStep
from tests.grammars import compiler
from tests.unit.banned_model import END, VOCAB_SIZE, Expected, answer, logits_of, scores_of, tokenizer
from tests.unit.sequences import make_stream
from tests.unit.tempter import Tempter
from tests.unit.toy_model import DEVICE, ToyModel

CONTEXT_LENGTH = 200
BLOCK_SIZE = 4


@dataclass
class Generation:
    """A sequence, its stream, and what has come of it."""

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
        self.model = ToyModel(self.blocks, logits_of)
        predictors = with_lookup(Tempter(random or Random(0))) if predicts else []
        speculation = Speculation(predictors, vocab_size=VOCAB_SIZE)
        self.driver = TargetStep(
            self.scheduler, self.model, Sampler(NativeSampler(DEVICE)), speculation, WakeUps(), max_rows=24
        )
        self.num_broken_passes = 0  # in which a banned string was complete before the last prediction

    def _copy_block(self, source: int, target: int) -> None:
        self.model.copy_block(source, target)

    def add(self, request: Request) -> Generation:
        stream = make_stream()
        text = OutputText.of(request, tokenizer())
        sequence = Sequence(request, text, stream, context_length=CONTEXT_LENGTH)
        if sequence.is_finished:
            sequence.deliver_end()
        else:
            self.driver.add(sequence)
        return Generation(sequence, stream, [])

    def step(self) -> bool:
        before = {sequence: len(sequence._held._suppressed) for sequence in self.scheduler.sequences}
        worked = self.driver.step()
        self.blocks.check_integrity(self.scheduler.sequences)
        self.model.poison_empty_blocks()
        for rows in self.model.batch if worked else []:
            sequence = rows.sequence
            self.num_broken_passes += len(rows.predictions) > 1 and len(sequence._held._suppressed) > before[sequence]
        return worked

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
    **options,
) -> Request:
    stops = {"max_tokens": 24, "token_ids": frozenset([END]), **options}
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


TEMPTING = st.sampled_from(["ab", "BB", "s", "Ba ", "a<b>a", "aa", "b\u00df", "s<", "abba", " a", "<b><b>"])
BANNED = st.lists(TEMPTING | st.text(alphabet="abABsS<> \u00df", min_size=1, max_size=5), min_size=1, max_size=4)
REQUESTS = st.builds(
    make,
    BANNED,
    prompt=st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=6),
    seed=st.integers(0, 99),
    temperature=st.sampled_from([0.0, 1.0]),
    max_tokens=st.integers(1, 24),
    strings=st.sampled_from([(), (), ("ab",), ("b ", "Sa"), ("<b>",)]),
    include_stop=st.booleans(),
    loop=st.sampled_from([None, None, Loop(window=2, repetitions=2), Loop(window=5, repetitions=2)]),
    show_special_tokens=st.booleans(),
    token_ids=st.sampled_from([frozenset(), frozenset([END]), frozenset([END, 3])]),
    min_tokens=st.sampled_from([0, 0, 0, 3]),
    allowed=st.just(()) | st.sets(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=6).map(tuple),
    regex=st.sampled_from(
        [None, None, "abb[abs ]*", "(s|Ba)(ab)?[aAs]{2,4}b.*", "(ab|b\u00df)* sS+", "abba|abs [sS]*"]
    ),
)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.lists(REQUESTS, min_size=1, max_size=5), st.booleans(), st.integers(0, 99))
def test_alone_and_in_company_with_predictions_and_without(requests, predicts, seed):
    async def check() -> None:
        target = Target(num_blocks=14, predicts=predicts, random=Random(seed))
        for generation, request in zip(await complete(target, *requests), requests, strict=True):
            assert generation.answer() == tuple_of(answer(request))
            text = generation.answer()[1].casefold()
            assert not any(string.casefold() in text for string in request.sampling.banned_strings)
        assert target.blocks.num_free == 14

    asyncio.run(check())


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(REQUESTS, st.integers(0, 99))
def test_a_continuation_from_every_chunk_and_every_token_goes_on_alike(request, seed):
    async def check() -> None:
        whole = answer(request)
        one = await step_by_step(Target(random=Random(seed)), request)
        for num_tokens, text, num_suppressed in one.boundaries():
            (rest,) = await complete(
                Target(random=Random(seed)), replace(request, received=tuple(whole.ids[:num_tokens]))
            )
            ids, rest_text, reason, suppressed = rest.answer()
            assert (whole.ids[:num_tokens] + ids, text + rest_text, reason) == (whole.ids, whole.text, whole.reason)
            num_due = sum(due < num_tokens for due in whole.due)  # the rest comes at an end for want of a token
            assert num_suppressed in (num_due, len(whole.suppressed))
            assert whole.suppressed[:num_due] + suppressed == whole.suppressed
        for cut in range(len(whole.ids)):
            (rest,) = await complete(Target(), replace(request, received=tuple(whole.ids[:cut])))
            ids, _, reason, suppressed = rest.answer()
            assert (whole.ids[:cut] + ids, reason) == (whole.ids, whole.reason)
            later = [one for one, due in zip(whole.suppressed, whole.due, strict=True) if due >= cut]
            assert suppressed == later

    asyncio.run(check())


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(REQUESTS, st.integers(0, 60))
def test_an_end_by_time_gives_a_prefix_and_shows_what_was_held(request, num_steps):
    async def check() -> None:
        whole = answer(request)
        target = Target()
        generation = target.add(request)
        for _ in range(num_steps):
            target.step()
        if generation.sequence.is_finished:
            return
        generation.sequence.expiry = generation.sequence.expiry._replace(at=0.0)
        target.run()
        generation.events = [event async for event in generation.stream]
        ids, text, reason, suppressed = generation.answer()
        assert reason is FinishReason.DEADLINE
        assert ids == whole.ids[: len(ids)]
        assert generation.events[-1].completion_tokens == len(ids)
        assert suppressed == [one for one, due in zip(whole.suppressed, whole.due, strict=True) if due < len(ids)]
        assert not any(string.casefold() in text.casefold() for string in request.sampling.banned_strings)

    asyncio.run(check())


def crowd() -> list[Request]:
    """Requests that are tempted often."""
    banned = ["ab", "s", "Ba ", "bb"]
    policy = SpeculationPolicy(mode=SpeculationMode.ALWAYS, num_predictions=6)
    return [
        replace(make(banned, prompt=[n, 2], seed=n, temperature=n % 2, token_ids=frozenset()), speculation=policy)
        for n in range(12)
    ]


async def test_the_workloads_do_what_they_are_meant_to():
    """Tokens are taken back amid what was predicted, among preemptions, with predictions right and wrong."""
    target = Target(num_blocks=14)
    generations = await complete(target, *crowd())
    assert [generation.answer() for generation in generations] == [tuple_of(answer(request)) for request in crowd()]
    assert target.scheduler.num_preemptions > 0
    assert target.num_broken_passes > 10
    assert any(len(generation.answer()[3]) > 5 for generation in generations)
    stats = [generation.events[-1].speculation for generation in generations]
    assert sum(sum(one.offered) for one in stats) > sum(sum(one.accepted) for one in stats) > 0


async def test_reports_and_usage_count_what_stays():
    for generation in await complete(Target(), *crowd()):
        ids, *_ = generation.answer()
        end = generation.events[-1]
        assert end.completion_tokens == len(ids)
        reports = [report for chunk in generation.chunks for report in chunk.reports]
        assert all(report.num_tokens > 0 for report in reports)
        assert len(reports) == end.speculation.passes


async def test_where_every_token_is_banned_none_is_left():
    request = make([*"ab s<", "\u00df", "\ufffd"], prompt=[0], token_ids=frozenset(), max_tokens=3)
    (generation,) = await complete(Target(), request)
    assert generation.answer() == tuple_of(answer(request))
    assert generation.answer()[2] is FinishReason.NO_CANDIDATES
    assert generation.chunks[-1].suppressed, "what was suppressed is told even where no token came in its place"


async def test_received_tokens_that_hold_a_banned_string_are_refused():
    with pytest.raises(ValueError, match="token 1 completes a banned string"):
        Target().add(replace(make(["ab"], prompt=[2]), received=(0, 1)))


async def test_received_tokens_that_lead_to_a_banned_string_are_refused_when_it_is_complete():
    """They are not the generation's own: it would not have sent them before it knew."""
    tempting = (make(["ab"], prompt=[*pair, 2], token_ids=frozenset()) for pair in product(range(VOCAB_SIZE), repeat=2))
    request = next(request for request in tempting if scores_of(request, [*request.prompt, 0]).argmax() == 1)
    (generation,) = await complete(Target(), replace(request, received=(0,)))
    *chunks, last = generation.events
    assert not any(isinstance(event, Chunk) for event in chunks)
    assert last == Refused("what follows them completes a banned string that begins in them")


async def test_what_a_rewind_makes_possible_again_is_still_held():
    """A token may put one banned string out of the question and begin another, for which it is taken back."""
    for pair in product(range(VOCAB_SIZE), repeat=2):
        request = make(["Ba ", "Aa", "b\u00df", "bs"], prompt=[*pair], temperature=1.0, token_ids=frozenset())
        (generation,) = await complete(Target(), request)
        assert generation.answer() == tuple_of(answer(request))


async def test_where_a_grammar_forces_how_a_banned_string_begins_a_later_cut_is_made():
    """The text cannot begin in another way, but it can go on in another."""
    for seed in range(20):
        request = make(["bba", "bb "], prompt=[seed % VOCAB_SIZE], seed=seed, temperature=1.0, regex="abb[as ]{4}")
        (generation,) = await complete(Target(random=Random(seed)), request)
        assert generation.answer() == tuple_of(answer(request))
        _, text, reason, _ = generation.answer()
        assert reason is FinishReason.STOP_TOKEN
        assert re.fullmatch("abbs[as ]{3}", text)


@pytest.mark.parametrize("limits", [{"regex": "(a|s)bb( |a)S*"}, {"regex": "Babb"}, {"allowed": (0, 1, 3)}])
async def test_where_nothing_else_is_left_from_its_beginning_on_the_generation_ends_before_a_banned_string(limits):
    request = make(["b", "A"], prompt=[0], **limits)
    (generation,) = await complete(Target(), request)
    assert generation.answer() == tuple_of(answer(request))
    ids, text, reason, suppressed = generation.answer()
    assert reason is FinishReason.NO_CANDIDATES
    assert suppressed
    assert len(suppressed) < 100
    assert "b" not in text
    assert all(token_id in limits.get("allowed", ids) for token_id in ids)
