"""The page shows what the RPC says: the text to the byte, and of each token what it came from."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser

from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.scripted_passes import PER_PASS, PassesServicer, kind_of
from tests.gateway.page.shown_page import ShownPage
from tests.harness.servers.scripted_server import Fault, ScriptedServer, answer, text_of

Show = Callable[..., ShownPage]
PROMPT, SEED = "ab", 5
WHOLE = answer(list(PROMPT.encode()), SEED)


@pytest.fixture(scope="module")
def toy() -> Iterator[RunningGateway]:
    """A gateway in front of a toy whose passes are known."""
    with ScriptedServer(servicer_type=PassesServicer) as server, RunningGateway(server.address) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def shown(toy: RunningGateway, browser: Browser) -> Iterator[ShownPage]:
    """The page with an answer of the toy, which the tests only look at."""
    page = ShownPage(browser.new_context(), toy.url)
    page.open()
    page.fill(max_tokens="", seed=str(SEED))
    page.ask(PROMPT)
    yield page
    page.check()


def test_each_token_is_shown_as_what_it_came_from(shown: ShownPage):
    assert shown.answer() == text_of(WHOLE, is_whole=True)
    assert shown.kinds() == [kind_of(position) for position in range(len(WHOLE))]
    assert {*shown.kinds()} == {"draft", "alternate", "lookup", "own"}
    assert [("silent" in classes) for text, classes in shown.tokens()] == [text == "" for text, _ in shown.tokens()]
    line = "one => getComputedStyle(one).textDecorationStyle"
    styles = [shown.tab.locator(f".text .{kind}").first.evaluate(line) for kind in ("draft", "alternate", "lookup")]
    assert len({*styles}) == 3, "the lines differ too, not the colours alone"
    assert f"{len(WHOLE)} tokens, stop token, seed {SEED}" in (shown.tab.text_content("#status") or "")


def test_a_pass_is_pointed_at(shown: ShownPage):
    shown.tab.locator(".token").nth(PER_PASS + 1).hover()
    pointed = [index for index, (_, classes) in enumerate(shown.tokens()) if "in-pass" in classes]
    assert pointed == list(range(PER_PASS, 2 * PER_PASS))
    assert shown.tab.text_content("#pass-details") == (
        "2: 3 tokens; 2 of 4 accepted, by the draft; 1.00 ms waited, 3.00 ms computed"
    )
    shown.tab.mouse.move(1, 1)  # else it is over another token when the page scrolls
    shown.tab.focus("#strip")
    shown.tab.keyboard.press("ArrowRight")
    assert "after an alternate" in (shown.tab.text_content("#pass-details") or "")
    assert shown.tab.locator("#strip g").count() == -(-len(WHOLE) // PER_PASS)


def test_the_figures_are_those_of_the_passes(shown: ShownPage):
    num_passes = -(-len(WHOLE) // PER_PASS)
    assert (shown.tab.text_content("#per-pass") or "").startswith(f"{len(WHOLE) / num_passes:.2f}")
    assert "predictions" in (shown.tab.text_content("#acceptance") or "")
    assert "75 %" in (shown.tab.text_content("#waiting-plot") or ""), "of the time the target computes"


def test_a_chosen_token_tells_of_itself(shown: ShownPage):
    shown.tab.locator(".token").first.click()
    assert f"id{WHOLE[0]}source" in (shown.tab.text_content("#token-details") or "")
    shown.tab.focus(".text")
    shown.tab.keyboard.press("ArrowRight")
    told = shown.tab.text_content("#token-details") or ""
    assert f"id{WHOLE[1]}source" in told
    assert f"{-WHOLE[1] / 7:.4f}" in told
    assert shown.tab.locator(".chosen").count() == 1


def test_keys_run_stop_and_find_the_prompt(show: Show):
    servers = ScriptedServer(Fault(at=6, how="hang"), servicer_type=PassesServicer)
    with servers as server, RunningGateway(server.address) as gateway:
        shown = show(gateway.url)
        shown.open()
        shown.fill(seed=str(SEED))
        shown.begin(PROMPT)
        shown.tab.locator(".token").nth(5).wait_for(state="attached")
        shown.tab.keyboard.press("Escape")
        assert text_of(WHOLE, is_whole=True).startswith(shown.answer())
        assert shown.tab.text_content("#status") == "stopped"
        shown.tab.focus(".text")
        shown.tab.keyboard.press("/")
        assert shown.tab.evaluate("() => document.activeElement.id") == "prompt"


@pytest.mark.parametrize("keys", ["Control+Enter", "Control+Shift+Enter"])
def test_a_seed_beyond_javascript_s_numbers_is_refused_at_its_field(toy: RunningGateway, show: Show, keys: str):
    shown = show(toy.url)
    shown.open()
    shown.fill(seed=str(2**53 + 1))
    shown.tab.press("#prompt", keys)
    assert "seed is 9007199254740993; this page holds" in (shown.tab.text_content("#fault:visible") or "")
    assert shown.tab.get_attribute("[name=seed]", "aria-invalid") == "true"


def test_without_the_target_s_admin_address_there_is_no_button(show: Show):
    servers = ScriptedServer(servicer_type=PassesServicer)
    with servers as server, RunningGateway(server.address, demo_controls="127.0.0.1:1") as gateway:
        shown = show(gateway.url)
        with shown.tab.expect_response("**/demo/draft") as asked:
            shown.open()
        assert asked.value.status == 503
        assert shown.ask(PROMPT)
        assert not shown.tab.is_visible("#draft-switch, #fault")
        shown.troubles = [trouble for trouble in shown.troubles if "503" not in trouble]


class TalkerServicer(PassesServicer):
    """Knows conversations."""

    def GetModelInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        """As the others do."""
        info = super().GetModelInfo(request, context)
        info.has_chat_template = True
        return info


def test_a_conversation_is_gone_on_with(show: Show):
    with ScriptedServer(servicer_type=TalkerServicer) as server, RunningGateway(server.address) as gateway:
        shown = show(gateway.url)
        shown.open()
        shown.fill(max_tokens="", seed=str(SEED))
        first, second = shown.ask("one"), shown.ask("two <b>")
        said = [(one.role, one.content) for one in server.requests[1].prompt.chat.messages]
        assert said == [("user", "one"), ("assistant", first), ("user", "two <b>")]
        assert shown.tab.locator("#turns li").all_text_contents() == [content for _, content in said]
        assert second == text_of(answer([], SEED), is_whole=True)
        shown.tab.click("#forget")
        shown.ask("three")
        assert len(server.requests[2].prompt.chat.messages) == 1


def test_what_is_done_while_an_answer_is_written_stays(show: Show):
    may_end = threading.Event()

    class Slow(TalkerServicer):
        def StreamGenerate(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
            for event in super().StreamGenerate(request, context):
                assert not event.HasField("finished") or may_end.wait(60)
                yield event

    with ScriptedServer(servicer_type=Slow) as server, RunningGateway(server.address) as gateway:
        shown = show(gateway.url)
        shown.open()
        shown.begin("one")
        shown.tab.locator(".token").first.wait_for(state="attached")
        shown.tab.click("#forget")
        shown.tab.fill("#prompt", "two")
        may_end.set()
        shown.answer()
        assert shown.tab.input_value("#prompt") == "two"
        shown.tab.press("#prompt", "Control+Enter")
        shown.tab.wait_for_selector("#turns li")
        shown.answer()
        assert [one.content for one in server.requests[1].prompt.chat.messages] == ["two"]


def luminance(colour: Any) -> float:
    parts = [value / 255 for value in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_can_be_read_on_a_narrow_screen_too(shown: ShownPage, theme: Any):
    shown.tab.emulate_media(color_scheme=theme)
    shown.tab.set_viewport_size({"width": 360, "height": 700})
    assert shown.tab.evaluate("() => document.documentElement.scrollWidth") == 360
    numbers = "one => getComputedStyle(one)[{}].match(/\\d+/g).slice(0, 3).map(Number)"
    ground = luminance(shown.tab.locator(".text").evaluate(numbers.format("'backgroundColor'")))
    shown.tab.locator(".token").first.hover()
    marked = luminance(shown.tab.locator(".in-pass").first.evaluate(numbers.format("'backgroundColor'")))
    for name in ("draft", "alternate", "lookup", "own"):
        colour = luminance(shown.tab.locator(f".token.{name}").first.evaluate(numbers.format("'color'")))
        for other in (ground, marked):
            assert (max(colour, other) + 0.05) / (min(colour, other) + 0.05) >= 4.5, name


def test_its_files_are_served_and_nothing_else(toy: RunningGateway):
    with httpx2.Client(base_url=toy.url, timeout=60) as client:
        index = client.get("/")
        assert "script-src 'self'" in index.headers["content-security-policy"]
        assert "unsafe" not in index.headers["content-security-policy"]
        assert client.get("/", headers={"if-none-match": index.headers["etag"]}).status_code == 304
        script = client.get("/page/script/main.js")
        assert script.headers["content-type"].startswith("text/javascript")
        for path in ("/page/page.py", "/page/../page.py", "/page/%2e%2e/page.py", "/page//etc/passwd", "/page/"):
            assert client.get(path).status_code == 404, path
        assert client.post("/demo/draft", json={}).status_code == 404
