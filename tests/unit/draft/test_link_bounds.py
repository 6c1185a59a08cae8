"""Messages of either side of a draft link stay within the other side's limits, and none is lost."""

from outrider.v1.draft_pb2 import Commit, DraftRequest, DraftResponse, Open
from services.draft_protocol.messages import AlternatePrediction, Prediction
from services.draft_protocol.protocol import (
    MAX_COMMIT,
    MAX_MASKED,
    MAX_REQUEST_BYTES,
    MAX_REQUESTS,
    MAX_RESPONSE_BYTES,
    MAX_RESPONSES,
    MAX_WINDOW,
)
from services.draft_protocol.requests import merge_requests
from services.draft_protocol.responses import write_response
from services.service.limits import LIMITS

_LARGEST, _LARGEST_ID = 2**32 - 1, 2**64 - 1


def largest_requests() -> list[DraftRequest]:
    commit = Commit(sequence_id=_LARGEST_ID, position=_LARGEST, token_ids=[_LARGEST] * MAX_COMMIT, wanted=_LARGEST)
    choice = {"choice": {"texts": ["a"] * LIMITS.max_grammar_bytes}}
    biases = [{"token_id": _LARGEST, "bias": 1.5}] * LIMITS.max_logit_biases
    sampling = {"logit_bias": biases, "seed": _LARGEST_ID}
    opened = Open(sampling=sampling, masked_token_ids=[_LARGEST] * MAX_MASKED, grammar=choice)
    return [DraftRequest(commit=commit), DraftRequest(open=opened)]


def test_a_targets_messages_stay_within_the_drafts_size_limit():
    requests = [each for _ in range(40) for each in largest_requests()]
    said = [*merge_requests(iter(requests))]
    assert max(each.ByteSize() for each in said) <= MAX_REQUEST_BYTES
    assert [one.WhichOneof("message") for each in said for one in (each, *each.further)] == ["commit", "open"] * 40


def test_a_targets_small_messages_are_merged():
    requests = [DraftRequest(close={"sequence_id": number}) for number in range(100)]
    said = [*merge_requests(iter(requests))]
    assert [1 + len(each.further) for each in said] == [MAX_REQUESTS] * 3 + [4]
    assert [one.close.sequence_id for each in said for one in (each, *each.further)] == [*range(100)]


def test_requests_are_made_when_there_is_room_for_them():
    made = []
    requests = (made.append(number) or DraftRequest(close={"sequence_id": number}) for number in range(100))
    next(merge_requests(requests))
    assert len(made) == MAX_REQUESTS


def test_a_drafts_messages_stay_within_the_targets_size_limit():
    run = Prediction(_LARGEST_ID, _LARGEST, _LARGEST, (_LARGEST,) * MAX_WINDOW)
    alternate = AlternatePrediction(_LARGEST_ID, _LARGEST, _LARGEST, _LARGEST, (_LARGEST,) * MAX_WINDOW, _LARGEST)
    for message in (run, alternate):
        response = write_response(message)
        response.further.extend([DraftResponse.FromString(response.SerializeToString())] * (MAX_RESPONSES - 1))
        assert response.ByteSize() <= MAX_RESPONSE_BYTES
