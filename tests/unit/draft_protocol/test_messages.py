"""The messages of a draft link: each side reads what the other writes."""

from dataclasses import replace

import pytest

from services.draft_protocol.messages import (
    AlternatePrediction,
    Close,
    Commit,
    DraftMessage,
    Open,
    Prediction,
    Release,
    ReleaseReason,
    TargetMessage,
    Window,
)
from services.draft_protocol.requests import read_request, write_request
from services.draft_protocol.responses import read_predictions, read_release, write_response
from services.engine.allowed_tokens import AllowedTokens
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.request import CachePolicy
from services.engine.sampling_params import SamplingParams
from tests.unit.sequences import VOCAB_SIZE, make_request

SAMPLING = SamplingParams(
    seed=5,
    temperature=0.5,
    top_k=3,
    samplers=("xtc", "top_k"),
    suppressed_ids=(5,),
    begin_suppressed_ids=(6, 7),
    bad_words=((1, 2), (3,)),
    dry_multiplier=0.5,
    dry_breaker_ids=(0, 9, 201),
    logit_bias={7: 1.5},
    allowed_tokens=AllowedTokens.of([1, 200], vocab_size=VOCAB_SIZE),
)
OPEN = Open(
    sequence_id=1,
    sampling=SAMPLING,
    num_prompt=9,
    min_tokens=2,
    masked_ids=[3, 4],
    grammar=GrammarSource(GrammarKind.CHOICE, ("yes", "no")),
    cache=CachePolicy(salt="mine"),
)


@pytest.mark.parametrize(
    "message",
    [
        OPEN,
        replace(OPEN, grammar=GrammarSource(GrammarKind.REGEX, ("a+",), prefers_end=True)),
        replace(OPEN, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        Open.of(2, make_request(banned=["bad"], min_tokens=1)),
        Commit(1, 5, [6, 7], 3),
        Commit(1, 0, []),
        Window(1, 12, 3),
        Close(1),
    ],
)
def test_a_draft_reads_the_messages_that_a_target_writes(message: TargetMessage):
    assert read_request(write_request(message), vocab_size=VOCAB_SIZE) == message


@pytest.mark.parametrize(
    "message", [Prediction(1, 2, 3, (4, 5)), Prediction(1, 2, 3, ()), AlternatePrediction(1, 2, 3, 4, (5, 6), 1)]
)
def test_a_target_reads_the_predictions_of_a_draft(message: DraftMessage):
    assert [*read_predictions(write_response(message).predict)] == [message]


@pytest.mark.parametrize("reason", ReleaseReason)
def test_a_target_reads_the_releases_of_a_draft(reason: ReleaseReason):
    assert read_release(write_response(Release(1, reason)).released) == Release(1, reason)


@pytest.mark.parametrize(("token_ids", "largest"), [((), 4), ((3,), 4), ((3, 9, 1), 9)])
def test_the_largest_id_is_that_of_any_token(token_ids: tuple[int, ...], largest: int):
    assert AlternatePrediction(1, 2, 3, 4, token_ids).largest_id == largest
    assert Prediction(1, 2, 3, token_ids).largest_id == max(token_ids, default=0)
