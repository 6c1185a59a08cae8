"""Mixtures of experts as targets and as drafts, beside dense ones: no byte changes; right predictions are counted."""

import pytest

from outrider import Client
from tests.e2e.harness.draft_rig import GREEDY, PROMPT, SAMPLED, Options, assert_counts, assert_same
from tests.e2e.harness.models import draft_folder, folder
from tests.harness.servers.server import target_server
from tests.rpc.harness.draft_link import RunningDraft

TOKENS = 80
MOST_TRIES = 5  # until enough was predicted and something rejected: what comes late is not waited for
PAIRS = {
    "both": lambda: (folder("qwen2_moe"), draft_folder("qwen2_moe", "good")),
    "the target": lambda: (folder("qwen2_moe"), folder("llama")),
    "the draft": lambda: (folder("llama"), folder("qwen2_moe")),
}


@pytest.mark.parametrize("options", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("mixtures", PAIRS)
def test_a_draft_of_experts_or_for_experts_changes_no_byte(mixtures: str, options: Options) -> None:
    target, model = PAIRS[mixtures]()
    draft = RunningDraft(model)
    with target_server(target, kv_blocks=64, drafts=[draft.address], lookup=False) as running:
        running.wait_for_draft()
        with Client(running.address, max_retries=0) as client:
            wanted = {**options, "max_tokens": TOKENS}
            least = 50 if mixtures == "both" else 1  # the others are random models that have nothing in common
            alone = client.generate(PROMPT, **wanted, speculation="never")
            for _ in range(MOST_TRIES):
                result = client.generate(PROMPT, **wanted, speculation="always", num_predictions=4)
                assert_same(result, alone)
                figures = result.speculation
                if figures.predicted >= least and figures.accepted < figures.predicted:
                    break
        running.assert_all_free()
    draft.assert_all_free()
    draft.close()
    assert sum(token.predicted for token in result.tokens) == figures.accepted
    if mixtures == "both":
        assert_counts(result)
    assert figures.accepted < figures.predicted
