"""What the tests of the target service share: one server on a small random model."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.target.api import servicer
from services.target.prompt import chat_template
from tests.harness.models.checkpoints import Kind, random_checkpoint
from tests.harness.servers.few_processes import few_processes  # noqa: F401
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.draft_link import PROMPT, Link, RunningDraft, hello_of
from tests.rpc.harness.ends_by_time import MARGIN


@pytest.fixture(scope="session")
def model() -> Path:
    """The folder of a small random Llama."""
    return random_checkpoint(Kind.LLAMA)


@pytest.fixture(scope="session")
def other() -> Path:
    """The folder of a model of another family and vocabulary."""
    return random_checkpoint(Kind.QWEN3)


@pytest.fixture(scope="session")
def shared_target(model: Path) -> Iterator[RunningTarget]:
    """One server for all tests that leave it as they found it."""
    with target_server(model) as running:
        yield running


@pytest.fixture
def target(shared_target: RunningTarget) -> Iterator[RunningTarget]:
    """The shared server; after the test no sequence and no KV block is left in it."""
    yield shared_target
    shared_target.assert_all_free()


@pytest.fixture
def wide_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generations end so long before their calls that the last messages arrive, however slow the machine is."""
    monkeypatch.setattr(servicer, "_MARGIN_SECONDS", MARGIN)
    monkeypatch.setattr(servicer, "_MARGIN_FRACTION", 1.0)


@pytest.fixture
def templates_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a second of the processor may last longer than ten on the clock."""
    monkeypatch.setattr(chat_template, "_LIMITS", replace(chat_template._LIMITS, seconds=3600.0))


@pytest.fixture(scope="module")
def by_token(model: Path) -> Iterator[RunningTarget]:
    """A server that sends every token, as soon as it is safe, in a chunk of its own."""
    with target_server(model, stream_capacity=1) as running:
        yield running
        running.assert_all_free()


@pytest.fixture(scope="module")
def shared_draft(model: Path) -> Iterator[RunningDraft]:
    running = RunningDraft(model)
    yield running
    running.close()


@pytest.fixture
def draft(shared_draft: RunningDraft) -> Iterator[RunningDraft]:
    """The shared service; after the test it holds no KV block, and it still predicts."""
    yield shared_draft
    shared_draft.assert_all_free()
    link = Link(shared_draft, **hello_of(shared_draft))
    link.next()
    link.begin(PROMPT, 2)
    link.predictions(2, position=len(PROMPT))
    link.close()
    shared_draft.assert_all_free()


@pytest.fixture
def link(draft: RunningDraft) -> Iterator[Link]:
    """A link after its hellos."""
    opened = Link(draft, **hello_of(draft))
    opened.next()
    yield opened
    opened.close()
