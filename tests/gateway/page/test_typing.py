"""Keys in the prompt's field, and parameters that open in sight."""

from collections.abc import Callable, Iterator

import pytest

from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.scripted_passes import TalkerServicer
from tests.gateway.page.shown_page import ShownPage
from tests.harness.servers.scripted_server import ScriptedServer

Show = Callable[..., ShownPage]
COMPOSING = [{"isComposing": True}, {"keyCode": 229}]  # the second is how Safari marks the Enter that ends it
PRESS = """(prompt, extra) => prompt.dispatchEvent(
  new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, ...extra }))"""


@pytest.fixture(scope="module")
def talker() -> Iterator[tuple[ScriptedServer, RunningGateway]]:
    """A toy with a chat template."""
    with ScriptedServer(servicer_type=TalkerServicer) as server, RunningGateway(server.address) as gateway:
        yield server, gateway


def test_enter_sends_a_message_and_with_shift_breaks_it(talker: tuple[ScriptedServer, RunningGateway], show: Show):
    server, gateway = talker
    shown = show(gateway.url)
    shown.open()
    shown.tab.fill("#prompt", "one")
    shown.tab.press("#prompt", "Shift+Enter")
    shown.tab.locator("#prompt").press_sequentially("two")
    for extra in COMPOSING:
        assert shown.tab.locator("#prompt").evaluate(PRESS, extra), "the Enter that ends a composition is not ours"
    assert not shown.sent
    shown.tab.press("#prompt", "Enter")
    assert shown.answer()
    assert server.requests[-1].prompt.chat.messages[0].content == "one\ntwo"
    assert shown.tab.input_value("#prompt") == ""
    assert shown.tab.is_visible(".keys .of-chat")


@pytest.mark.parametrize("is_phone", [False, True], ids=["text", "conversation on a phone"])
def test_enter_breaks_the_line_where_nothing_else_can(
    toy: RunningGateway, talker: tuple[ScriptedServer, RunningGateway], show: Show, is_phone: bool
):
    shown = show(talker[1].url, has_touch=True, is_mobile=True) if is_phone else show(toy.url)
    shown.open()
    shown.tab.fill("#prompt", "one")
    shown.tab.press("#prompt", "Enter")
    assert shown.tab.input_value("#prompt") == "one\n"
    assert not shown.sent
    assert not shown.tab.is_visible(".keys .of-chat")


def test_parameters_open_in_sight(talker: tuple[ScriptedServer, RunningGateway], show: Show):
    shown = show(talker[1].url, viewport={"width": 1280, "height": 600})
    shown.open()
    for message in ("one", "two", "three"):
        shown.ask(message)
    shown.tab.evaluate("() => scrollTo(0, 0)")
    shown.tab.click("#parameters > summary")
    shown.tab.wait_for_function(
        """() => {
          const { top, bottom } = document.querySelector("#parameters").getBoundingClientRect();
          return top >= 0 && bottom <= innerHeight;
        }"""
    )
