"""A conversation: its messages, its answers as Markdown, and an answer that is stopped or fails."""

from collections.abc import Callable

import grpc

from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.scripted_passes import SEED, TalkerServicer
from tests.gateway.page.shown_page import ShownPage
from tests.harness.servers.scripted_server import Fault, ScriptedServer, answer, text_of

Show = Callable[..., ShownPage]
MARKDOWN = r"""## Two *things*\n\n1. one\n2. `two <b>`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n
[out](https://a.example/) [bad](javascript:alert(1)) ![seen](https://a.example/x.png)\n\n
<img src=x onerror="alert(1)"><script>alert(2)</script>""".replace("\n", "")


def test_a_conversation_is_continued(show: Show):
    with ScriptedServer(servicer_type=TalkerServicer) as server, RunningGateway(server.address) as gateway:
        shown = show(gateway.url)
        shown.open()
        shown.fill(max_tokens="", seed=str(SEED))
        first, second = shown.ask("one"), shown.ask("two <b>")
        said = [(one.role, one.content) for one in server.requests[1].prompt.chat.messages]
        assert said == [("user", "one"), ("assistant", first), ("user", "two <b>")]
        assert shown.tab.locator(".asked").all_text_contents() == ["one", "two <b>"]
        assert second == text_of(answer([], SEED), is_whole=True)
        shown.tab.click("#forget")
        assert shown.tab.locator(".turn").count() == 0
        shown.ask("three")
        assert len(server.requests[2].prompt.chat.messages) == 1


def test_a_new_conversation_ends_the_old_answer(show: Show):
    servers = ScriptedServer(Fault(at=6, how="hang"), servicer_type=TalkerServicer)
    with servers as server, RunningGateway(server.address) as gateway:
        shown = show(gateway.url)
        shown.open()
        shown.begin("one")
        shown.tab.locator(".token").first.wait_for(state="attached")
        assert shown.tab.input_value("#prompt") == "", "it is shown once"
        shown.tab.fill("#prompt", "two")
        shown.tab.click("#forget")
        shown.tab.wait_for_selector("#run:enabled")
        assert shown.tab.input_value("#prompt") == "two"
        shown.tab.press("#prompt", "Control+Enter")
        shown.answer()  # with the request for the model after it, which would fail after the end
        assert [one.content for one in server.requests[1].prompt.chat.messages] == ["two"]


def test_a_stopped_answer_is_kept_and_a_failed_message_restored(show: Show):
    faults = [Fault(at=6, how="hang"), Fault(at="arrival", how=grpc.StatusCode.INVALID_ARGUMENT)]
    with ScriptedServer(*faults, servicer_type=TalkerServicer) as server, RunningGateway(server.address) as gateway:
        shown = show(gateway.url)
        shown.open()
        shown.begin("one")
        shown.tab.locator(".token").nth(5).wait_for(state="attached")
        shown.tab.keyboard.press("Escape")
        kept = shown.answer()
        shown.begin("two")
        shown.tab.wait_for_selector("#fault:visible")
        assert shown.tab.input_value("#prompt") == "two"
        assert shown.tab.locator(".asked").all_text_contents() == ["one"]
        shown.tab.click("#run")
        shown.answer()  # with the request for the model after it, which would fail after the end
        said = [(one.role, one.content) for one in server.requests[2].prompt.chat.messages]
        assert said == [("user", "one"), ("assistant", kept), ("user", "two")]
        shown.troubles = [trouble for trouble in shown.troubles if "400" not in trouble]


def test_markdown_is_rendered_and_runs_and_loads_nothing(chat_gateway: RunningGateway, show: Show):
    shown = show(chat_gateway.url)
    shown.open()
    shown.fill(max_tokens="600", seed="3", grammar="choice", grammar_text=MARKDOWN)
    assert shown.ask("anything") == MARKDOWN.replace("\\n", "\n")
    prose = shown.tab.locator(".prose")
    for name, texts in {
        "h4": ["Two things"],
        "ol > li": ["one", "two <b>"],
        "li code": ["two <b>"],
        "td": ["1", "2"],
        "a[href='https://a.example/'][rel~=noopener]": ["out"],
        "a[href='https://a.example/x.png'][rel~=noopener]": ["seen"],
        "img, script, a[href^=java]": [],
    }.items():
        assert prose.locator(name).all_text_contents() == texts, name
    assert '<img src=x onerror="alert(1)"><script>alert(2)</script>' in (prose.text_content() or "")
    shown.tab.click("text=Show the tokens")
    assert shown.tab.is_visible(".token")
    assert not prose.is_visible()


def test_a_text_that_cannot_be_parsed_stays_as_its_tokens(toy: RunningGateway, show: Show):
    shown = show(toy.url)
    shown.open()
    render = (
        "text => import('/page/script/answer/markdown.js').then(({ renderMarkdown }) => renderMarkdown(text) === null)"
    )
    assert shown.tab.evaluate(render, ">" * 20_000)
    assert not shown.tab.evaluate(render, "*some* text")
