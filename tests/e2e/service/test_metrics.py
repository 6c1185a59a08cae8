"""Metrics: a scrape of a target and its draft agrees with what their callers were sent."""

import re
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from outrider import Client, FinishReason, InvalidArgument, PredictionSource, Result
from tests.e2e.harness.told_pair import Samples, ToldPair, sum_of, value
from tests.harness.servers.server import wait_until

PAGE = Path(__file__).parents[3] / "docs" / "operate" / "metrics.md"
CODE = "def quicksort(items):\n    if len(items) < 2:\n        return items\n"
REQUESTS: list[dict[str, Any]] = [
    {"max_tokens": 40, "seed": 1},
    {"max_tokens": 40, "seed": 1},
    {"max_tokens": 25, "temperature": 0.0},
    {"max_tokens": 60, "seed": 4, "num_predictions": 3},
    {"max_tokens": 30, "seed": 5, "speculation": "never"},
    {"max_tokens": 80, "seed": 6, "stop": ["return"]},
    {"max_tokens": 50, "seed": 7, "lookup": False},
    {"max_tokens": 50, "seed": 8, "num_samples": 3},
]
WORDS = {FinishReason.MAX_TOKENS: "length", FinishReason.STOP_STRING: "stop"}


def answers(results: Iterable[Result]) -> list[Result]:
    """Each sample by itself."""
    return [*chain.from_iterable((result, *result.further_samples) for result in results)]


@pytest.fixture(scope="module")
def told_load(told: ToldPair) -> tuple[Samples, list[Result], Samples]:
    """A scrape before some requests at once, what came of them, and a scrape after them; others went on meanwhile."""
    before = told.scrape()
    with Client(told.address) as client, ThreadPoolExecutor(len(REQUESTS)) as threads:
        running = [threads.submit(told.generate, client, CODE, **options) for options in REQUESTS]
        while not all(future.done() for future in running):
            told.scrape()
        results = [future.result() for future in running]
    wait_until(lambda: value(told.scrape(), "outrider:request_success_total") == told_ends(before, results))
    return before, answers(results), told.scrape()


def told_ends(before: Samples, results: Iterable[Result]) -> float:
    return value(before, "outrider:request_success_total") + len(answers(results))


def test_counters_agree_with_the_answers_of_the_callers(told_load: tuple[Samples, list[Result], Samples]) -> None:
    before, results, after = told_load

    def grown(name: str, **labels: str) -> float:
        name = f"outrider:{name}"
        return value(after, name, **labels) - sum_of(before, name, **labels)

    assert grown("generation_tokens_total") == sum(result.usage.completion_tokens for result in results)
    assert grown("prompt_tokens_total") == sum(result.usage.prompt_tokens for result in results)
    assert grown("prefix_cache_hits_total") == sum(result.usage.cached_tokens for result in results)
    for name in ("generation", "prompt"):
        total = grown(f"{name}_tokens_total")
        assert grown(f"request_{name}_tokens_sum") == total
        assert grown(f"request_{name}_tokens_count") == grown("e2e_request_latency_seconds_count") == len(results)
    reasons = Counter(WORDS[result.finish_reason] for result in results)
    assert {reason: grown("request_success_total", finished_reason=reason) for reason in reasons} == reasons
    assert grown("calls_total", method="StreamGenerate", code="OK") == len(REQUESTS)


def test_prediction_counters_agree_with_the_answers(told_load: tuple[Samples, list[Result], Samples]) -> None:
    before, results, after = told_load
    stats = [result.speculation for result in results]

    def grown(name: str, **labels: str) -> float:
        name = f"outrider:{name}"
        return value(after, name, **labels) - sum_of(before, name, **labels)

    assert grown("spec_decode_num_draft_tokens_total") == sum(each.predicted for each in stats) > 0
    assert grown("spec_decode_num_accepted_tokens_total") == sum(each.accepted for each in stats) > 0
    assert grown("spec_decode_num_drafts_total") == sum(each.num_spec_steps for each in stats)
    assert grown("sequence_passes_total") == sum(each.passes for each in stats)
    assert grown("speculation_alternates_hit_total") == sum(each.alternates for each in stats)
    for position in range(max(len(each.by_position) for each in stats)):
        at = [each.by_position[position] for each in stats if position < len(each.by_position)]
        accepted = grown("spec_decode_num_accepted_tokens_per_pos_total", position=str(position))
        verified = grown("speculation_verified_tokens_per_pos_total", position=str(position))
        assert (verified, accepted) == (sum(each.offered for each in at), sum(each.accepted for each in at))
    for source in (PredictionSource.DRAFT, PredictionSource.LOOKUP):
        counts = [each for result in stats for each in result.by_source if each.source is source]
        name = source.name.lower()
        assert grown("speculation_verified_tokens_total", source=name) == sum(each.predicted for each in counts)
        assert grown("speculation_accepted_tokens_total", source=name) == sum(each.accepted for each in counts)


def test_the_draft_counts_the_same_link_as_the_target(
    told: ToldPair, told_load: tuple[Samples, list[Result], Samples]
) -> None:
    draft, target = told.scrape(told.draft_metrics), told.scrape()
    assert value(draft, "outrider:draft_links") == value(target, "outrider:draft_link_up") == 1
    assert value(draft, "outrider:draft_predicted_tokens_total") > 0
    runs = value(draft, "outrider:draft_runs_total") + value(draft, "outrider:draft_alternates_total")
    wait_until(lambda: value(told.scrape(), "outrider:draft_link_runs_total") >= runs)
    assert value(target, "outrider:draft_link_round_trip_seconds_count") > 0


def test_a_cancelled_request_is_counted_as_an_abort(told: ToldPair) -> None:
    before = value(told.scrape(), "outrider:request_success_total", finished_reason="abort")
    with told.streaming(CODE):
        callers = {"caller": "ipv4:127.0.0.1", "state": "running"}
        assert value(told.scrape(), "outrider:caller_requests", **callers) == 1
        assert value(told.scrape(), "outrider:num_requests_running") == 1
    wait_until(lambda: value(told.scrape(), "outrider:request_success_total", finished_reason="abort") == before + 1)


def test_a_call_that_fails_is_counted_by_its_code(told: ToldPair) -> None:
    labels = {"method": "StreamGenerate", "code": "INVALID_ARGUMENT"}
    before = sum_of(told.scrape(), "outrider:calls_total", **labels)
    with Client(told.address) as client, pytest.raises(InvalidArgument):
        client.generate(CODE, temperature=-1.0)
    wait_until(lambda: sum_of(told.scrape(), "outrider:calls_total", **labels) == before + 1)


def test_the_metrics_page_lists_the_served_metrics(told: ToldPair, told_load: object) -> None:
    """Names, types and labels; of labels that have few values, these; and the sentence that a scrape has."""
    rows = dict(re.findall(r"^\| `(outrider:[^`]+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE))
    served: dict[str, str] = {}
    with told.streaming(CODE):  # so that there is a caller
        for address in (told.target_metrics, told.draft_metrics):
            for family in text_string_to_metric_families(told.page(address)):
                if family.name.startswith("outrider:"):
                    served |= described(family)
    assert rows == served


OPEN_LABELS = {
    "device",
    "rank",
    "draft",
    "caller",
    "lora",
    "position",
    "le",
    "block_size",
    "num_gpu_blocks",
    "method",
    "code",
} | {
    "max_lora",
    "running_lora_adapters",
    "waiting_lora_adapters",
}
COMMON_LABELS = {"model_name", "engine"}


def described(family: Any) -> dict[str, str]:
    """The row of the page for a family; none for one that has nothing to count yet, and so no labels."""
    if not family.samples:
        return {}
    labels: dict[str, set[str]] = {}
    for sample in family.samples:
        for label, each in sample.labels.items():
            labels.setdefault(label, set()).add(each)
    own = sorted(labels.keys() - COMMON_LABELS - {"le"})
    name = family.name + ("_total" if family.type == "counter" else "")
    text = family.documentation
    for label in own:
        if label not in OPEN_LABELS:
            text += f" {label}: " + ", ".join(sorted(labels[label])) + "."
    return {f"{name}{{{', '.join(own)}}}" if own else name: f"{family.type} | {text}"}
