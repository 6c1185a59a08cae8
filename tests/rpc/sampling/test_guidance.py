"""Guidance by RPC: off by default, in sessions, continued, at the terminal, and refused where it cannot be."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

import outrider
from outrider.v1 import generation_pb2
from services.cli import main
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.requests import PROMPT, stream, stream_request, violations

PLAIN: outrider.GenerateOptions = {"seed": 3, "max_tokens": 16}
GUIDED: outrider.GenerateOptions = {**PLAIN, "guidance_scale": 4.0, "negative_prompt": "the shadow"}


@pytest.fixture
def client(target: RunningTarget) -> Iterator[outrider.Client]:
    with outrider.Client(target.address) as client:
        yield client


def test_a_scale_of_one_or_none_changes_nothing(client: outrider.Client) -> None:
    plain = client.generate(PROMPT, **PLAIN)
    assert client.generate(PROMPT, **PLAIN, negative_prompt="the shadow").token_ids == plain.token_ids
    assert client.generate(PROMPT, **{**GUIDED, "guidance_scale": 1.0}).token_ids == plain.token_ids
    assert client.generate(PROMPT, **GUIDED).token_ids != plain.token_ids


def test_a_negative_prompt_defaults_to_the_last_token(client: outrider.Client) -> None:
    prompt, negative = (client.tokenize(text).token_ids for text in (PROMPT, "the shadow"))
    by_ids = client.generate(PROMPT, **{**GUIDED, "negative_prompt": negative})
    assert by_ids.token_ids == client.generate(PROMPT, **GUIDED).token_ids
    last = client.generate(PROMPT, **{**GUIDED, "negative_prompt": prompt[-1:]})
    assert last.token_ids == client.generate(PROMPT, **PLAIN, guidance_scale=4.0).token_ids


def test_guidance_in_a_session_is_guidance_of_its_tokens(client: outrider.Client) -> None:
    with client.session(PROMPT * 8) as session:
        behind = client.generate([], session=session.name, **GUIDED)
    assert behind.token_ids == client.generate(session.token_ids, **GUIDED).token_ids
    assert behind.usage.cached_tokens > 0


def test_each_guided_sample_is_that_of_its_seed(client: outrider.Client) -> None:
    several = client.generate(PROMPT, **GUIDED, num_samples=3)
    for sample in (several, *several.further_samples):
        alone = client.generate(PROMPT, **{**GUIDED, "seed": sample.started.seed})
        assert alone.token_ids == sample.token_ids


def test_a_guided_answer_can_be_continued(target: RunningTarget) -> None:
    guidance = {"scale": 4.0, "negative_prompt": {"text": "the shadow"}}
    asked = stream_request(guidance=guidance, sampling={"seed": 3}, stop={"max_tokens": 20})
    whole = stream(target, asked)
    for count in (0, 1, 13):
        rest = generation_pb2.StreamGenerateRequest()
        rest.CopyFrom(asked)
        rest.continue_from.fingerprint = whole.started.fingerprint
        rest.continue_from.token_ids.extend(whole.token_ids[:count])
        assert stream(target, rest).token_ids == whole.token_ids[count:]


def test_generate_has_options_for_guidance(target: RunningTarget, capsys: pytest.CaptureFixture[str]) -> None:
    with outrider.Client(target.address) as client:
        expected = client.generate(PROMPT, **GUIDED).text
    options = ["--seed", "3", "--max-tokens", "16", "--guidance-scale", "4", "--negative-prompt", "the shadow"]
    assert main(["generate", "--address", target.address, *options, PROMPT]) == 0
    assert capsys.readouterr().out == f"{expected}\n"


def test_a_server_of_one_sequence_refuses_guidance(model: Path) -> None:
    with target_server(model, max_sequences=1) as alone, pytest.raises(grpc.RpcError) as failure:
        stream(alone, stream_request(guidance={"scale": 2.0}))
    assert violations(failure.value) == {
        "guidance": "is set; allowed: not to be, with a server that runs one sequence at once"
    }
