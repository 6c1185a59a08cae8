"""Predictions are shown as the server reported them: while an answer is written, and in the replay."""

from collections.abc import Callable
from typing import Any

from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.scripted_passes import PER_PASS, PROMPT, SEED, PassesServicer
from tests.gateway.page.shown_page import ShownPage
from tests.harness.servers.scripted_server import Fault, ScriptedServer, answer, text_of

Show = Callable[..., ShownPage]
WHOLE = answer(list(PROMPT.encode()), SEED)
PREDICTED_MS, JUDGED_MS = 600, 900  # as in replay.js


def parts(shown: ShownPage) -> list[set[str]]:
    """What stands in the text, in order: the classes of each token and of the ghost text."""
    found: Any = shown.tab.locator(".text > *").evaluate_all("all => all.map(one => [...one.classList])")
    return [{*classes} for classes in found]


def visible(shown: ShownPage) -> list[str]:
    """The classes that matter of what can be seen."""
    names = ("guess", "struck", "ghost", "draft", "own")
    return [next(name for name in names if name in classes) for classes in parts(shown) if "ahead" not in classes]


def test_rejected_predictions_are_struck_out_beside_their_token(show: Show):
    servers = ScriptedServer(Fault(at=2 * PER_PASS, how="hang"), servicer_type=PassesServicer)
    with servers as server, RunningGateway(server.address) as gateway:
        shown = show(gateway.url)
        shown.open()
        shown.fill(seed=str(SEED))
        shown.begin(PROMPT)
        shown.tab.locator(".token").nth(2 * PER_PASS - 1).wait_for(state="attached")
        shown.tab.locator(".ghost.struck:text('é')").wait_for()
        assert visible(shown) == ["own", "own", "own", "draft", "draft", "struck", "own"]
        shown.tab.keyboard.press("Escape")
        assert text_of(WHOLE, is_whole=True).startswith(shown.answer())
        assert shown.tab.locator(".text .ghost").count() == 0


def test_a_replay_shows_the_predictions_before_their_verdict(show: Show):
    with ScriptedServer(servicer_type=PassesServicer) as server, RunningGateway(server.address) as gateway:
        shown = show(gateway.url)
        shown.open()
        shown.fill(max_tokens="", seed=str(SEED))
        text = shown.ask(PROMPT)
        shown.tab.clock.install(time=0)
        shown.tab.clock.pause_at(1000)
        shown.tab.click("text=Replay in slow motion")
        assert visible(shown) == ["own"] * PER_PASS, "nothing was predicted for the first pass"
        shown.tab.clock.run_for(JUDGED_MS)
        assert visible(shown)[PER_PASS:] == ["guess", "guess", "ghost"]
        assert "Pass 2" in (shown.tab.text_content("#pass-details") or "")
        shown.tab.clock.run_for(PREDICTED_MS)
        assert visible(shown)[PER_PASS:] == ["draft", "draft", "struck", "own"]
        shown.tab.keyboard.press("Escape")
        assert not any(classes & {"ahead", "guess", "ghost"} for classes in parts(shown))
        assert shown.answer() == text
