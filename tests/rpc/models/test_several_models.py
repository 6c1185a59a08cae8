"""Several models in one server: a request names one, and gets the answer of that model alone."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from outrider.v1 import generation_pb2
from services.engine.config import ConfigError
from services.target.engines.model_setup import ModelSetup
from tests.harness.servers.server import RunningTarget, engine_config, target_server
from tests.rpc.harness.requests import Streamed, stream, stream_request, violations

MODES = [{"temperature": 0.0, "seed": 1}, {"temperature": 0.9, "seed": 2}, {"temperature": 1.0, "seed": 3, "top_k": 20}]


@pytest.fixture(scope="module")
def several(model: Path, other: Path) -> Iterator[RunningTarget]:
    """A target with both; the first has a name of the server's making."""
    further = [ModelSetup(engine=engine_config(other), name="other", lookup=False)]
    with target_server(model, name="one", further=further) as running:
        yield running


def streams(target: RunningTarget, name: str) -> list[Streamed]:
    """One answer in each mode, all at once."""
    requests = [request_to(name, sampling=sampling) for sampling in MODES]
    with ThreadPoolExecutor(len(requests)) as threads:
        return [*threads.map(lambda request: stream(target, request), requests)]


def request_to(name: str, **fields: Any) -> generation_pb2.StreamGenerateRequest:
    """A request that asks for what its answer depends on, and for log-probabilities."""
    fields = {"output": {"logprobs": True}, **fields}
    return stream_request(**fields, **({"model": name} if name else {}))


def test_each_of_two_models_answers_as_it_does_alone(several: RunningTarget, model: Path, other: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        told = {name: threads.submit(streams, several, name) for name in ("one", "other")}
    for name, folder in (("one", model), ("other", other)):
        with target_server(folder) as alone:
            expected = streams(alone, "")
        answers = told[name].result()
        assert [each.token_ids for each in answers] == [each.token_ids for each in expected]
        assert [each.text for each in answers] == [each.text for each in expected]
        assert [each.records for each in answers] == [each.records for each in expected]
        assert {each.started.model for each in answers} == {name}
        assert {each.started.fingerprint for each in answers} == {each.started.fingerprint for each in expected}
    several.assert_all_free()


def test_without_a_name_the_first_model_answers(several: RunningTarget) -> None:
    assert stream(several, stream_request()).started.model == "one"
    info = several.stub.GetModelInfo(generation_pb2.GetModelInfoRequest())
    assert info == several.stub.GetModelInfo(generation_pb2.GetModelInfoRequest(model="one"))


def test_every_call_may_name_a_model(several: RunningTarget) -> None:
    text = "def f(x):"
    by_name = {}
    for name in ("one", "other"):
        encoded = several.stub.Tokenize(generation_pb2.TokenizeRequest(text=text, model=name))
        ids = encoded.token_ids
        assert several.stub.Detokenize(generation_pb2.DetokenizeRequest(token_ids=ids, model=name)).text == text
        whole = several.stub.Generate(
            generation_pb2.GenerateRequest(prompt={"text": text}, stop={"max_tokens": 3}, model=name)
        )
        info = several.stub.GetModelInfo(generation_pb2.GetModelInfoRequest(model=name))
        assert (whole.started.model, whole.started.fingerprint) == (name, info.fingerprint)
        by_name[name] = info
    assert by_name["one"].fingerprint != by_name["other"].fingerprint
    listed = several.stub.ListModels(generation_pb2.ListModelsRequest()).models
    assert {each.name: each.info for each in listed} == by_name
    assert [each.state for each in listed] == [generation_pb2.MODEL_STATE_READY] * 2


def test_an_unknown_model_is_refused_with_the_known_names(several: RunningTarget) -> None:
    calls = (
        lambda: stream(several, stream_request(model="third")),
        lambda: several.stub.Generate(generation_pb2.GenerateRequest(prompt={"text": "a"}, model="third")),
        lambda: several.stub.Tokenize(generation_pb2.TokenizeRequest(text="a", model="third")),
        lambda: several.stub.Detokenize(generation_pb2.DetokenizeRequest(token_ids=[1], model="third")),
        lambda: several.stub.GetModelInfo(generation_pb2.GetModelInfoRequest(model="third")),
    )
    for call in calls:
        with pytest.raises(grpc.RpcError) as failure:
            call()
        assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert violations(failure.value) == {"model": "'third' is not served here; allowed: 'one', 'other'"}


def test_a_stream_continues_with_its_own_model_only(several: RunningTarget) -> None:
    sampling = {"seed": 2, "temperature": 0.9}
    whole = stream(several, request_to("other", sampling=sampling))
    received = {"fingerprint": whole.started.fingerprint, "token_ids": whole.token_ids[:9]}
    rest = stream(several, request_to("other", sampling=sampling, continue_from=received))
    assert rest.token_ids == whole.token_ids[9:]
    with pytest.raises(grpc.RpcError) as failure:
        stream(several, request_to("one", sampling=sampling, continue_from=received))
    assert failure.value.code() is grpc.StatusCode.FAILED_PRECONDITION


def test_the_first_is_served_while_the_other_one_loads(model: Path, other: Path, tmp_path: Path) -> None:
    missing = ModelSetup(engine=engine_config(tmp_path), name="missing")
    with target_server(model, name="one", further=[missing], loads=False) as target:
        with pytest.raises(Exception, match=r"config\.json"):
            target.call(target.server.open())
        assert target.health() == "SERVING"
        assert len(stream(target, stream_request()).token_ids) == 24
        with pytest.raises(grpc.RpcError) as failure:
            stream(target, stream_request(model="missing"))
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        listed = target.stub.ListModels(generation_pb2.ListModelsRequest()).models
        assert [each.state for each in listed] == [generation_pb2.MODEL_STATE_READY, generation_pb2.MODEL_STATE_LOADING]
        assert [each.HasField("info") for each in listed] == [True, False]


def test_models_need_names_of_their_own(model: Path) -> None:
    for names, problem in ((("", "a"), "each needs a name then"), (("a", "a"), "model is 'a' more than once")):
        further = [ModelSetup(engine=engine_config(model), name=names[1])]
        with pytest.raises(ConfigError, match=problem), target_server(model, name=names[0], further=further):
            pass
