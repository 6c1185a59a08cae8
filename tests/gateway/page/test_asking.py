"""Requests from the page: examples, links, and errors shown at the field to change."""

from collections.abc import Callable

from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.scripted_passes import PassesServicer
from tests.gateway.page.shown_page import ShownPage
from tests.harness.servers.scripted_server import ScriptedServer

Show = Callable[..., ShownPage]
PROMPT, SEED = "ab & #c", 5


FIELDS_AT_FAULT = "all => all.map(one => one.name || one.id)"


def asked(shown: ShownPage) -> int:
    return sum(request.endswith("/v1/generate") for request in shown.requests)


def fault(shown: ShownPage) -> tuple[str, list[str]]:
    """The text of the fault, and the fields that are marked for it."""
    marked = shown.tab.locator("[aria-invalid=true]").evaluate_all(FIELDS_AT_FAULT)
    return shown.tab.text_content("#fault:visible") or "", marked


def test_a_fault_is_said_at_its_field_and_then_an_example_runs(toy: RunningGateway, show: Show):
    shown = show(toy.url)
    shown.open()
    for keys in ("Control+Enter", "Control+Shift+Enter"):
        shown.fill(seed="")
        shown.tab.fill("#prompt", "")
        shown.tab.click("#run")
        said, marked = fault(shown)
        assert ("the prompt is empty" in said, marked) == (True, ["prompt"])
        shown.tab.fill("#prompt", PROMPT)
        shown.fill(seed=str(2**53 + 1))
        shown.tab.press("#prompt", keys)
        said, marked = fault(shown)
        assert ("seed is 9007199254740993; this page holds" in said, marked) == (True, ["seed"])
    shown.fill(seed="", top_p="7")
    shown.tab.click("#parameters > summary")
    shown.tab.click("#run")
    said, marked = fault(shown)
    assert ("top_p: " in said, marked) == (True, ["top_p"])
    assert shown.tab.is_visible("[name=top_p]"), "its folded parameters are opened"
    assert asked(shown) == 0
    shown.fill(top_p="")
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
