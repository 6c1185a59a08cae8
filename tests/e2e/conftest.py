"""Fixtures of the tests that link the demo target with drafts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outrider import Result
from tests.e2e.harness.draft_rig import DraftedTarget, MakeDraft, Service, serving
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.harness.network.free_port import free_port
from tests.harness.servers.few_processes import few_processes  # noqa: F401

_NUM_ADDRESSES = 16


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DraftedTarget]:
    """The demo target in a process of its own, with the address of a draft that is not running yet."""
    with _targets(tmp_path_factory.mktemp("target"), count=1) as (only,):
        yield only


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[DraftedTarget]]:
    """One more, which looks for drafts at many addresses: a bad one is not soon looked for where it was."""
    few = ("--kv-blocks", "1024")  # their memory, taken after the start, is little beside what a flood may cost
    with _targets(tmp_path_factory.mktemp("target"), *few, count=_NUM_ADDRESSES) as many:
        yield many


@pytest.fixture
def fresh_target(targets: list[DraftedTarget]) -> DraftedTarget:
    """It, with an address where there was no draft yet."""
    return targets.pop()


@contextmanager
def _targets(logs: Path, *options: str, count: int) -> Iterator[list[DraftedTarget]]:
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(count)]
    drafts = (option for address in addresses for option in ("--draft", address))
    service = Service("target", DEMO_TARGET, logs, *drafts, "--stream-capacity", "8", "--no-lookup", *options)
    with serving([service]):
        alone: dict[str, Result] = {}
        yield [DraftedTarget(service, address, alone) for address in addresses]


@pytest.fixture
def make_draft(target: DraftedTarget, tmp_path: Path) -> Iterator[MakeDraft]:
    """Drafts, not started yet: the near one is where the target looks for it."""
    made: list[Service] = []

    def make(*options: str, model: Path = DEMO_DRAFT, near: bool = True) -> Service:
        made.append(Service("draft", model, tmp_path, *options, address=target.draft_address if near else None))
        return made[-1]

    yield make
    for draft in made:
        draft.kill()
