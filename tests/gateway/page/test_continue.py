"""An answer that ended at max_tokens is continued, with the bytes of one that was never cut."""

from collections.abc import Callable
from urllib.parse import parse_qs

from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.scripted_passes import PROMPT, SEED, PassesServicer, TalkerServicer, kind_of
from tests.gateway.page.shown_page import ShownPage
from tests.harness.servers.scripted_server import Fault, ScriptedServer, answer, text_of

Show = Callable[..., ShownPage]
CONTINUE = ".turn button:has-text('Continue')"
STEP = 12
WHOLE = answer([*PROMPT.encode()], SEED)


def begun(show: Show, gateway: RunningGateway) -> ShownPage:
    shown = show(gateway.url)
    shown.open()
    shown.fill(max_tokens=str(STEP), seed=str(SEED))
    return shown


def test_an_answer_is_continued_to_its_end(show: Show):
    with ScriptedServer(servicer_type=PassesServicer) as server, RunningGateway(server.address) as gateway:
        shown = begun(show, gateway)
        shown.ask(PROMPT)
        limits = [*range(STEP, len(WHOLE) + STEP, STEP)]
        for limit in limits:
            assert shown.answer() == text_of(WHOLE[:limit], is_whole=True)
            assert shown.kinds() == [kind_of(position) for position in range(len(WHOLE[:limit]))]
            (link,) = shown.tab.locator(".turn a").all()
            assert parse_qs((link.get_attribute("href") or "")[1:])["max_tokens"] == [str(limit)]
            if limit < len(WHOLE):
                shown.tab.click(CONTINUE)
        assert shown.tab.locator(CONTINUE).count() == 0, "it has ended by itself"
        assert [one.stop.max_tokens for one in server.requests] == limits
        assert {one.sampling.seed for one in server.requests} == {SEED}


def test_a_conversation_goes_on_from_the_continued_answer(show: Show):
    with ScriptedServer(servicer_type=TalkerServicer) as server, RunningGateway(server.address) as gateway:
        shown = begun(show, gateway)
        shown.ask("one")
        shown.tab.click(CONTINUE)
        continued = shown.answer()
        assert continued == text_of(answer([], SEED)[: 2 * STEP], is_whole=True)
        shown.ask("two")
        said = [(one.role, one.content) for one in server.requests[-1].prompt.chat.messages]
        assert said == [("user", "one"), ("assistant", continued), ("user", "two")]
        assert shown.tab.locator(CONTINUE).count() == 1, "only the last answer can be continued"


def test_a_stopped_continuation_takes_nothing_away(show: Show):
    faults = [None, Fault(at=6, how="hang"), Fault(at=STEP + 6, how="hang")]
    with ScriptedServer(*faults, servicer_type=PassesServicer) as server, RunningGateway(server.address) as gateway:
        shown = begun(show, gateway)
        before = shown.ask(PROMPT)
        shown.tab.click(CONTINUE)
        shown.tab.wait_for_selector("#status:has-text('seed')")
        shown.tab.keyboard.press("Escape")
        assert shown.answer() == before
        shown.tab.click(CONTINUE)
        shown.tab.locator(".token").nth(STEP + 5).wait_for(state="attached")
        shown.tab.keyboard.press("Escape")
        assert shown.answer().startswith(before)
        assert len(shown.tokens()) == STEP + 6
        assert shown.tab.text_content(".result") == "", "of an answer that did not end nothing is said"


def test_after_side_by_side_the_compared_answer_is_continued(show: Show):
    with ScriptedServer(servicer_type=PassesServicer) as server, RunningGateway(server.address) as gateway:
        shown = begun(show, gateway)
        shown.tab.fill("#prompt", PROMPT)
        shown.tab.click("#compare")
        shown.answer()
        shown.tab.click(CONTINUE)
        assert shown.answer() == text_of(WHOLE[: 2 * STEP], is_whole=True)
        assert shown.tab.locator(".answer").count() == 1
