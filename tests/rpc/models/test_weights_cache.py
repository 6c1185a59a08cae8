"""A service that starts from packed weights answers as one that has packed them itself."""

from pathlib import Path

import pytest

from outrider.v1 import generation_pb2
from services.engine.config import CPU_WEIGHT_FORMATS
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.requests import stream, stream_request


def answer(target: RunningTarget) -> tuple[object, ...]:
    whole = stream(target, stream_request(output={"top_candidates": 5}))
    info = target.stub.GetModelInfo(generation_pb2.GetModelInfoRequest())
    assert whole.records
    return whole.text, whole.token_ids, whole.records, info.fingerprint, info.fingerprint_parts


@pytest.mark.parametrize("weights", CPU_WEIGHT_FORMATS)
def test_the_same_answers_and_the_same_fingerprint(model: Path, tmp_path: Path, weights: str, caplog) -> None:
    caplog.set_level("INFO")
    answers = []
    for cache in (None, tmp_path, tmp_path):
        with target_server(model, weights=weights, weights_cache=cache) as target:
            answers.append(answer(target))
            if cache is not None:
                wait_until(lambda: [*tmp_path.glob("*.packed")])  # it writes them while it serves
    assert answers[0] == answers[1] == answers[2]
    told = [message.split(" ")[1] for message in caplog.messages if message.startswith("weights ")]
    assert told == ["of", "of", "read"]
