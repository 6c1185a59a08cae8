"""Predictions from the text itself change no byte, alone and beside a draft, and figures are kept by source."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from outrider import Client, NoSpeculationReason, PredictionSource, Result, SourceStats
from services.engine.events import PredictionSource as EngineSource
from services.engine.request import CachePolicy, Request, SpeculationMode, SpeculationPolicy
from services.target.speculation.predictors.lookup_predictor import with_lookup
from tests.e2e.harness.draft_rig import GREEDY, SAMPLED, Options, assert_same
from tests.e2e.harness.draft_rig import PROMPT as OTHER
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.e2e.harness.stepper import Stepper, request
from tests.harness.further import further
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import drafted_target

CLASS = '''class Stack:
    """A last-in, first-out stack."""

    def __init__(self):
        self._items = []

    def push(self, item):
        """Put an item on the stack."""
        self._items.append(item)

    def pop(self):
        """Take the item that was put there last."""
        if not self._items:
            raise IndexError("the stack is empty")
        return self._items.pop()

    def __len__(self):
        return len(self._items)


'''
REPEATING = CLASS * 3 + CLASS[:60]
COUNT = 200  # tokens generated
ALONE: Options = {**GREEDY, "speculation": "never"}
Generate = Callable[[RunningTarget, str, Options], Result]


@pytest.fixture(scope="module")
def target() -> Iterator[RunningTarget]:
    with target_server(DEMO_TARGET, kv_blocks=256, lookup=True) as running:
        yield running
        running.assert_all_free()


@pytest.fixture(scope="module")
def drafted() -> Iterator[RunningTarget]:
    with drafted_target(DEMO_TARGET, DEMO_DRAFT, kv_blocks=256, lookup=True) as running:
        yield running
        running.assert_all_free()


@pytest.fixture(scope="module")
def generate() -> Generate:
    """A generation with predictions, which must equal the one without, with figures that add up.

    The one without is the same from both servers: it is that of the first one asked.
    """
    alone: dict[tuple[str, float], Result] = {}

    def both(target: RunningTarget, prompt: str, options: Options) -> Result:
        key = (prompt, options["temperature"])
        with Client(target.address, max_retries=0) as client:
            if key not in alone:
                alone[key] = client.generate(prompt, **{**ALONE, "temperature": key[1]}, max_tokens=COUNT)
            asked = {"speculation": "always", **options}
            result = client.generate(prompt, **asked, max_tokens=COUNT, pass_reports=True)
        assert_same(result, alone[key])
        assert_figures(result)
        return result

    return both


def assert_figures(result: Result) -> None:
    """The final message, the records of the tokens and the reports of the passes say the same."""
    stats, reports = result.speculation, result.pass_reports
    assert len(reports) == stats.passes
    assert sum(report.tokens for report in reports) == len(result.token_ids) == stats.passes + stats.accepted
    assert sum(report.predicted for report in reports) == stats.predicted
    assert sum(report.accepted for report in reports) == stats.accepted
    assert all(report.tokens == report.accepted + 1 for report in reports)
    assert [token.predicted for token in result.tokens] == [
        token.prediction_source is not None for token in result.tokens
    ]
    for entry in stats.by_source:
        own = [report for report in reports if report.source is entry.source]
        assert entry.num_spec_steps == len(own)
        assert entry.predicted == sum(report.predicted for report in own)
        accepted = sum(token.prediction_source is entry.source for token in result.tokens)
        assert entry.accepted == accepted == sum(report.accepted for report in own)
    assert stats.num_spec_steps == sum(entry.num_spec_steps for entry in stats.by_source)
    assert stats.num_spec_steps == sum(report.source is not None for report in reports)
    accepted_counts = [report.accepted for report in reports if report.source is not None]
    assert list(stats.acceptance_histogram) == [
        accepted_counts.count(i) for i in range(max(accepted_counts, default=-1) + 1)
    ]
    if stats.num_spec_steps:
        assert stats.mean_acceptance_length == 1 + stats.accepted / stats.num_spec_steps
        assert stats.draft_acceptance_rate == stats.accepted / stats.predicted
    assert all(report.verifying > 0 for report in reports)


def of(result: Result, source: PredictionSource) -> SourceStats:
    (stats,) = [entry for entry in result.speculation.by_source if entry.source is source]
    return stats


@pytest.mark.parametrize("options", [further(GREEDY, id="greedy"), pytest.param(SAMPLED, id="sampled")])
@pytest.mark.parametrize("prompt", [REPEATING, OTHER], ids=["repeating", "other"])
def test_lookup_changes_no_byte_with_right_and_wrong_predictions(
    target: RunningTarget, generate: Generate, prompt: str, options: Options
):
    stats = generate(target, prompt, options).speculation
    assert 0 < stats.accepted < stats.predicted
    assert [entry.source for entry in stats.by_source] == [PredictionSource.LOOKUP]


def test_lookup_beats_the_draft_where_a_text_repeats_its_prompt(
    target: RunningTarget, drafted: RunningTarget, generate: Generate
):
    by_lookup = generate(target, REPEATING, GREEDY).speculation
    by_draft = generate(drafted, REPEATING, {**GREEDY, "lookup": False}).speculation
    assert [entry.source for entry in by_draft.by_source] == [PredictionSource.DRAFT]
    assert by_lookup.tokens_per_pass > 2 * by_draft.tokens_per_pass


@pytest.mark.parametrize("options", [further(GREEDY, id="greedy"), pytest.param(SAMPLED, id="sampled")])
def test_draft_and_lookup_together(drafted: RunningTarget, generate: Generate, options: Options):
    result = generate(drafted, REPEATING, options)
    assert [entry.source for entry in result.speculation.by_source] == [PredictionSource.DRAFT, PredictionSource.LOOKUP]
    for source in (PredictionSource.DRAFT, PredictionSource.LOOKUP):
        assert 0 < of(result, source).accepted <= of(result, source).predicted


def test_left_to_the_server_the_lookup_is_used_too(target: RunningTarget, generate: Generate):
    """On a server that has not yet learned whether it pays, which it tries first."""
    assert generate(target, REPEATING, {**GREEDY, "speculation": "auto"}).speculation.accepted > 0


def test_the_number_of_predictions_is_kept_to(target: RunningTarget, generate: Generate):
    result = generate(target, REPEATING, {**GREEDY, "num_predictions": 3})
    assert max(report.predicted for report in result.pass_reports) == 3


def test_a_request_may_switch_the_lookup_off(target: RunningTarget, generate: Generate):
    stats = generate(target, REPEATING, {**GREEDY, "lookup": False}).speculation
    assert (stats.predicted, stats.no_speculation_reason) == (0, NoSpeculationReason.UNAVAILABLE)
    assert stats.no_speculation_detail == "the request forbids the lookup"
    assert (stats.num_spec_steps, stats.mean_acceptance_length, stats.acceptance_histogram) == (0, 0, ())


def asked(stepper: Stepper, number: int, mode: SpeculationMode, received: tuple[int, ...] = ()) -> Request:
    """One of several requests for text that repeats itself, greedy and sampled in turn."""
    prompt = stepper.tokenizer.encode(CLASS * 2 + OTHER[: 10 * number], add_special_tokens=False)
    fields = {"seed": number, "temperature": 0.7 * (number % 2), "received": received}
    wanted = request(prompt, max_tokens=60, prompt_logprobs=False, cache=CachePolicy(prefix=False), **fields)
    return replace(wanted, speculation=SpeculationPolicy(mode=mode))


async def test_eight_sequences_that_preempt_one_another():
    stepper = Stepper("demo")
    alone = [await stepper.complete(asked(stepper, number, SpeculationMode.NEVER)) for number in range(8)]
    stepper = Stepper("demo", num_blocks=20, predictors=with_lookup(long_match=8))
    generations = [stepper.submit(asked(stepper, number, SpeculationMode.ALWAYS)) for number in range(8)]
    stepper.run()
    together = [await generation.transcript() for generation in generations]
    assert [mine.difference(other) for mine, other in zip(together, alone, strict=True)] == [None] * 8
    assert stepper.scheduler.num_preemptions > 0
    counts = [generation.end.speculation.by_source[EngineSource.LOOKUP] for generation in generations]
    assert 0 < sum(count.accepted for count in counts) < sum(count.offered for count in counts)


@pytest.mark.parametrize("number", [further(0, id="greedy"), pytest.param(1, id="sampled")])
async def test_a_generation_continues_from_any_cut(number: int):
    whole = await Stepper("demo").complete(asked(Stepper("demo"), number, SpeculationMode.NEVER))
    stepper = Stepper("demo", predictors=with_lookup(long_match=8))
    num_accepted = 0
    for cut in (1, 2, 30, 58):
        generation = stepper.submit(asked(stepper, number, SpeculationMode.ALWAYS, whole.token_ids[:cut]))
        stepper.run()
        rest = await generation.transcript()
        assert (rest.token_ids, rest.records) == (whole.token_ids[cut:], whole.records[cut:])
        num_accepted += sum(generation.end.speculation.accepted)
    assert num_accepted > 0
