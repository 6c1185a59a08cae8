"""The life of the service as those outside see it: loading, serving, draining, failing."""

import asyncio
import logging
import shutil
import subprocess
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from outrider.v1.generation_pb2 import GetModelInfoRequest
from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from services.cli.health import Health, ask
from services.engine.config import ConfigError
from services.engine.files.checkpoint_error import CheckpointError
from services.service import rpc_server
from services.service.rpc_server import RpcServer
from services.service.server_config import ServerConfig
from services.target.openengine.contract import SERVICES as OPENENGINE
from services.target.server import SERVICE
from services.target.vllm_contract.contract import SERVICE as CONTRACT
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.health_watch import HealthWatch
from tests.rpc.harness.predictors import BrokenPredictor, GatePredictor
from tests.rpc.harness.requests import stream, stream_request


def test_health_follows_the_model(model: Path) -> None:
    with target_server(model, loads=False) as target:
        watch = HealthWatch(target.address)
        assert watch.next() == target.health("") == target.health() == "NOT_SERVING"
        for call in (lambda: stream(target, stream_request()), lambda: target.stub.GetModelInfo(GetModelInfoRequest())):
            with pytest.raises(grpc.RpcError) as failure:
                call()
            assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
            assert failure.value.details() == "the model is still loading: 0% of the weights are loaded"
        target.call(target.server.open())
        assert watch.next() == target.health("") == target.health() == "SERVING"
        assert len(stream(target, stream_request()).token_ids) == 24
        target.call(target.server.close())
        assert watch.next() == "NOT_SERVING"
        assert watch.next() == "UNAVAILABLE"
        watch.close()


def test_health_reports_the_loaded_share_until_all_is_loaded(model: Path) -> None:
    with target_server(model, loads=False) as target:
        assert ask(target.channel) == Health(health_pb2.HealthCheckResponse.NOT_SERVING, "0% of the weights are loaded")
        target.call(target.server.open())
        assert str(target.model.progress) == "100% of the weights are loaded"
        assert ask(target.channel) == Health(health_pb2.HealthCheckResponse.SERVING)


def test_health_lists_all_services_at_once(target: RunningTarget) -> None:
    told = health_pb2_grpc.HealthStub(target.channel).List(health_pb2.HealthListRequest()).statuses
    serving = health_pb2.HealthCheckResponse.SERVING
    services = ("", SERVICE, CONTRACT, *OPENENGINE)
    assert {name: each.status for name, each in told.items()} == dict.fromkeys(services, serving)


def test_reflection_names_the_services(target: RunningTarget) -> None:
    names = ProtoReflectionDescriptorDatabase(target.channel).get_services()
    assert {SERVICE, "grpc.health.v1.Health"} <= set(names)


def test_draining_lets_running_streams_end_and_takes_no_new_ones(model: Path) -> None:
    predictor = GatePredictor()
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=60)
    with target_server(model, predictor=predictor, server=config) as target:
        predictor.gate.clear()
        call = target.stub.StreamGenerate(stream_request())
        events = [next(call)]
        closed = target.begin(target.server.close())
        wait_until(lambda: target.health() == "NOT_SERVING")
        with pytest.raises(grpc.RpcError) as failure:
            stream(target, stream_request())
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        assert failure.value.details() == "the server is shutting down"
        assert not closed.done()
        predictor.gate.set()
        events.extend(call)
        assert sum(len(event.chunk.token_ids) for event in events) == 24
        assert events[-1].HasField("finished")
        closed.result(60)


def test_streams_that_outlast_the_drain_end_as_unavailable(model: Path) -> None:
    predictor = GatePredictor()
    with target_server(model, predictor=predictor) as target:
        blocks = target.engine.blocks
        predictor.gate.clear()
        call = target.stub.StreamGenerate(stream_request())
        next(call)
        closed = target.begin(target.server.close())
        with pytest.raises(grpc.RpcError) as failure:
            list(call)
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        predictor.gate.set()
        closed.result(60)
        assert blocks.num_free == blocks.num_blocks


def test_a_server_that_does_not_stop_holds_nothing_up(
    model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with target_server(model) as target:
        rpc = target.server._server
        assert isinstance(rpc, RpcServer)
        stop = rpc._server.stop

        async def never(_: float) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(rpc_server, "_STOP_SECONDS", 0.01)
        monkeypatch.setattr(rpc._server, "stop", never)
        target.call(target.server.close())
        assert "gRPC's server did not stop" in caplog.text
        target.call(stop(0))


def test_an_engine_that_fails_sends_its_streams_elsewhere(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    predictor = BrokenPredictor()
    with target_server(model, predictor=predictor) as target, caplog.at_level(logging.CRITICAL):
        failed = target.begin(target.server.wait_failed())
        assert len(stream(target, stream_request()).token_ids) == 24
        assert not failed.done()
        predictor.is_broken = True
        for _ in range(2):
            with pytest.raises(grpc.RpcError) as failure:
                stream(target, stream_request())
            assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
            assert failure.value.details() == "the engine has failed"
            failed.result(60)
        assert target.health() == "NOT_SERVING"


def test_a_model_that_cannot_be_loaded_is_never_served(model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "broken")
    (folder / "tokenizer.json").write_text("{}")
    with target_server(folder, loads=False) as target:
        with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
            target.call(target.server.open())
        assert target.health() == "NOT_SERVING"


def test_a_port_in_use_is_an_error(target: RunningTarget, model: Path) -> None:
    with (
        pytest.raises(ConfigError, match=f"cannot listen on {target.address}"),
        target_server(model, server=ServerConfig(listen=target.address)),
    ):
        pass


def test_tls(model: Path, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("NO OPENSSL: TLS IS NOT TESTED")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    config = ServerConfig(listen="localhost:0", drain_seconds=0, tls_certificate=certificate, tls_key=key)
    with target_server(model, server=config) as target:
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
        with grpc.secure_channel(target.address, credentials) as channel:
            assert GenerationServiceStub(channel).GetModelInfo(GetModelInfoRequest()).name == model.name


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tls_key": Path("key.pem")}, "only one of tls_certificate and tls_key"),
        ({"listen": "localhost"}, "it must be HOST:PORT"),
        ({"drain_seconds": -1}, "drain_seconds is -1"),
        ({"max_queue": -1}, "max_queue is -1"),
    ],
)
def test_settings_that_cannot_be_are_named(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ServerConfig(**fields)
