"""Fixtures of the tests that run what `deploy` holds."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.deploy.envoy import Envoy, binary
from tests.e2e.harness.draft_rig import Service, serving
from tests.e2e.harness.models import DEMO_TARGET


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Service]]:
    """Two replicas of the demo target."""
    options = ("--stream-capacity", "8", "--kv-blocks", "256", "--drain-seconds", "0")
    services = [Service("target", DEMO_TARGET, tmp_path_factory.mktemp("target"), *options) for _ in range(2)]
    with serving(services):
        yield services


@pytest.fixture(scope="session")
def installed_envoy() -> None:
    """Skips the test where there is none, before anything else is started: fixtures of a session come first."""
    if binary() is None:
        pytest.skip("ENVOY IS NOT INSTALLED (make deploy-test INSTALLS IT): NOTHING OF deploy/envoy IS RUN")


@pytest.fixture
async def envoy(installed_envoy: None, targets: list[Service], tmp_path: Path) -> AsyncIterator[Envoy]:
    """The proxy before both, running."""
    proxy = Envoy(tmp_path, [service.address for service in targets])
    await proxy.start()
    yield proxy
    proxy.kill()
