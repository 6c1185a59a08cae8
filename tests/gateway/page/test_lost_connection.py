"""A page that loses its connection continues after the last event."""

import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from services.gateway import endpoint
from services.gateway.web.event_response import encode_event
from tests.e2e.harness.link_proxy import LinkProxy
from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.scripted_passes import PassesServicer, kind_of
from tests.gateway.page.shown_page import ShownPage
from tests.harness.network.free_port import free_port
from tests.harness.servers.loop_thread import LoopThread
from tests.harness.servers.scripted_server import ScriptedServer, answer, text_of

WHOLE = answer(list(b"ab"), 5)


@pytest.fixture
def may_go_on(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The gateway sends no more than eight events before this is set."""
    event, events = threading.Event(), count()

    def encode(data: Any, *, name: str, event_id: str) -> bytes:
        if next(events) == 8:
            event.wait(60)
        return encode_event(data, name=name, event_id=event_id)

    monkeypatch.setattr(endpoint, "encode_event", encode)
    return event


@pytest.fixture
def link() -> Iterator[tuple[RunningGateway, LinkProxy, LoopThread]]:
    """A gateway, and what stands between it and the page."""
    thread = LoopThread()
    with ScriptedServer(servicer_type=PassesServicer) as server, RunningGateway(server.address) as gateway:
        proxy = LinkProxy(f"127.0.0.1:{free_port()}", gateway.url.removeprefix("http://"))
        thread.call(proxy.__aenter__())
        yield gateway, proxy, thread
        thread.call(proxy.close())
    thread.close()


def test_a_lost_connection_is_not_noticed(
    link: tuple[RunningGateway, LinkProxy, LoopThread], may_go_on: threading.Event, show: Callable[..., ShownPage]
):
    _, proxy, thread = link

    async def cut() -> None:
        proxy.cut()

    shown = show(f"http://{proxy.address}")
    shown.open()
    shown.fill(max_tokens="", seed="5")
    shown.begin("ab")
    shown.tab.locator(".token").nth(10).wait_for(state="attached")
    thread.call(cut())
    may_go_on.set()
    assert shown.answer() == text_of(WHOLE, is_whole=True)
    assert shown.kinds() == [kind_of(position) for position in range(len(WHOLE))]
    asked = [request for request in shown.requests if request.endswith("/v1/generate")]
    assert len(asked) == 2
    assert [trouble for trouble in shown.troubles if "net::ERR" not in trouble] == []
    shown.troubles.clear()
