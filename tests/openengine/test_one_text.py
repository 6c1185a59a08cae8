"""One seed, one text: the contract gives the bytes of our own RPC, whatever is predicted and whatever is killed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.request import build_stream_request
from outrider.v1 import common_pb2, generation_pb2
from services.engine.decoder.native import derive_seed
from tests.e2e.harness.draft_rig import Service
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.e2e.matrix.cells import SETTINGS
from tests.e2e.matrix.streams import StreamKey
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.openengine.asking import Answer, ask, contract_request, translated
from tests.rpc.harness.predictors import SlippingPredictor
from tests.rpc.harness.requests import Streamed, stream, stream_request

CODE = 'class Stack:\n    """A last-in, first-out stack."""\n'
NEVER, ALWAYS = common_pb2.SPECULATION_MODE_NEVER, common_pb2.SPECULATION_MODE_ALWAYS
ENDS = {
    "stopped": {"stop": ["e", "th", "0"]},
    "banned": {"banned_strings": ["a", "of"]},
}


def is_same(answer: Answer, ours: Streamed) -> bool:
    """Whether tokens, text, log-probabilities and candidates are the same to the bit."""
    told = [
        (one.token_id, one.logprob, [(each.token_id, each.logprob) for each in one.candidates]) for one in answer.tokens
    ]
    expected = [
        (one.id, one.raw_logprob, [(each.id, each.raw_logprob) for each in one.candidates]) for one in ours.records
    ]
    return (answer.text, told) == (ours.text, expected)


def counted(target: RunningTarget) -> tuple[int, int]:
    """How many tokens were predicted so far, and how many of them rightly."""
    stats = target.engine.figures().speculation
    return sum(stats.offered), sum(stats.accepted)


def request_of(setting: str, prompt: int) -> generation_pb2.StreamGenerateRequest:
    """A request of the matrix, without predictions; ends and bans that depend on a first run there are common ones."""
    key = StreamKey("llama", "", "", "", setting, prompt)
    options = {**key.options(), **ENDS.get(setting, {}), "logits": None, "entropy": None, "rank": None}
    options.pop("prompt_logprobs", None)  # without it the lookup has less to find; tested elsewhere
    return build_stream_request(key.prompt_ids(), {**options, "speculation": "never"})


@pytest.mark.parametrize("prompt", [1, 6])
@pytest.mark.parametrize("setting", SETTINGS)
def test_requests_of_the_matrix_get_the_same_bytes(target: RunningTarget, setting: str, prompt: int) -> None:
    ours = request_of(setting, prompt)
    request = translated(ours)
    request.extra["outrider"]["speculation"] = {"mode": "SPECULATION_MODE_ALWAYS"}
    asked = ask(target, request)
    (count,) = {len(asked.answers), max(1, ours.num_samples)}
    for index in range(count):
        ours.num_samples = 1
        ours.sampling.seed = StreamKey("llama", "", "", "", setting, prompt).seed
        if index:
            ours.sampling.seed = derive_seed(ours.sampling.seed, index)
        assert is_same(asked.answers[index], stream(target, ours)), index


def test_predictions_that_err_change_no_byte(model: Path) -> None:
    request = stream_request(output={"logprobs": True}, sampling={"seed": 5}, speculation={"mode": NEVER})
    with target_server(model) as plain:
        expected = stream(plain, request)
    with target_server(model, predictor=SlippingPredictor(expected.token_ids)) as target:
        before = counted(target)
        request.speculation.mode = ALWAYS
        assert is_same(ask(target, translated(request)).answer, expected)
        predicted, accepted = (now - then for now, then in zip(counted(target), before, strict=True))
        assert 0 < accepted < predicted


def test_a_stream_goes_on_where_it_was_cut(target: RunningTarget) -> None:
    """On this server, or on any of the fingerprint, from as many tokens as have come."""
    request = stream_request(output={"logprobs": True, "prompt_token_ids": True})
    whole = stream(target, request)
    rest = translated(request)
    rest.token_ids.ids[:] = whole.started.prompt_token_ids
    for count in (1, 10):
        received = {"tokenIds": whole.token_ids[:count], "fingerprint": whole.started.fingerprint}
        rest.extra["outrider"]["continueFrom"] = received
        asked = ask(target, rest)
        assert asked.answer.token_ids == whole.token_ids[count:]
        assert whole.text.endswith(asked.answer.text)
        assert asked.usage.completion_tokens == 24 - count
        assert asked.usage.cached_prompt_tokens <= asked.usage.prompt_tokens == len(whole.started.prompt_token_ids)


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The demo's draft in a process of its own."""
    service = Service("draft", DEMO_DRAFT, tmp_path_factory.mktemp("draft"))
    service.start()
    yield service
    service.kill()


def test_a_draft_that_is_killed_changes_no_byte(draft: Service) -> None:
    settings: dict[str, Any] = {"sampling": {"seed": 5, "temperature": 0.7}, "stop": {"max_tokens": 120}}
    request = stream_request(CODE, **settings, output={"logprobs": True}, speculation={"mode": NEVER})
    with target_server(DEMO_TARGET, drafts=[draft.address], kv_blocks=256, stream_capacity=8) as target:
        target.wait_for_draft()
        expected = stream(target, request)
        request.speculation.mode = ALWAYS

        def has_erred() -> bool:
            before = counted(target)
            assert is_same(ask(target, translated(request)).answer, expected)
            predicted, accepted = (now - then for now, then in zip(counted(target), before, strict=True))
            return 0 < accepted < predicted

        wait_until(has_erred)  # on a busy machine a draft may be too late for all of an answer
        draft.kill()
        assert is_same(ask(target, translated(request)).answer, expected)


def test_fronts_change_no_byte(model: Path) -> None:
    with target_server(model, fronts=2, own_process=True) as target:
        expected = stream(target, stream_request(output={"logprobs": True}))
        assert is_same(ask(target, translated(stream_request(output={"logprobs": True}))).answer, expected)
        assert ask(target, contract_request()).answer.reason == "LENGTH"
