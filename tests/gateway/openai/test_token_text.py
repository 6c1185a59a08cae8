"""Tokens as OpenAI's APIs spell them."""

import math

import pytest

from outrider import Candidate
from services.gateway.openai.token_text import token_logprob, token_text


def candidate(data: bytes, logprob: float) -> Candidate:
    return Candidate(5, data, "", raw_logprob=logprob, processed_logprob=logprob)


def test_no_two_tokens_read_the_same() -> None:
    assert token_text(candidate(b" caf\xc3\xa9", 0.0)) == " café"
    assert token_text(candidate(b"\xc3", 0.0)) == "bytes:\\xc3"


@pytest.mark.parametrize(("logprob", "told"), [(-0.5, -0.5), (-math.inf, -9999.0)])
def test_an_infinite_logprob_is_a_number_in_json(logprob: float, told: float) -> None:
    assert token_logprob(candidate(b"a", logprob)) == told
