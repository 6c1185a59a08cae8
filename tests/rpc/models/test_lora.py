"""Adapters by RPC: a request gets one by either name, with its fingerprint, and is refused another one's."""

import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

import outrider
from services.engine.config import ConfigError
from services.engine.files.checkpoint_error import CheckpointError
from services.target.models.models_metrics import ModelsMetrics
from tests.harness.models.lora_folders import write_adapter
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.requests import stream, stream_request, violations

TEXT = "one two three"


@pytest.fixture(scope="module")
def loras(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    path = tmp_path_factory.mktemp("loras")
    return {name: write_adapter(path / name, model, seed=seed) for seed, name in enumerate(("a", "b"))}


@pytest.fixture(scope="module")
def adapted(model: Path, loras: dict[str, Path]) -> Iterator[RunningTarget]:
    """A target with two adapters."""
    with target_server(model, name="base", loras=loras) as running:
        yield running
        running.assert_all_free()


def test_adapters_are_listed_each_with_its_own_fingerprint(adapted: RunningTarget, model: Path) -> None:
    with outrider.Client(adapted.address) as client:
        info = client.model_info()
        assert [lora.name for lora in info.loras] == ["a", "b"]
        assert len({info.fingerprint, *(lora.fingerprint for lora in info.loras)}) == 3
        for lora in info.loras:
            asked = client.generate(TEXT, lora=lora.name, seed=1, max_tokens=8)
            same = client.generate(TEXT, model=lora.name, seed=1, max_tokens=8)
            assert (asked.started.model, asked.started.fingerprint) == (lora.name, lora.fingerprint)
            assert asked.token_ids == same.token_ids
    with target_server(model, name="base") as plain, outrider.Client(plain.address) as client:
        assert client.model_info().fingerprint == info.fingerprint
        assert client.model_info().loras == ()


def test_scores_and_embeddings_are_by_the_adapter_too(adapted: RunningTarget) -> None:
    with outrider.Client(adapted.address) as client:
        scores = {name: client.score(TEXT, [" four"], lora=name) for name in (None, "a", "b")}
        vectors = {name: client.embed([TEXT], lora=name) for name in (None, "a", "b")}
    assert len({each.scores[0].token_logprobs for each in scores.values()}) == 3
    assert len({tuple(each.embeddings[0].values) for each in vectors.values()}) == 3


@pytest.mark.parametrize("held_by", ["base", "a"])
def test_an_answer_in_a_session_uses_its_own_adapter(adapted: RunningTarget, held_by: str) -> None:
    with outrider.Client(adapted.address) as client, client.session(TEXT * 20, model=held_by) as held:
        behind, alone = (
            [client.generate(prompt, session=session, lora=lora, seed=3, max_tokens=8) for lora in (None, "a", "b")]
            for prompt, session in (([], held.name), (held.token_ids, None))
        )
    assert [each.token_ids for each in behind] == [each.token_ids for each in alone]
    assert len({each.token_ids for each in alone}) == 3
    assert held.num_blocks > 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"lora": "c"}, "'c' is not loaded; allowed: 'a', 'b'"),
        ({"lora": "c" * 999}, f"'{'c' * 64}' is not loaded; allowed: 'a', 'b'"),
        ({"model": "a", "lora": "b"}, "is 'b'; allowed: 'a', as model says"),
    ],
)
def test_an_unknown_adapter_is_refused_with_the_known_names(adapted: RunningTarget, fields: dict, said: str) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        stream(adapted, stream_request(**fields))
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert violations(failure.value) == {"lora": said}


def test_a_continuation_needs_the_same_adapter(adapted: RunningTarget) -> None:
    whole = stream(adapted, stream_request(lora="a", sampling={"seed": 4}))
    received = {"fingerprint": whole.started.fingerprint, "token_ids": whole.token_ids[:5]}
    rest = stream(adapted, stream_request(lora="a", sampling={"seed": 4}, continue_from=received))
    assert rest.token_ids == whole.token_ids[5:]
    for other in ({"lora": "b"}, {}):
        with pytest.raises(grpc.RpcError) as failure:
            stream(adapted, stream_request(**other, sampling={"seed": 4}, continue_from=received))
        assert failure.value.code() is grpc.StatusCode.FAILED_PRECONDITION


def gauge_of(target: RunningTarget, name: str) -> list[Sample]:
    """A gauge's values with their labels."""
    families: list[Metric] = [*ModelsMetrics(target.server.models, prefix="outrider").collect()]
    (gauge,) = (family for family in families if family.name == f"outrider:{name}")
    return gauge.samples


def lora_requests(target: RunningTarget) -> dict[str, float]:
    """The gauge's value for each adapter."""
    return {sample.labels["lora"]: sample.value for sample in gauge_of(target, "lora_requests")}


def lora_states(target: RunningTarget) -> tuple[str, ...]:
    """What endpoint pickers read: how many adapters may run, and the names of those that run and that wait."""
    (sample,) = gauge_of(target, "lora_requests_info")
    assert 0 <= time.time() - sample.value < 3600
    return tuple(sample.labels[name] for name in ("max_lora", "running_lora_adapters", "waiting_lora_adapters"))


def test_the_gauge_says_which_adapters_run(adapted: RunningTarget) -> None:
    request = stream_request(lora="b", stop={"max_tokens": 200})
    responses = adapted.stub.StreamGenerate(request, timeout=60)
    assert next(responses).HasField("started")
    assert lora_requests(adapted) == {"a": 0, "b": 1}
    assert lora_states(adapted) == ("2", "b", "")
    responses.cancel()
    adapted.assert_all_free()
    assert lora_states(adapted) == ("2", "", "")


def test_two_adapters_of_one_name_are_refused(model: Path, loras: dict[str, Path]) -> None:
    with (
        pytest.raises(ConfigError, match="lora is 'a', which is the name of a model or of another adapter"),
        target_server(model, name="a", loras=loras),
    ):
        pass


def test_a_folder_without_an_adapter_is_named(model: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(CheckpointError, match=r"adapter_config\.json: no such file"),
        target_server(model, loras={"a": tmp_path}),
    ):
        pass
