"""Proofs: any server of the fingerprint verifies an answer in few passes, and finds what was changed in it."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider import FinishReason, Message, PredictionSource, Proof, Result, Verdict
from outrider.verification import Verification
from tests.harness.models.further_checkpoints import Further, further_checkpoint
from tests.harness.models.lora_folders import write_adapter
from tests.harness.network.cutting_proxy import CuttingProxy
from tests.harness.servers.server import RunningTarget, target_server

TEXT = "one two three four "
LONG = {"max_tokens": 300, "ignore_eos": True}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
PARSERS = {"reasoning_parser": "think"}
REQUESTS: dict[str, dict[str, Any]] = {
    "sampled": {"seed": 5, **LONG},
    "greedy": {"temperature": 0.0, **LONG},
    "without a seed": LONG,
    "feedback": {"seed": 6, "mirostat_mode": 2, **LONG},
    "history": {"seed": 7, "repetition_penalty": 1.2, "dry_multiplier": 0.8, "no_repeat_ngram_size": 3, **LONG},
    "allowed": {"seed": 8, "allowed_token_ids": range(40, 90), **LONG},
    "banned": {"seed": 9, "banned_strings": ["a", "e"], **LONG},
    "stopped": {"seed": 10, "stop": ["a", "the"], "include_stop": True, "max_tokens": 300},
    "schema": {"seed": 11, "json_schema": SCHEMA, "max_tokens": 100},
    "guided": {"seed": 12, "guidance_scale": 1.5, "negative_prompt": "no", **LONG},
    "healed": {"seed": 13, "heal": True, **LONG},
    "adapter": {"seed": 14, "lora": "a", **LONG},
    "special": {"seed": 15, "show_special_tokens": True, **LONG},
    "thinking": {"seed": 16, "max_thinking_tokens": 5, **LONG},
}


@pytest.fixture(scope="module")
def loras(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {"a": write_adapter(tmp_path_factory.mktemp("loras") / "a", model, seed=1)}


@pytest.fixture(scope="module")
def verifier(model: Path, loras: dict[str, Path]) -> Iterator[RunningTarget]:
    """Another server of the same fingerprint."""
    with target_server(model, loras=loras, parsers=PARSERS, kv_blocks=256) as running:
        yield running
        running.assert_all_free()


@pytest.fixture(scope="module")
def answerer(model: Path, loras: dict[str, Path]) -> Iterator[RunningTarget]:
    with target_server(model, loras=loras, parsers=PARSERS, lookup=True, kv_blocks=256) as running:
        yield running
        running.assert_all_free()


def answer(target: RunningTarget, prompt: outrider.Prompt = TEXT, **options: Any) -> Result:
    with outrider.Client(target.address) as client:
        return client.generate(prompt, **options)


def proof_of(result: Result) -> Proof:
    """Written and read again."""
    assert result.proof is not None
    return Proof.from_json(result.proof.to_json())


def verify(target: RunningTarget, proof: Proof) -> Verdict:
    """By both clients, which must agree."""

    async def run() -> Verdict:
        async with outrider.AsyncClient(target.address) as client:
            return await client.verify(proof)

    verdict = asyncio.run(run())
    with outrider.Client(target.address) as client:
        assert client.verify(proof) == verdict
    return verdict


@pytest.mark.parametrize("name", REQUESTS)
def test_another_server_verifies_an_answer(answerer: RunningTarget, verifier: RunningTarget, name: str) -> None:
    result = answer(answerer, **REQUESTS[name])
    assert len(result.token_ids) > 1
    verdict = verify(verifier, proof_of(result))
    assert (verdict.is_equal, verdict.reason) == (True, "")
    assert 0 < verdict.passes <= 4 + len(result.suppressed)


def test_answers_of_conversations_and_tools_are_verified(answerer: RunningTarget, verifier: RunningTarget) -> None:
    for options in ({}, {"tools": [TOOL], "tool_choice": "required"}, {"tools": [TOOL], "message_deltas": True}):
        result = answer(answerer, [Message("user", "Hello")], seed=4, max_tokens=60, **options)
        assert verify(verifier, proof_of(result)).is_equal


def test_each_of_several_samples_is_verified(answerer: RunningTarget, verifier: RunningTarget) -> None:
    for options in ({"num_samples": 3}, {"num_samples": 2, "best_of": 3}):
        result = answer(answerer, seed=4, **LONG, **options)
        verdicts = [verify(verifier, proof_of(each)) for each in (result, *result.further_samples)]
        assert len(verdicts) > 1
        assert all(verdict.is_equal for verdict in verdicts)


def test_an_answer_in_a_session_is_verified_without_it(answerer: RunningTarget, verifier: RunningTarget) -> None:
    with outrider.Client(answerer.address) as client, client.session(TEXT * 5) as session:
        result = client.generate(TEXT, session=session.name, seed=2, **LONG)
    assert verify(verifier, proof_of(result)).is_equal


@pytest.mark.parametrize("position", [0, 1, 150, 299])
def test_a_changed_token_is_found_with_the_right_one(
    answerer: RunningTarget, verifier: RunningTarget, position: int
) -> None:
    result = answer(answerer, seed=5, **LONG)
    proof, right = proof_of(result), result.token_ids[position]
    ids = (*result.token_ids[:position], (right + 1) % 200, *result.token_ids[position + 1 :])
    verdict = verify(verifier, replace(proof, token_ids=ids))
    assert not verdict.is_equal
    assert (verdict.position, verdict.token_id, verdict.right_token_id) == (position, ids[position], right)
    assert f"position {position}" in verdict.reason


def test_an_answer_that_ends_early_or_late_is_not_equal(answerer: RunningTarget, verifier: RunningTarget) -> None:
    result = answer(answerer, seed=5, **LONG)
    proof, last = proof_of(result), result.token_ids[-1]
    early = verify(verifier, replace(proof, token_ids=proof.token_ids[:-1]))
    assert (early.is_equal, early.position, early.token_id, early.right_token_id) == (False, 299, None, last)
    late = verify(verifier, replace(proof, token_ids=(*proof.token_ids, 7)))
    assert (late.is_equal, late.position, late.token_id, late.right_token_id) == (False, 300, 7, None)


def test_another_text_end_or_question_is_not_equal(answerer: RunningTarget, verifier: RunningTarget) -> None:
    proof = proof_of(answer(answerer, seed=5, **LONG))
    verdict = verify(verifier, replace(proof, text=proof.text + "!"))
    assert (verdict.is_equal, verdict.position) == (False, None)
    assert verdict.reason == f"the text differs from character {len(proof.text)} on"
    verdict = verify(verifier, replace(proof, finish_reason="stop_token"))
    assert verdict.reason == "the reason of the end is 'stop_token' instead of 'max_tokens'"
    asked = json.loads(proof.to_json())
    asked["request"]["stop"]["min_tokens"] = 3  # which changes no token of this answer
    verdict = verify(verifier, Proof.from_json(json.dumps(asked)))
    assert verdict.reason.startswith("the digest of the request is")


def test_an_answer_that_time_ended_is_verified_as_far_as_it_goes(
    answerer: RunningTarget, verifier: RunningTarget
) -> None:
    result = answer(answerer, seed=5, **LONG)
    shorter = answer(answerer, seed=5, **{**LONG, "max_tokens": 100})
    text = shorter.text.rstrip("\ufffd")
    cut = replace(proof_of(result), token_ids=result.token_ids[:100], text=text, finish_reason=FinishReason.TIME_LIMIT)
    assert verify(verifier, cut).is_equal
    assert verify(verifier, replace(cut, text=text + "\ufffd")).is_equal  # part of a character
    ids = (*result.token_ids[:99], (result.token_ids[99] + 1) % 200)
    verdict = verify(verifier, replace(cut, token_ids=ids))
    assert (verdict.is_equal, verdict.position) == (False, 99)
    for forged in (text + "!", text[:40] + "!" + text[41:], text + "forged" * 1000):
        verdict = verify(verifier, replace(cut, text=forged))
        assert (verdict.is_equal, verdict.reason[:16]) == (False, "the text differs"), forged
    for finish_reason in (FinishReason.TIME_LIMIT, FinishReason.MAX_TOKENS):
        verdict = verify(verifier, replace(cut, request_digest="0" * 64, finish_reason=finish_reason))
        assert verdict.reason.startswith("the digest of the request is")
    assert verify(verifier, replace(cut, token_ids=(), text="")).is_equal


def test_a_verifier_whose_time_runs_out_gives_no_verdict(answerer: RunningTarget, verifier: RunningTarget) -> None:
    result = answer(answerer, seed=5, **LONG)
    proof = proof_of(result)
    for by_time in (FinishReason.DEADLINE, FinishReason.TIME_LIMIT):  # as a server ends its own answer
        with pytest.raises(outrider.DeadlineExceeded):
            Verification(proof).end(replace(result, finish_reason=by_time))
    with outrider.Client(verifier.address) as client, verifier.held():
        for each in (proof, replace(proof, finish_reason=FinishReason.TIME_LIMIT)):
            with pytest.raises(outrider.DeadlineExceeded):
                client.verify(each, timeout=0.5)
    result = answer(answerer, seed=5, time_limit=0.001, **LONG)
    assert verify(verifier, proof_of(result)).is_equal


def test_only_the_question_of_a_proof_is_asked(answerer: RunningTarget, verifier: RunningTarget) -> None:
    proof = proof_of(answer(answerer, seed=5, **LONG))
    forged = json.loads(proof.to_json())
    forged["request"] |= {"best_of": 5, "num_samples": 3, "cache": {"salt": "x"}, "speculation": {"lookup": False}}
    forged["request"]["continue_from"]["token_ids"] = [1, 2, 3]
    forged["request"]["stop"]["time_limit"] = "0.001s"
    read = Proof.from_json(json.dumps(forged))
    assert verify(verifier, read).is_equal
    verdict = verify(verifier, replace(read, token_ids=(1, 2, 3, *proof.token_ids[3:])))
    assert (verdict.is_equal, verdict.position) == (False, 0)
    for path, name in (("sampling", "seed"), ("continue_from", "fingerprint"), ("prompt", "token_ids")):
        lacking = json.loads(proof.to_json())
        del lacking["request"][path][name]
        with pytest.raises(ValueError, match=f"the request of a proof has no {path}.{name}"):
            Proof.from_json(json.dumps(lacking))


def test_tokens_that_no_model_gives_are_not_equal(answerer: RunningTarget, verifier: RunningTarget) -> None:
    proof = proof_of(answer(answerer, seed=5, **LONG))
    for ids in ((*proof.token_ids, 99999), proof.token_ids * 100):
        verdict = verify(verifier, replace(proof, token_ids=ids))
        assert not verdict.is_equal
        assert verdict.reason.startswith("no answer has these tokens")


def test_a_resumed_answer_is_verified(answerer: RunningTarget, verifier: RunningTarget) -> None:
    port = int(answerer.address.rpartition(":")[2])
    with CuttingProxy(port, max_bytes=2000) as proxy, outrider.Client(proxy.address, answerer.address) as client:
        stream = client.stream(TEXT, seed=5, min_tokens=40, logit_bias={1: 0.5}, **LONG)
        for number, _ in enumerate(stream):
            if number == 0:
                proxy.cut()
    assert stream.result.resumed == 1
    assert verify(verifier, proof_of(stream.result)).is_equal


def test_a_server_of_another_fingerprint_refuses(answerer: RunningTarget, other: Path) -> None:
    proof = proof_of(answer(answerer, seed=5, **LONG))
    with target_server(other) as target:
        with outrider.Client(target.address) as client, pytest.raises(outrider.FingerprintMismatch):
            client.verify(proof)
        with outrider.Client(target.address, answerer.address) as client:
            assert client.verify(proof).is_equal


def test_a_model_with_states_verifies_what_its_rings_hold() -> None:
    with target_server(further_checkpoint(Further.QWEN3_5)) as target:
        result = answer(target, seed=5, **LONG)
        verdict = verify(target, proof_of(result))
        assert verdict.is_equal
        assert verdict.passes <= 1 + 300 // 16 + 1
        target.assert_all_free()


@pytest.mark.parametrize("speculation", ["auto", "always"])
def test_what_is_expected_changes_no_byte(answerer: RunningTarget, verifier: RunningTarget, speculation: str) -> None:
    plain = answer(answerer, seed=5, **LONG)
    for wrong_at in (None, 0, 20, 290):
        ids = [*plain.token_ids]
        if wrong_at is not None:
            ids[wrong_at] = (ids[wrong_at] + 1) % 200
        result = answer(verifier, seed=5, expected_token_ids=ids, speculation=speculation, token_records=True, **LONG)
        assert (result.token_ids, result.text) == (plain.token_ids, plain.text)
        (stats,) = result.speculation.by_source or (None,)
        assert (stats is None) == (wrong_at == 0)
        if stats is not None and wrong_at is not None:
            assert stats.accepted == wrong_at - stats.num_spec_steps
        assert {token.prediction_source for token in result.tokens} <= {None, PredictionSource.EXPECTED}


def test_expected_tokens_that_cannot_be_are_refused(verifier: RunningTarget) -> None:
    with outrider.Client(verifier.address) as client:
        with pytest.raises(outrider.InvalidArgument, match=r"speculation\.expected\.ids\[1\]: is 99999"):
            client.generate(TEXT, expected_token_ids=[1, 99999])
        with pytest.raises(outrider.InvalidArgument, match=r"speculation\.expected: is set"):
            client.generate(TEXT, expected_token_ids=[1], speculation="never")
        length = client.model_info().context_length + 1
        with pytest.raises(outrider.InvalidArgument, match=rf"speculation\.expected\.ids: has {length}"):
            client.generate(TEXT, expected_token_ids=[1] * length)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"token_ids": [-1]}, "token_ids must be a list of numbers from 0 to 4294967295"),
        ({"token_ids": "1"}, "token_ids must be"),
        ({"token_ids": [True]}, "token_ids must be"),
        ({"request": {"promt": 1}}, "request: .*promt"),
        ({"request": 7}, "the first of them an object"),
    ],
)
def test_what_is_no_proof_is_refused(changes: dict[str, object], said: str) -> None:
    found = {"request": {}, "request_digest": "", "token_ids": [], "text": "", "finish_reason": ""}
    with pytest.raises(ValueError, match=said):
        Proof.from_json(json.dumps(found | changes))
    for text in ("[]", "{}", json.dumps({"request": {}})):
        with pytest.raises(ValueError, match="a proof is a JSON object with request"):
            Proof.from_json(text)


def test_an_expected_token_is_counted_by_its_source_alone(verifier: RunningTarget, answerer: RunningTarget) -> None:
    plain = answer(answerer, seed=5, **LONG)
    stats = answer(verifier, seed=5, expected_token_ids=plain.token_ids, speculation="always", **LONG).speculation
    assert (stats.predicted, stats.accepted, stats.by_position) == (297, 297, ())
    assert [(each.source, each.accepted) for each in stats.by_source] == [(PredictionSource.EXPECTED, 297)]
