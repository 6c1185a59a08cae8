"""What the gateway's tests share: the demo pair, and a gateway in front of it."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.network.certificate_authority import CertificateAuthority
from tests.harness.servers.few_processes import few_processes  # noqa: F401
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import drafted_target


@pytest.fixture(scope="package", autouse=True)
def _one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each new HTTP client loads all authorities of the environment, which takes longer than its request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(CertificateAuthority(tmp_path_factory.mktemp("authority")).path))
        yield


@pytest.fixture(scope="session")
def model() -> Path:
    """The folder of a small random Llama, which has a chat template."""
    return random_checkpoint(Kind.LLAMA)


@pytest.fixture(scope="session")
def demo() -> Iterator[RunningTarget]:
    """The demo target with its draft."""
    with drafted_target(DEMO_TARGET, DEMO_DRAFT, kv_blocks=256, stream_capacity=8, lookup=True) as running:
        yield running


@pytest.fixture(scope="session")
def shared_gateway(demo: RunningTarget) -> Iterator[RunningGateway]:
    """A gateway in front of it."""
    with RunningGateway(demo.address) as running:
        yield running


@pytest.fixture
def gateway(shared_gateway: RunningGateway, demo: RunningTarget) -> Iterator[RunningGateway]:
    """It; after the test the target holds nothing any more."""
    yield shared_gateway
    demo.assert_all_free()


@pytest.fixture(scope="session")
def talker(model: Path) -> Iterator[RunningTarget]:
    """A target that knows conversations, calls of tools, and thoughts."""
    with target_server(model, parsers={"reasoning_parser": "think"}, stream_capacity=4, kv_blocks=128) as running:
        yield running


@pytest.fixture(scope="session")
def shared_chat_gateway(talker: RunningTarget) -> Iterator[RunningGateway]:
    """A gateway in front of it."""
    with RunningGateway(talker.address) as running:
        yield running


@pytest.fixture
def chat_gateway(shared_chat_gateway: RunningGateway, talker: RunningTarget) -> Iterator[RunningGateway]:
    """It; after the test the target holds nothing any more."""
    yield shared_chat_gateway
    talker.assert_all_free()


@pytest.fixture
def chat_client(chat_gateway: RunningGateway) -> Iterator[openai.OpenAI]:
    """OpenAI's own client of it."""
    with openai.OpenAI(base_url=f"{chat_gateway.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[openai.OpenAI]:
    """OpenAI's own client of the gateway."""
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client
