"""bad_draft: each kind sends a hello, and then misbehaves as it is named."""

import grpc
import pytest

from benchmarks.drafts.bad_draft import BEHAVIOURS, running_bad_draft
from outrider.v1.draft_pb2 import Commit, DraftRequest, DraftResponse, TargetHello

pytestmark = pytest.mark.process

COMMIT = DraftRequest(commit=Commit(sequence_id=1, position=0, token_ids=[5, 6, 7], wanted=3))
ANSWERS = {"silent": [], "slow": [3], "flooding": [4] * 2000}


@pytest.mark.parametrize("kind", BEHAVIOURS)
def test_each_kind_of_bad_draft_misbehaves_as_named(kind: str) -> None:
    with running_bad_draft(kind) as address, grpc.insecure_channel(address) as channel:
        call = channel.stream_stream(
            "/outrider.v1.DraftService/Draft",
            request_serializer=DraftRequest.SerializeToString,
            response_deserializer=DraftResponse.FromString,
        )
        hello, *answers = call(iter([DraftRequest(hello=TargetHello()), COMMIT]), timeout=60.0)
    assert hello.WhichOneof("message") == "hello"
    assert [len(answer.predict.token_ids) for answer in answers] == ANSWERS[kind]
    assert {(answer.predict.sequence_id, answer.predict.position) for answer in answers} <= {(1, 3)}
