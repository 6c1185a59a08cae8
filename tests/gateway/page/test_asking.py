"""Requests from the page: examples, links, and errors shown at the field to change."""

from collections.abc import Callable

from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.scripted_passes import PassesServicer
from tests.gateway.page.shown_page import ShownPage
from tests.harness.servers.scripted_server import ScriptedServer

Show = Callable[..., ShownPage]
PROMPT, SEED = "ab & #c", 5


def asked(shown: ShownPage) -> int:
    return sum(request.endswith("/v1/generate") for request in shown.requests)


def test_a_seed_beyond_javascripts_range_is_refused_at_its_field(toy: RunningGateway, show: Show):
    shown = show(toy.url)
    for keys in ("Control+Enter", "Control+Shift+Enter"):
        shown.open()
        shown.fill(seed=str(2**53 + 1))
        shown.tab.fill("#prompt", PROMPT)
        shown.tab.press("#prompt", keys)
        assert "seed is 9007199254740993; this page holds" in (shown.tab.text_content("#fault:visible") or "")
        assert shown.tab.get_attribute("[name=seed]", "aria-invalid") == "true"


def test_a_prompt_is_needed(toy: RunningGateway, show: Show):
    shown = show(toy.url)
    shown.open()
    shown.tab.click("#run")
    assert "the prompt is empty" in (shown.tab.text_content("#fault:visible") or "")
    assert shown.tab.get_attribute("#prompt", "aria-invalid") == "true"
    assert asked(shown) == 0


def test_a_folded_parameter_that_is_out_of_range_is_shown(toy: RunningGateway, show: Show):
    shown = show(toy.url)
    shown.open()
    shown.fill(top_p="7")
    shown.tab.click("#parameters > summary")
    shown.tab.fill("#prompt", PROMPT)
    shown.tab.click("#run")
    assert "top_p: " in (shown.tab.text_content("#fault:visible") or "")
    assert shown.tab.is_visible("[name=top_p][aria-invalid]")
    assert asked(shown) == 0


def test_an_example_is_run(toy: RunningGateway, show: Show):
    shown = show(toy.url)
    shown.open()
    shown.tab.locator("#examples button").first.click()
    assert shown.answer()
    assert (shown.tab.text_content("#examples button") or "-") in shown.tab.input_value("#prompt")


def test_a_link_repeats_a_request_without_running_it(toy: RunningGateway, show: Show):
    shown = show(toy.url)
    shown.open()
    shown.fill(max_tokens="9", temperature="0.5", stop="one\ntwo")
    shown.tab.locator("[name=lookup]").uncheck()
    text = shown.ask(PROMPT)
    address = shown.tab.locator(".turn a").get_attribute("href") or ""
    other = show(toy.url)
    other.open(address)
    other.tab.wait_for_function("prompt => document.getElementById('prompt').value === prompt", arg=PROMPT)
    assert asked(other) == 0, "a link of another page must not make this machine compute"
    other.tab.click("#run")
    assert other.answer() == text
    assert other.sent == shown.sent
    assert not any("ab" in request for request in (*shown.requests, *other.requests))


def test_figures_of_an_earlier_run_disappear_after_a_failure(show: Show):
    with ScriptedServer(servicer_type=PassesServicer) as server:
        gateway = RunningGateway(server.address)
        shown = show(gateway.url)
        shown.open()
        shown.ask(PROMPT)
        gateway.close()
        shown.tab.click("#run")
        shown.tab.wait_for_selector("#fault:visible")
        assert "The gateway cannot be reached" in (shown.tab.text_content("#fault") or "")
        assert [shown.tab.text_content(name) for name in ("#per-pass", "#acceptance")] == ["–", "–"]
        assert shown.tab.locator(".turn, #strip g").count() == 0
        assert [trouble for trouble in shown.troubles if "net::ERR" not in trouble] == []
        shown.troubles.clear()
