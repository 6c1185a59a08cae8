"""Fixtures of the tests that link the demo target with drafts."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.draft_rig import DraftedTarget, MakeDraft, Service
from tests.e2e.models import DEMO_DRAFT, DEMO_TARGET
from tests.e2e.server_process import free_port


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DraftedTarget]:
    """The demo target in a process of its own, which looks for a draft at an address where there is none yet."""
    draft_address = f"127.0.0.1:{free_port()}"
    options = ("--draft", draft_address, "--stream-capacity", "8", "--no-lookup")
    service = Service("target", DEMO_TARGET, tmp_path_factory.mktemp("target"), *options)
    service.start()
    try:
        asyncio.run(service.logs("serving target"))
        yield DraftedTarget(service, draft_address)
    finally:
        service.kill()


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
