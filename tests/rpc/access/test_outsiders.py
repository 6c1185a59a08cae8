"""A caller without credentials sees health and nothing else, on both ports, whatever methods there are."""

import contextlib
import importlib
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2
from smg_grpc_proto.generated import vllm_engine_pb2

from outrider import Client, Unavailable
from services.service.access.caller import Scope
from services.service.access.tokens import new_token
from services.service.server_config import ServerConfig
from services.target.openengine.contract import CONTROL, INFERENCE
from tests.harness.network.certificate_authority import CertificateAuthority
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.access.conftest import tls_config
from tests.rpc.harness.draft_link import RunningDraft

PROTOS = Path(__file__).parents[3] / "protos/outrider/v1"
HEALTH, REFLECTION = (
    file.DESCRIPTOR.services_by_name[name]
    for file, name in ((health_pb2, "Health"), (reflection_pb2, "ServerReflection"))
)
OURS = [
    service
    for path in sorted(PROTOS.glob("*.proto"))
    for service in importlib.import_module(f"outrider.v1.{path.stem}_pb2").DESCRIPTOR.services_by_name.values()
]
CONTRACT = vllm_engine_pb2.DESCRIPTOR.services_by_name["VllmEngine"]
HEALTHS = [f"/{CONTRACT.full_name}/HealthCheck", f"/{CONTROL.full_name}/Health"]
OPENENGINE = (INFERENCE.full_name, CONTROL.full_name)
GENERATING = ("outrider.v1.GenerationService", "outrider.v1.DraftService", CONTRACT.full_name, *OPENENGINE)
SERVICES = (*OURS, CONTRACT, INFERENCE, CONTROL, REFLECTION)
EVERY = [f"/{service.full_name}/{method.name}" for service in SERVICES for method in service.methods]
METHODS = [method for method in EVERY if method not in HEALTHS]
UNKNOWN = ["/outrider.v1.GenerationService/Secret", "/outrider.v1.Nothing/There", "/", "/grpc.channelz.v1.Channelz/Get"]
KEPT_OUT = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
TELLS_PROMPTS = [f"/{each.full_name}/SubscribeKvEvents" for each in (CONTRACT, CONTROL)]  # need a scope of their own
CHANGES_MODELS = [f"/{CONTROL.full_name}/{name}" for name in ("LoadLora", "UnloadLora", "ListLoras")]


class Tokens:
    """A file of tokens, one for each set of scopes."""

    def __init__(self, folder: Path) -> None:
        sets = {"generate": [Scope.GENERATE], "admin": [Scope.ADMIN], "all": [*Scope]}
        made = {name: new_token(name, scopes) for name, scopes in sets.items()}
        self.path = folder / "tokens"
        self.path.write_text("".join(f"{line}\n" for _, line in made.values()))
        self.metadata = {name: (("authorization", f"Bearer {token}"),) for name, (token, _) in made.items()}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    return Tokens(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module", params=["target", "target's admin", "draft", "draft's admin"])
def channel(request: pytest.FixtureRequest, model: Path, tokens: Tokens) -> Iterator[grpc.Channel]:
    """A port of a service that needs tokens."""
    local, service = "127.0.0.1:0", request.param
    config = ServerConfig(listen=local, admin_listen=local, drain_seconds=0, tokens_file=tokens.path)
    with contextlib.ExitStack() as stack:
        if service.startswith("target"):
            running: RunningTarget | RunningDraft = stack.enter_context(target_server(model, server=config))
        else:
            running = RunningDraft(model, server=config)
            stack.callback(running.close)
        address = running.server.admin.address if service.endswith("admin") else running.address
        yield stack.enter_context(grpc.insecure_channel(address))


def code_of(channel: grpc.Channel, method: str, metadata: tuple[tuple[str, str], ...] | None) -> grpc.StatusCode:
    """How a call ends that sends one empty message, of whichever kind the method is."""
    call = channel.stream_stream(method)(iter([b""]), metadata=metadata, timeout=60)
    try:
        for _ in call:
            pass
    except grpc.RpcError:
        pass
    return call.code()


@pytest.mark.parametrize("shown", [None, (("authorization", "Bearer guessed"),), (("authorization", "Basic x"),)])
def test_no_method_answers_an_outsider_but_health(channel: grpc.Channel, shown: tuple[tuple[str, str], ...]) -> None:
    assert {code_of(channel, method, shown) for method in METHODS + UNKNOWN} == {grpc.StatusCode.UNAUTHENTICATED}
    for method in (each.name for each in HEALTH.methods):
        call = channel.stream_stream(f"/{HEALTH.full_name}/{method}")(iter([b""]), metadata=shown, timeout=60)
        assert next(call) is not None
        call.cancel()


@pytest.mark.parametrize("shown", [None, (("authorization", "Bearer guessed"),)])
def test_routers_ask_the_health_of_their_contracts(
    model: Path, tokens: Tokens, shown: tuple[tuple[str, str], ...] | None
) -> None:
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=tokens.path)
    with target_server(model, server=config, loads=False) as target:
        for method in HEALTHS:
            assert code_of(target.channel, method, shown) is grpc.StatusCode.OK
            assert code_of(target.channel, f"{method}s", shown) is grpc.StatusCode.UNAUTHENTICATED


def served(channel: grpc.Channel, tokens: Tokens) -> set[str]:
    """The services of a port, as reflection lists them for a token."""
    ask = reflection_pb2.ServerReflectionRequest(list_services="")
    call = channel.stream_stream(f"/{reflection.SERVICE_NAME}/ServerReflectionInfo")
    answers = call(iter([ask.SerializeToString()]), metadata=tokens.metadata["generate"], timeout=60)
    listed = reflection_pb2.ServerReflectionResponse.FromString(next(answers)).list_services_response.service
    answers.cancel()
    return {service.name for service in listed}


def test_a_method_needs_the_scope_of_its_service(channel: grpc.Channel, tokens: Tokens) -> None:
    """Reflection needs any token; a service that is not known to generate is one for administrators."""
    there = served(channel, tokens)
    for method in METHODS:
        if (service := method.split("/")[1]) in there:
            needs = {"generate"} if service in GENERATING else {"admin"}
            needs = {"generate", "admin"} if service == reflection.SERVICE_NAME else needs
            needs = set() if method in TELLS_PROMPTS else {"admin"} if method in CHANGES_MODELS else needs
            for name, metadata in tokens.metadata.items():
                is_kept_out = code_of(channel, method, metadata) in KEPT_OUT
                assert is_kept_out == (name not in {*needs, "all"}), (method, name)


def test_a_token_holder_gets_unimplemented_for_unknown_methods(channel: grpc.Channel, tokens: Tokens) -> None:
    there = served(channel, tokens)
    absent = [method for method in METHODS if method.split("/")[1] not in there] + UNKNOWN
    for metadata in tokens.metadata.values():
        assert {code_of(channel, method, metadata) for method in absent} == {grpc.StatusCode.UNIMPLEMENTED}


def test_every_method_that_a_server_has_is_scanned(channel: grpc.Channel, tokens: Tokens) -> None:
    """Reflection lists exactly the methods of the scan."""
    there = served(channel, tokens)
    assert there <= {method.split("/")[1] for method in METHODS} | {HEALTH.full_name}
    assert len(there) >= 3


def test_client_certificates_hide_everything_from_an_outsider(model: Path, authority: CertificateAuthority) -> None:
    config = tls_config(authority.issue(), tls_client_ca=authority.path)
    with target_server(model, server=config, loads=False) as target:
        credentials = grpc.ssl_channel_credentials(authority.pem)
        with grpc.secure_channel(target.address, credentials) as channel:
            for method in (*METHODS, f"/{HEALTH.full_name}/Check"):
                assert code_of(channel, method, None) is grpc.StatusCode.UNAVAILABLE
        with Client(target.address, max_retries=0) as client, pytest.raises(Unavailable):
            client.model_info()
