"""The page in front of models: one seed, one text, whatever happens to the draft, the target or the connection."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from outrider import Client
from services.gateway import endpoint
from services.gateway.web.event_response import encode_event
from services.service.server_config import ServerConfig
from services.target.generation.step import TargetStep
from services.target.sequence.sequence import Sequence
from tests.e2e.harness.draft_rig import Service, serving
from tests.e2e.harness.models import DEMO_TARGET
from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.shown_page import ShownPage
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.draft_link import drafted_target

Show = Callable[..., ShownPage]
PROMPT = "def read(self, path):"
SAMPLED = {"seed": "9", "temperature": "0.9"}
HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script> naïve 😀 字'
_STEP_SECONDS = 0.05  # in which a draft may predict
_HELD_AT = 40  # tokens, with which a text waits for the browser, however slow that is
_PATIENCE_SECONDS = 30.0
KEY = "key-of-alice-0123456789"


def said(gateway: RunningGateway, **options: object) -> str:
    """The text of the RPC, without any predictions."""
    with gateway.rpc() as client:
        return client.generate(PROMPT, seed=9, temperature=0.9, speculation="never", **options).text  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def shown(shared_gateway: RunningGateway, browser: Browser) -> Iterator[ShownPage]:
    """The page in front of the demo pair; each test fills in all that it needs."""
    context = browser.new_context()
    page = ShownPage(context, shared_gateway.url)
    page.open()
    yield page
    page.check()
    context.close()


def test_side_by_side_are_the_same_bytes(gateway: RunningGateway, shown: ShownPage, monkeypatch: pytest.MonkeyPatch):
    sent: list[tuple[str, Any]] = []

    def encode(data: Any, *, name: str, event_id: str) -> bytes:
        sent.append((name, data))
        return encode_event(data, name=name, event_id=event_id)

    monkeypatch.setattr(endpoint, "encode_event", encode)
    itself = r"(self\.path = path\n){40}"  # a text that predicts itself, however late a draft is
    always = {"speculation": "always", "num_predictions": "4"}
    shown.fill(**SAMPLED, **always, max_tokens="60", grammar="regex", grammar_text=itself)
    shown.tab.fill("#prompt", PROMPT)
    shown.tab.click("#compare")
    texts = [shown.answer(), shown.tab.locator(".text").first.text_content()]
    assert texts == [said(gateway, max_tokens=60, regex=itself)] * 2
    assert "the same bytes. 60 tokens" in (shown.tab.text_content(".result") or "")
    records = [record for name, data in sent if name == "chunk" for record in data["tokens"]]
    kinds = [*shown.kinds(0), *shown.kinds(1)]
    assert [kind == "own" for kind in kinds] == [not record["predicted"] for record in records]
    assert [kind == "lookup" for kind in kinds] == [record["prediction_source"] == "lookup" for record in records]
    assert {*shown.kinds(0)} == {"own"} < {*shown.kinds(1)}


def test_a_continued_answer_has_the_bytes_of_an_uncut_one(gateway: RunningGateway, shown: ShownPage):
    shown.fill(**SAMPLED, speculation="auto", max_tokens="20", grammar="")
    shown.tab.locator("[name=ignore_eos]").check()
    shown.ask(PROMPT)
    shown.tab.click("text=Continue")
    assert shown.answer() == said(gateway, max_tokens=40, ignore_eos=True)


@pytest.mark.usefixtures("gateway")
def test_a_models_text_is_no_markup(shown: ShownPage):
    shown.fill(**SAMPLED, max_tokens="200", grammar="choice", grammar_text=HOSTILE)
    assert shown.ask(PROMPT) == HOSTILE
    shown.tab.locator(".token").nth(3).click()
    assert shown.tab.locator("img, .text script").count() == 0


@contextmanager
def in_another_thread(context: AbstractContextManager[None]) -> Iterator[None]:
    """A context that runs an event loop, which Playwright does in this thread."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(context.__enter__).result()
        try:
            yield
        finally:
            pool.submit(context.__exit__, None, None, None).result()


def test_a_killed_target_is_not_noticed(
    demo: RunningTarget, tmp_path: Path, show: Show, monkeypatch: pytest.MonkeyPatch
):
    first = Service("target", DEMO_TARGET, tmp_path, "--stream-capacity", "4")
    events, paused = count(), threading.Event()

    def encode(data: Any, *, name: str, event_id: str) -> bytes:
        if next(events) == 2:
            first.pause()  # else it may be through before it is killed
            paused.set()
        return encode_event(data, name=name, event_id=event_id)

    monkeypatch.setattr(endpoint, "encode_event", encode)
    with in_another_thread(serving([first])), RunningGateway(first.address, demo.address) as gateway:
        shown = show(gateway.url)
        shown.open()
        shown.fill(**SAMPLED, max_tokens="120", speculation="never")
        shown.tab.locator("[name=ignore_eos]").check()
        shown.begin(PROMPT)
        shown.tab.locator(".token").first.wait_for(state="attached")
        assert paused.wait(_PATIENCE_SECONDS)
        first.kill()
        text = shown.answer()
        assert "resumed 1 ×" in (shown.tab.text_content("#status") or "")
    with Client(demo.address) as client:
        assert client.generate(PROMPT, seed=9, temperature=0.9, max_tokens=120, ignore_eos=True).text == text


@pytest.fixture
def may_hurry(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While this is clear, targets take their time for each step, and go no further once a draft was right."""
    step, event = TargetStep.step, threading.Event()
    event.set()

    def is_far(sequence: Sequence) -> bool:
        return sequence.num_generated >= _HELD_AT and any(sequence.speculation.accepted)

    def held_step(self: TargetStep) -> bool:
        if not event.wait(_STEP_SECONDS) and any(map(is_far, self._scheduler.sequences)):
            return True  # and the engine's loop goes on
        return step(self)

    monkeypatch.setattr(TargetStep, "step", held_step)
    return event


@pytest.fixture
def switchable(may_hurry: threading.Event) -> Iterator[tuple[RunningTarget, RunningGateway]]:
    """A target whose draft may be taken away."""
    config = ServerConfig(listen="127.0.0.1:0", admin_listen="127.0.0.1:0", drain_seconds=0)
    with drafted_target(DEMO_TARGET, DEMO_TARGET, server=config, kv_blocks=128) as target:
        admin = target.server.admin.address
        with RunningGateway(target.address, demo_controls=admin) as gateway:
            yield target, gateway


def test_the_draft_is_cut_off_while_the_text_goes_on(
    switchable: tuple[RunningTarget, RunningGateway], may_hurry: threading.Event, show: Show
):
    target, gateway = switchable
    shown = show(gateway.url)
    shown.open()
    shown.fill(**SAMPLED, max_tokens="110", speculation="always", num_predictions="4")
    shown.tab.locator("[name=ignore_eos]").check()
    may_hurry.clear()
    shown.begin(PROMPT)
    shown.tab.locator(".token.draft").first.wait_for(state="attached")
    shown.tab.click("text=Disconnect the draft")
    shown.tab.wait_for_selector("#model:has-text('no draft')")
    may_hurry.set()
    text = shown.answer()
    assert text == said(gateway, max_tokens=110, ignore_eos=True)
    assert {*shown.kinds()[-50:]} == {"own"}, "nothing is predicted any more"
    shown.tab.click("text=Connect the draft")
    shown.tab.wait_for_selector("text=Disconnect the draft")
    wait_until(lambda: target.model.drafts is not None and target.model.drafts.pool.is_linked)


def test_a_key_is_asked_for_and_stays_in_the_tab(model: Path, tmp_path: Path, show: Show):
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    (tmp_path / "tokens").write_text(json.dumps({"name": "alice", "sha256": digest, "scopes": ["generate"]}))
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=tmp_path / "tokens")
    with target_server(model, server=config) as target, RunningGateway(target.address) as gateway:
        shown = show(gateway.url)
        shown.tab.goto(gateway.url)
        shown.tab.locator("#key").fill(KEY)
        shown.tab.press("#key", "Enter")
        shown.tab.wait_for_selector("#model:has-text('context of')")
        assert [trouble for trouble in shown.troubles if "401" not in trouble] == []
        shown.troubles.clear()
        shown.tab.reload()
        shown.tab.wait_for_selector("#model:has-text('context of')")
        assert shown.tab.evaluate("() => [localStorage.length, document.cookie]") == [0, ""]
        shown.fill(max_tokens="8", seed="3")
        shown.ask("some words")
        assert not any("some" in request or KEY in request for request in shown.requests)


@pytest.mark.usefixtures("gateway")
def test_a_faulty_field_is_marked_with_its_error(shown: ShownPage):
    shown.fill(grammar="regex", grammar_text="(")
    shown.begin(PROMPT)
    shown.tab.wait_for_selector("[name=grammar_text][aria-invalid]")
    assert "regex: " in (shown.tab.text_content("#fault") or "")
    assert [trouble for trouble in shown.troubles if "400" not in trouble] == []
    shown.troubles.clear()
