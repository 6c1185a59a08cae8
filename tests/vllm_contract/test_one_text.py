"""One seed, one text: the contract gives the bytes of our own RPC, whatever becomes of the draft."""

from collections.abc import Iterator
from typing import Any

import pytest
from smg_grpc_proto.generated import vllm_engine_pb2

from outrider.v1 import common_pb2
from services.target.vllm_contract import servicer
from services.target.vllm_contract.request import read_request
from tests.e2e.harness.draft_rig import Service
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.requests import stream, stream_request
from tests.vllm_contract.asking import PROMPT, Asked, ask, ask_all, contract_request, stub_of

CODE = 'class Stack:\n    """A last-in, first-out stack."""\n'
GREEDY: dict[str, Any] = {"temperature": 0.0}
SAMPLED: dict[str, Any] = {"temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.01}
PENALIZED: dict[str, Any] = {**SAMPLED, "repetition_penalty": 1.1, "presence_penalty": 0.3, "frequency_penalty": 0.2}
NEVER = {"mode": common_pb2.SPECULATION_MODE_NEVER}


def by_rpc(target: RunningTarget, prompt: Any, sampling: dict[str, Any], **stop: Any) -> Asked:
    """The same of our own RPC, without predictions, in the contract's words."""
    request = stream_request(
        prompt,
        sampling={"seed": 5, **sampling},
        stop={"max_tokens": 24, "ignore_eos": True, **stop},
        output={"logprobs": True},
        speculation=NEVER,
    )
    streamed = stream(target, request)
    asked = Asked()
    asked.ends.append(vllm_engine_pb2.GenerateComplete(output_ids=streamed.token_ids))
    asked.end.output_logprobs.token_logprobs.extend(record.raw_logprob for record in streamed.records)
    return asked


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED, PENALIZED], ids=["greedy", "sampled", "penalized"])
def test_ids_and_logprobs_are_those_of_the_rpc(target: RunningTarget, sampling: dict[str, Any], streams: bool) -> None:
    expected = by_rpc(target, PROMPT, sampling)
    asked = ask(target, contract_request(stream=streams, logprobs=0, **sampling))
    assert bool(asked.chunks) == streams
    assert (asked.token_ids, asked.logprobs) == (expected.token_ids, expected.logprobs)
    assert len(asked.token_ids) == 24


def test_a_text_is_encoded_as_by_the_rpc(target: RunningTarget) -> None:
    expected = by_rpc(target, "def main(argv):", SAMPLED)
    assert ask(target, contract_request("def main(argv):", **SAMPLED)).token_ids == expected.token_ids


def test_a_negative_seed_is_one_of_64_bits(target: RunningTarget) -> None:
    expected = by_rpc(target, PROMPT, {**SAMPLED, "seed": 2**64 - 3})
    assert ask(target, contract_request(**{**SAMPLED, "seed": -3})).token_ids == expected.token_ids


def test_samples_are_those_of_the_rpc(target: RunningTarget) -> None:
    request = stream_request(PROMPT, sampling={"seed": 5, "temperature": 1.0}, num_samples=3)
    expected: list[list[int]] = [[], [], []]
    for event in target.stub.StreamGenerate(request):
        expected[event.sample] += event.chunk.token_ids
    for streams in (True, False):
        asked = ask_all(target, contract_request(stream=streams, temperature=1.0, n=3))
        assert [one.token_ids for one in asked] == expected
    assert len({tuple(ids) for ids in expected}) == 3


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The demo's draft in a process of its own."""
    service = Service("draft", DEMO_DRAFT, tmp_path_factory.mktemp("draft"))
    service.start()
    yield service
    service.kill()


@pytest.fixture(scope="module")
def demo(draft: Service) -> Iterator[RunningTarget]:
    """The demo's target with it."""
    with target_server(DEMO_TARGET, drafts=[draft.address], kv_blocks=256, stream_capacity=8) as running:
        yield running
        running.assert_all_free()


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every prediction is verified: the contract has no word for it, and how many pay depends on the machine."""

    def read(*arguments: Any) -> Any:
        request = read_request(*arguments)
        request.speculation.mode = common_pb2.SPECULATION_MODE_ALWAYS
        return request

    monkeypatch.setattr(servicer, "read_request", read)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_draft_that_errs_changes_no_byte(demo: RunningTarget, sampling: dict[str, Any]) -> None:
    demo.wait_for_draft()
    expected = by_rpc(demo, CODE, sampling, max_tokens=120)

    def has_erred() -> bool:
        asked = ask(demo, contract_request(CODE, max_tokens=120, logprobs=0, **sampling))
        assert (asked.token_ids, asked.logprobs) == (expected.token_ids, expected.logprobs)
        return 0 < asked.end.spec_accepted_tokens < asked.end.spec_draft_tokens

    wait_until(has_erred)  # on a busy machine a draft may be too late for all of an answer


@pytest.mark.usefixtures("always")
def test_a_draft_that_is_killed_in_mid_stream_changes_no_byte(demo: RunningTarget, draft: Service) -> None:
    demo.wait_for_draft()
    expected = by_rpc(demo, CODE, SAMPLED, max_tokens=300)
    losses = demo.engine.figures().speculation.losses
    token_ids: list[int] = []
    for response in stub_of(demo).Generate(contract_request(CODE, max_tokens=300, **SAMPLED), timeout=60):
        token_ids += response.chunk.token_ids
        if draft.is_running and len(token_ids) > 50:
            draft.kill()
    assert token_ids == expected.token_ids
    wait_until(lambda: demo.engine.figures().speculation.losses == losses + 1)
