"""Two hundred random sets of samplers with a draft service, which draws through the same ones: it changes no byte."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from outrider import Client, Result
from tests.e2e.harness.draft_rig import PROMPT, assert_same
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.e2e.harness.sampler_sets import NUM_SETS, covering_sets, options_of, sampler_set
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import RunningDraft

NEW_TOKENS = 12
TOGETHER = 4
DRAFTED = {"speculation": "always", "num_predictions": 4}
COVERING = covering_sets()
REST = sorted({*range(NUM_SETS)} - {*COVERING})


@pytest.fixture(scope="module")
def target() -> Iterator[RunningTarget]:
    draft = RunningDraft(DEMO_DRAFT)
    with target_server(DEMO_TARGET, kv_blocks=64, drafts=[draft.address], lookup=False) as running:
        running.wait_for_draft()
        yield running
        running.assert_all_free()
    draft.assert_all_free()
    draft.close()


def answer(client: Client, index: int, **options: Any) -> Result:
    asked = {**options_of(sampler_set(index)), "max_tokens": NEW_TOKENS, "ignore_eos": True, "top_candidates": 2}
    return client.generate(PROMPT, **asked, **options)


def assert_same_with_draft(target: RunningTarget, indices: list[int]) -> None:
    """Alone without predictions, then some of them at once with those of the draft."""
    num_predicted = num_accepted = 0
    with Client(target.address) as client, ThreadPoolExecutor(TOGETHER) as pool:
        for first in range(0, len(indices), TOGETHER):
            together = indices[first : first + TOGETHER]
            alone = [answer(client, index, speculation="never") for index in together]
            drafted = list(pool.map(lambda index: answer(client, index, **DRAFTED), together))
            for one, other in zip(drafted, alone, strict=True):
                assert_same(one, other)
                num_predicted += one.speculation.predicted
                num_accepted += one.speculation.accepted
    assert 0 < num_accepted < num_predicted


def test_a_draft_changes_no_answer_of_the_covering_sets(target: RunningTarget) -> None:
    assert_same_with_draft(target, COVERING)


@pytest.mark.exhaustive
def test_a_draft_changes_no_answer_of_the_other_sets(target: RunningTarget) -> None:
    assert_same_with_draft(target, REST)
