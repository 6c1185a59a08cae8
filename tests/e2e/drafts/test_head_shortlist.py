"""A draft with a short head: no byte changes, tokens that were read are predicted, and no mask silences it."""

from collections.abc import Iterator

import pytest

from outrider import Client, Result
from tests.e2e.harness.draft_rig import GREEDY, PROMPT, SAMPLED, Options, assert_counts, assert_same
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.harness.further import further
from tests.harness.servers.server import target_server
from tests.rpc.harness.draft_link import RunningDraft

SIZE = 1024  # of 8192 tokens; 768 of them are fixed
RARE = [5000, 5001, 7000]
PRIVATE: Options = {"prefix_cache": False}


@pytest.fixture
def client() -> Iterator[Client]:
    """Of the demo target; its draft has just been started."""
    draft = RunningDraft(DEMO_DRAFT, head_shortlist=SIZE)
    with target_server(DEMO_TARGET, kv_blocks=64, drafts=[draft.address], lookup=False) as running:
        running.wait_for_draft()
        with Client(running.address, max_retries=0) as client:
            yield client
        running.assert_all_free()
    draft.assert_all_free()
    draft.close()


def answer(client: Client, prompt: str = PROMPT, **options: object) -> Result:
    """With predictions, and the same as without."""
    alone = client.generate(prompt, **options, speculation="never")  # type: ignore[arg-type]
    result = client.generate(prompt, **options, speculation="always", num_predictions=4)  # type: ignore[arg-type]
    assert_same(result, alone)
    return result


@pytest.mark.parametrize("options", [further(GREEDY, id="greedy"), pytest.param(SAMPLED, id="sampled")])
def test_a_head_shortlist_changes_no_byte(client: Client, options: Options):
    assert_counts(answer(client, **options, max_tokens=80))


def test_tokens_read_are_predicted_unless_they_are_private(client: Client):
    wanted = {**GREEDY, "max_tokens": 80}
    first = answer(client, **wanted, **PRIVATE)
    off_the_list = {token.id for token in first.tokens if token.id >= SIZE}
    assert off_the_list
    assert not any(token.predicted for token in first.tokens if token.id in off_the_list)
    answer(client, **wanted)
    again = answer(client, **wanted)
    assert any(token.predicted for token in again.tokens if token.id in off_the_list)


@pytest.mark.parametrize("options", [{}, PRIVATE], ids=["open", "private"])
def test_the_only_allowed_tokens_are_predicted(client: Client, options: Options):
    result = answer(client, **GREEDY, **options, max_tokens=40, allowed_token_ids=RARE)
    assert {*result.token_ids} <= {*RARE}
    assert result.speculation.accepted > 0
