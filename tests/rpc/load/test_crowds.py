"""A crowd that leaves few rows of a pass for predictions gets the bytes that it would have got with plenty of them."""

import math
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outrider.v1 import common_pb2, generation_pb2
from services.target.sequence.sequence import Sequence
from tests.harness.servers.server import RunningTarget, target_server
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.rpc.harness.requests import as_unary, stream_request


class WrongAtOnce(SilentPredictor):
    """Has predictions for everybody, which are hardly ever right: so they are only tried, at first and now and then."""

    def take(self, sequence: Sequence, limit: int, *, until: float = math.inf) -> Seq[int]:
        return [7] * limit


def crowd(num_requests: int, num_samples: int) -> list[generation_pb2.GenerateRequest]:
    """Requests that leave room for predictions one by one, once they have come long enough.

    Whether any pay for those that leave it open is a matter of time; the last one, for which there is room in the end
    if not before, wants them always.
    """
    always = {"mode": common_pb2.SPECULATION_MODE_ALWAYS, "num_predictions": 4}
    return [
        as_unary(
            stream_request(
                speculation=always if index == num_requests - 1 else {},
                sampling={"seed": index, "temperature": 0.8},
                stop={"max_tokens": 24 + 72 * index // num_requests, "ignore_eos": True},
                output={"logprobs": True},
                num_samples=num_samples,
            )
        )
        for index in range(num_requests)
    ]


def answers(
    target: RunningTarget, requests: list[generation_pb2.GenerateRequest]
) -> list[generation_pb2.GenerateResponse]:
    with ThreadPoolExecutor(len(requests)) as pool:
        calls = list(pool.map(lambda request: target.stub.Generate(request, timeout=120), requests))
    return [sample for answer in calls for sample in (answer, *answer.further_samples)]


def told(answer: generation_pb2.GenerateResponse) -> tuple[str, list[tuple[int, float]], int]:
    """What may not depend on anything."""
    return answer.text, [(record.id, record.processed_logprob) for record in answer.records], answer.finished.reason


@pytest.mark.parametrize(
    ("max_rows", "max_sequences", "num_requests", "num_samples"),
    [(20, 12, 2, 6), (40, 32, 32, 1), pytest.param(64, 64, 4, 16, marks=pytest.mark.exhaustive)],
)
def test_a_crowd_gets_its_bytes_with_few_rows_for_predictions(
    model: Path, target: RunningTarget, max_rows: int, max_sequences: int, num_requests: int, num_samples: int
) -> None:
    requests = crowd(num_requests, num_samples)
    with target_server(
        model, predictor=WrongAtOnce(), max_rows=max_rows, max_sequences=max_sequences, kv_blocks=1024
    ) as crowded:
        crowded_answers = answers(crowded, requests)
        crowded.assert_all_free()
        assert crowded.health() == "SERVING"
    assert crowded_answers[-1].finished.speculation.predicted
    assert [told(answer) for answer in crowded_answers] == [told(answer) for answer in answers(target, requests)]
