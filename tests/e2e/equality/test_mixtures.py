"""Mixtures of experts as targets and as drafts, beside dense ones: no byte changes; right predictions are counted."""

import pytest

from outrider import Client, Result
from tests.e2e.harness.draft_rig import GREEDY, PROMPT, SAMPLED, Options, assert_counts, assert_same
from tests.e2e.harness.models import draft_folder, folder
from tests.harness.servers.server import target_server, wait_until
from tests.rpc.harness.draft_link import RunningDraft

TOKENS = 80
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
            results: list[Result] = []

            def is_drafted() -> bool:
                result = client.generate(PROMPT, **wanted, speculation="always", num_predictions=4)
                assert_same(result, alone)
                results.append(result)
                figures = result.speculation
                return figures.predicted >= least and figures.accepted < figures.predicted

            wait_until(is_drafted)  # what comes late is not waited for
            result = results[-1]
        running.assert_all_free()
    draft.assert_all_free()
    draft.close()
    assert sum(token.predicted for token in result.tokens) == result.speculation.accepted
    if mixtures == "both":
        assert_counts(result)
