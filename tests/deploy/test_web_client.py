"""clients/web in headless Chromium, through the shipped Envoy: gRPC-Web and Connect, from another origin."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.async_api import Page, Route, async_playwright

from outrider import Client
from tests.clients.kept_builds import kept_build
from tests.deploy.envoy import Envoy
from tests.e2e.harness.draft_rig import PROMPT, Service, until
from tests.e2e.harness.models import ROOT

ORIGIN = "https://example.com"  # which deploy/envoy lets in
# The page seems to be of the internet, which a browser does not let call this machine without asking.
ARGUMENTS = ["--no-sandbox", "--disable-features=LocalNetworkAccessChecks"]
BUILD_SECONDS = 280
WEB = ROOT / "clients" / "web"
MADE = ("node_modules", "gen")  # in it, by builds in the checkout itself
TOOLS = ("npm", "protoc")
KINDS = {".html": "text/html", ".js": "text/javascript"}


@pytest.fixture(scope="module")
def folder() -> Path:
    """The page with its packages and stubs."""
    if missing := [name for name in TOOLS if shutil.which(name) is None]:
        pytest.skip(f"clients/web is NOT TESTED, for want of {missing[0]}; `make client-deps` installs it")
    page = [path for path in WEB.rglob("*") if not {*MADE} & {*path.relative_to(WEB).parts}]
    sources = sorted(path for path in (*page, *(ROOT / "protos").rglob("*"), Path(__file__)) if path.is_file())
    return Path(*kept_build("web", build_page, sources=sources, programs=TOOLS))


def build_page(base: Path) -> list[str]:
    """Install the page's packages and make its stubs in a copy; returns where that is."""
    built = base / "clients" / "web"
    shutil.copytree(WEB, built, ignore=shutil.ignore_patterns(*MADE))
    shutil.copytree(ROOT / "protos", base / "protos")
    for step in (["npm", "install", "--no-audit", "--no-fund"], ["npm", "run", "generate"]):
        subprocess.run(step, cwd=built, check=True, capture_output=True, timeout=BUILD_SECONDS)
    return [str(built)]


@pytest.fixture
async def page(folder: Path) -> AsyncIterator[Page]:
    """A tab in which the folder is what the origin serves."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("clients/web is NOT TESTED, for want of Debian's chromium")

    async def serve(route: Route) -> None:
        file = folder / route.request.url.removeprefix(f"{ORIGIN}/").partition("?")[0]
        kind = KINDS.get(file.suffix)
        await (route.fulfill(path=file, content_type=kind) if kind else route.fulfill(status=404))

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        tab = await browser.new_page(ignore_https_errors=True)
        await tab.route(f"{ORIGIN}/**", serve)
        yield tab
        await browser.close()


async def begin(page: Page, envoy: Envoy, **fields: object) -> None:
    """Open the page with these fields, and press the button."""
    said = {"address": f"https://{envoy.address}", "prompt": PROMPT, **fields}
    await page.goto(f"{ORIGIN}/index.html?{urlencode(said)}", wait_until="networkidle")
    await page.click("text=Continue")


async def told(page: Page) -> str:
    """What it says in the end."""
    await page.wait_for_function("['done', 'failed', 'cancelled'].includes(document.title)")
    return await page.inner_text("#told")


@pytest.mark.parametrize("protocol", ["grpc-web", "connect"])
async def test_the_text_is_that_of_the_python_client(envoy: Envoy, page: Page, protocol: str) -> None:
    seed = 2**64 - 1
    with Client(envoy.address, credentials=envoy.credentials) as client:
        expected = client.generate(PROMPT, max_tokens=40, temperature=0.7, seed=seed)
    async with page.expect_request("**/StreamGenerate") as sent:
        fields = {"max-tokens": 40, "temperature": 0.7, "seed": seed, "token": "shown"}
        await begin(page, envoy, protocol=protocol, **fields)
    figures = await told(page)
    assert await page.text_content("#text") == expected.text
    assert figures.startswith(f"{expected.usage.completion_tokens} tokens · ")
    assert figures.endswith(f" · ended by {expected.finish_reason.replace('_', ' ')}")
    assert (await (await sent.value).all_headers())["authorization"] == "Bearer shown"


async def test_a_link_cannot_choose_which_server_gets_a_token(envoy: Envoy, page: Page) -> None:
    await page.goto(f"{ORIGIN}/index.html?{urlencode({'address': 'https://other.example'})}", wait_until="networkidle")
    assert await page.input_value("[name=address]") == "https://localhost:8443"
    assert "https://other.example" in await page.inner_text("#told")
    await page.fill("[name=address]", "http://other.example")
    await page.fill("[name=token]", "shown")
    await page.click("text=Continue")
    assert "a token is sent over https only, or to this machine" in await told(page)


@pytest.mark.parametrize("protocol", ["grpc-web", "connect"])
async def test_every_bad_field_is_named(envoy: Envoy, page: Page, protocol: str) -> None:
    await begin(page, envoy, protocol=protocol, **{"max-tokens": "0", "temperature": "-1"})
    lines = dict(line.split(": ", 1) for line in (await told(page)).splitlines())
    assert lines.keys() == {"sampling.temperature", "stop.max_tokens"}
    assert await page.title() == "failed"


@pytest.mark.parametrize("protocol", ["grpc-web", "connect"])
async def test_the_button_ends_the_generation_on_the_server_too(
    envoy: Envoy, page: Page, targets: list[Service], protocol: str
) -> None:
    await begin(page, envoy, protocol=protocol, temperature=3, seed=2)  # which goes on for thousands of tokens
    await page.wait_for_function("document.querySelector('#text').textContent !== ''")
    assert any(target.num_used_blocks for target in targets)
    await page.click("text=Cancel")
    assert await told(page) == "cancelled"
    await until(lambda: not any(target.num_used_blocks for target in targets))
