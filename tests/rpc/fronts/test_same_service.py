"""Whichever front a client is connected to, it gets what one process gives: answers, refusals, limits, access."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from smg_grpc_proto.generated import vllm_engine_pb2, vllm_engine_pb2_grpc

from outrider.servers.channel import ADMITTED
from outrider.v1 import admin_pb2, common_pb2, generation_pb2
from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from services.engine.config import ConfigError
from services.service.access.caller import Scope
from services.service.access.tokens import new_token
from services.service.server_config import ServerConfig
from services.target.openengine.contract import SERVICES as OPENENGINE
from services.target.server import SERVICE
from tests.harness.network.certificate_authority import CertificateAuthority
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.access.conftest import tls_config
from tests.rpc.fronts.conftest import channels_of, fronts_of
from tests.rpc.harness.administered import admin_of
from tests.rpc.harness.ends_by_time import MARGIN
from tests.rpc.harness.requests import detail, stream, stream_request, violations

LONG = {"max_tokens": 1900, "ignore_eos": True}
NARROW = ("grpc.http2.bdp_probe", 0)

Stubs = list[GenerationServiceStub]


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path)


def ids_of(stub: GenerationServiceStub, request: generation_pb2.StreamGenerateRequest, **call: Any) -> list[int]:
    """The tokens of a whole answer."""
    return [each for event in stub.StreamGenerate(request, timeout=60, **call) for each in event.chunk.token_ids]


def test_each_front_gives_the_bytes_of_one_process(target: RunningTarget, stubs: Stubs) -> None:
    expected = stream(target, stream_request())
    for stub in stubs:
        call = stub.StreamGenerate(stream_request(), timeout=60)
        assert (ADMITTED, "1") in call.initial_metadata()
        events = list(call)
        assert [each for event in events for each in event.chunk.token_ids] == expected.token_ids
        assert "".join(event.chunk.text for event in events) + events[-1].finished.text == expected.text


def test_calls_of_both_kinds_of_answers_pass(target: RunningTarget, stubs: Stubs) -> None:
    asked = generation_pb2.TokenizeRequest(text="import os")
    expected = target.stub.Tokenize(asked, timeout=60)
    assert [stub.Tokenize(asked, timeout=60) for stub in stubs] == [expected, expected]
    large = generation_pb2.TokenizeRequest(text="import os\n" * 10_000)  # is parsed on a thread
    for stub in (target.stub, *stubs):
        with pytest.raises(grpc.RpcError) as refused:
            stub.Tokenize(large, timeout=60)
        assert "text" in violations(refused.value)


def test_what_one_front_has_begun_another_one_knows(stubs: Stubs) -> None:
    ids = [*range(30, 100)]
    stubs[0].CreateSession(
        generation_pb2.CreateSessionRequest(name="kept", prompt={"token_ids": {"ids": ids}}), timeout=60
    )
    assert ids_of(stubs[0], stream_request({"text": ""}, session="kept")) == ids_of(stubs[1], stream_request(ids))
    with pytest.raises(grpc.RpcError, match="kept"):
        stubs[1].CreateSession(
            generation_pb2.CreateSessionRequest(name="kept", prompt={"token_ids": {"ids": ids}}), timeout=60
        )
    stubs[1].DeleteSession(generation_pb2.DeleteSessionRequest(name="kept"), timeout=60)


def test_refusals_come_with_their_details(fronted: RunningTarget) -> None:
    with ExitStack() as stack:
        for channel in channels_of(fronted, stack):
            with pytest.raises(grpc.RpcError) as refused:
                ids_of(GenerationServiceStub(channel), stream_request(sampling={"temperature": -1}))
            assert "sampling.temperature" in violations(refused.value)
            for name in ("StreamGenerate", "Tokenize"):
                without = channel.stream_stream(f"/{SERVICE}/{name}")(iter([]), timeout=60)
                assert without.code() is grpc.StatusCode.INVALID_ARGUMENT
                assert "missing" in without.details()


def test_a_cancelled_call_frees_its_blocks(fronted: RunningTarget, stubs: Stubs) -> None:
    for stub in stubs:
        call = stub.StreamGenerate(stream_request(stop=LONG))
        next(call)
        call.cancel()
    fronted.assert_all_free()


@pytest.mark.usefixtures("wide_margin")
def test_a_deadline_ends_a_stream_in_time(stubs: Stubs) -> None:
    for stub in stubs:
        events = list(stub.StreamGenerate(stream_request(stop=LONG), timeout=MARGIN))
        assert events[-1].finished.reason == common_pb2.FINISH_REASON_DEADLINE


def test_both_know_what_services_there_are(fronted: RunningTarget) -> None:
    services = {SERVICE, vllm_engine_pb2.DESCRIPTOR.services_by_name["VllmEngine"].full_name, *OPENENGINE}
    asked = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        *(reflection_pb2.ServerReflectionRequest(file_containing_symbol=name) for name in services),
    ]
    with ExitStack() as stack:
        for channel in channels_of(fronted, stack):
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            listed, *described = stub.ServerReflectionInfo(iter(asked), timeout=60)
            assert services < {service.name for service in listed.list_services_response.service}
            assert all(each.file_descriptor_response.file_descriptor_proto for each in described)


def test_one_caller_is_the_same_at_each_front(model: Path, tmp_path: Path) -> None:
    token, line = new_token("alice", [Scope.GENERATE])
    (tmp_path / "tokens").write_text(line)
    shown = (("authorization", f"Bearer {token}"),)
    config = ServerConfig(
        listen="127.0.0.1:0", drain_seconds=0, max_streams_per_caller=3, tokens_file=tmp_path / "tokens"
    )
    with ExitStack() as stack:
        target = stack.enter_context(target_server(model, server=config, fronts=2))
        channels = channels_of(target, stack, NARROW)
        unread = stream_request(stop=LONG, output={"top_candidates": 20})
        both = [GenerationServiceStub(channel) for channel in channels]
        calls = [stub.StreamGenerate(unread, metadata=shown) for stub in both * 4]
        wait_until(lambda: sum(call.done() for call in calls) == 5)
        assert target.model.admissions.streams.total == 3
        refused = [call for call in calls if call.done()]
        assert {call.code() for call in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert all(detail(call, error_details_pb2.RetryInfo).retry_delay.ToMilliseconds() for call in refused)
        for call in calls:
            call.cancel()
        for channel in channels:
            with pytest.raises(grpc.RpcError, match="a token is needed"):
                ids_of(GenerationServiceStub(channel), stream_request())
        target.assert_all_free()
        contract = [vllm_engine_pb2_grpc.VllmEngineStub(channel) for channel in channels]
        request = vllm_engine_pb2.GenerateRequest(request_id="a", text="import", stream=True)
        request.sampling_params.max_tokens, request.sampling_params.ignore_eos = 1900, True
        request.sampling_params.logprobs = (
            20  # more than can be on its way: it waits for its reader, and is not at its end
        )
        answer = contract[0].Generate(request, metadata=shown, timeout=60)
        next(answer)
        contract[1].Abort(vllm_engine_pb2.AbortRequest(request_ids=["a"]), metadata=shown, timeout=60)
        assert [*answer][-1].complete.finish_reason == "abort"


def test_a_caller_is_known_by_its_certificate(model: Path, authority: CertificateAuthority) -> None:
    config = tls_config(authority.issue(), tls_client_ca=authority.path)
    held = {"name": "kept", "prompt": {"token_ids": {"ids": [*range(30, 100)]}}}
    with target_server(model, server=config, fronts=2) as target:

        def stub_of(name: str) -> GenerationServiceStub:
            files = authority.issue(name)
            credentials = grpc.ssl_channel_credentials(
                authority.pem, files.key.read_bytes(), files.certificate.read_bytes()
            )
            return GenerationServiceStub(grpc.secure_channel(target.address, credentials))

        alice, bob = stub_of("alice"), stub_of("bob")
        alice.CreateSession(generation_pb2.CreateSessionRequest(**held), timeout=60)
        with pytest.raises(grpc.RpcError) as refused:
            bob.GetSession(generation_pb2.GetSessionRequest(name="kept"), timeout=60)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        alice.DeleteSession(generation_pb2.DeleteSessionRequest(name="kept"), timeout=60)


def test_a_reader_that_takes_nothing_is_cut_off(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, reader_timeout=0.5)
    with ExitStack() as stack:
        target = stack.enter_context(target_server(model, server=config, fronts=2, stream_capacity=4))
        narrow = channels_of(target, stack, NARROW, ("grpc.http2.lookahead_bytes", 1024))
        unread = stream_request(stop=LONG, output={"top_candidates": 20})
        calls = [GenerationServiceStub(channel).StreamGenerate(unread) for channel in narrow]
        wait_until(lambda: caplog.text.count("took nothing for 0.5 s") == len(calls))
        for call in calls:
            with pytest.raises(grpc.RpcError, match=r"has not been read for 0\.5 s"):
                list(call)
        target.assert_all_free()


def test_administration_is_of_all_processes(model: Path) -> None:
    config = ServerConfig(listen="127.0.0.1:0", admin_listen="127.0.0.1:0", drain_seconds=0)
    with (
        target_server(model, server=config, fronts=2) as target,
        admin_of(target.server.admin.address) as admin,
        ExitStack() as stack,
    ):
        for channel in channels_of(target, stack):
            ids_of(GenerationServiceStub(channel), stream_request())
        counted = 'outrider:calls_total{code="OK",method="StreamGenerate"} 2.0'
        wait_until(lambda: counted in admin.GetMetrics(admin_pb2.GetMetricsRequest(), timeout=60).page.splitlines())
        own = float(Path("/proc/self/statm").read_text().split()[1]) * 4096
        (line,) = (
            line
            for line in admin.GetMetrics(admin_pb2.GetMetricsRequest(), timeout=60).page.splitlines()
            if line.startswith("process_resident_memory_bytes ")
        )
        assert float(line.split()[1]) > own + len(fronts_of(target)) * 10_000_000


@pytest.mark.parametrize("listen", ["127.0.0.1:{port}", "localhost:{port}"])
def test_a_port_has_one_service_only(fronted: RunningTarget, model: Path, listen: str) -> None:
    taken = listen.format(port=fronted.address.rpartition(":")[2])
    for fronts in (0, 2):
        with (
            pytest.raises(ConfigError, match="the address is in use"),
            target_server(model, server=ServerConfig(listen=taken), fronts=fronts),
        ):
            pass
