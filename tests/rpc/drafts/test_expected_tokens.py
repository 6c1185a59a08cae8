"""Tokens that a request expects, many in a pass, and then the draft's, or the head's: no byte changes, both follow."""

from pathlib import Path
from typing import Any

import pytest

from outrider.v1 import common_pb2
from tests.e2e.harness.models import DEMO_TARGET
from tests.harness.models.one_step_models import write_one_step_pair
from tests.harness.models.ring_models import write_ring_pair
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import drafted_target
from tests.rpc.harness.requests import PROMPT, Streamed, stream, stream_request

COUNT, RIGHT = 240, 120  # tokens, and those of them that are expected rightly
CODE = 'class Stack:\n    """A last-in, first-out stack."""\n'
EXPECTED, DRAFT, ATTACHED = (
    common_pb2.PREDICTION_SOURCE_EXPECTED,
    common_pb2.PREDICTION_SOURCE_DRAFT,
    common_pb2.PREDICTION_SOURCE_ATTACHED,
)


def ask(target: RunningTarget, *, prompt: str = PROMPT, **speculation: Any) -> Streamed:
    stop, sampling = {"max_tokens": COUNT, "ignore_eos": True}, {"seed": 5, "temperature": 0.8}
    return stream(target, stream_request(prompt, sampling=sampling, stop=stop, speculation=speculation))


def assert_follows(target: RunningTarget, source: int) -> None:
    alone = ask(target, mode=common_pb2.SPECULATION_MODE_NEVER)
    ids = [*alone.token_ids]
    ids[RIGHT] = (ids[RIGHT] + 1) % 50
    answer = ask(target, mode=common_pb2.SPECULATION_MODE_ALWAYS, expected={"ids": ids})
    assert answer.token_ids == alone.token_ids
    assert answer.text == alone.text
    stats = {each.source: each for each in answer.finished.speculation.by_source}
    assert stats.keys() == {EXPECTED, source}
    assert (stats[EXPECTED].num_spec_steps, stats[EXPECTED].accepted) == (1, RIGHT - 1)
    assert stats[source].accepted > 0.5 * stats[source].predicted > 20
    target.assert_all_free()


def test_a_draft_follows_a_long_pass(model: Path) -> None:
    with drafted_target(model, model) as target:
        assert_follows(target, DRAFT)


@pytest.mark.parametrize("write_pair", [write_one_step_pair, write_ring_pair], ids=["one by one", "blocks"])
def test_a_head_follows_a_long_pass(write_pair: Any, tmp_path: Path) -> None:
    target_folder, head = write_pair(tmp_path)
    with target_server(target_folder, head=head, lookup=False) as target:
        assert_follows(target, ATTACHED)


@pytest.mark.parametrize("as_text", [False, True])
def test_a_changed_answer_is_predicted_from_what_was_expected(as_text: bool) -> None:
    """Tokens that were left out, and others in places: of the demo model's answers texts have the same tokens."""
    with target_server(DEMO_TARGET, lookup=True, kv_blocks=64) as target:
        alone = ask(target, mode=common_pb2.SPECULATION_MODE_NEVER, prompt=CODE)
        without = ask(target, mode=common_pb2.SPECULATION_MODE_ALWAYS, prompt=CODE)
        ids = [*alone.token_ids[:60], *alone.token_ids[70:150], 9, 9, 9, *alone.token_ids[160:]]
        tokenizer = target.server._servicer.serving().model.tokenizer
        text = b"".join(map(tokenizer.token_bytes, ids)).decode()
        expected: dict[str, Any] = {"expected_text": text} if as_text else {"expected": {"ids": ids}}
        answer = ask(target, mode=common_pb2.SPECULATION_MODE_ALWAYS, prompt=CODE, **expected)
        assert (answer.token_ids, answer.text) == (alone.token_ids, alone.text)
        stats = {each.source: each for each in answer.finished.speculation.by_source}
        assert stats[EXPECTED].accepted > 40
        assert stats[common_pb2.PREDICTION_SOURCE_LOOKUP].accepted > 100
        assert answer.finished.speculation.passes < 0.6 * without.finished.speculation.passes
        target.assert_all_free()
