"""What the page's tests share: a browser without a window, which `make client-deps` installs."""

import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.scripted_passes import PROMPT, SEED, PassesServicer
from tests.gateway.page.shown_page import ShownPage
from tests.harness.servers.scripted_server import ScriptedServer

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="package")  # its event loop stands in the way of others in this thread
def browser() -> Iterator[Browser]:
    """The machine's own Chromium."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("there is no Chromium here: make client-deps")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., ShownPage]]:
    """Open the page of a gateway; after the test, nothing was amiss in any of them."""
    contexts = []

    def begin(url: str, **settings: object) -> ShownPage:
        contexts.append(browser.new_context(**settings))  # type: ignore[arg-type]
        pages.append(ShownPage(contexts[-1], url))
        return pages[-1]

    pages: list[ShownPage] = []
    yield begin
    for context in contexts:
        context.close()
    for page in pages:
        page.check()


@pytest.fixture(scope="package")
def toy() -> Iterator[RunningGateway]:
    """A gateway in front of a toy whose passes are known."""
    with ScriptedServer(servicer_type=PassesServicer) as server, RunningGateway(server.address) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def shown(toy: RunningGateway, browser: Browser) -> Iterator[ShownPage]:
    """The page with an answer of the toy, which the tests only look at."""
    context = browser.new_context()
    page = ShownPage(context, toy.url)
    page.open()
    page.fill(max_tokens="", seed=str(SEED))
    page.ask(PROMPT)
    yield page
    page.check()
    context.close()
