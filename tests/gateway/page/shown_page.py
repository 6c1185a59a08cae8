"""ShownPage: the gateway's page in a browser without a window, and all that the browser finds fault with."""

from typing import Any

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request

_PATIENCE_MS = 60_000


class ShownPage:
    """One tab. `troubles` are errors and warnings, breaches of the page's own policy among them; `sent` are bodies."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.sent: list[str | None] = []
        self.tab: Page = context.new_page()
        self.tab.set_default_timeout(_PATIENCE_MS)
        self.tab.on("console", self._hear)
        self.tab.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.tab.on("request", self._see)

    def open(self, link: str = "") -> None:
        """Load it, and wait until it knows the model."""
        self.tab.goto(f"{self.url}/{link}")
        self.tab.wait_for_selector("#model:has-text('context of')")

    def fill(self, **fields: str) -> None:
        """Fill parameters in, by their names."""
        if self.tab.locator("#parameters[open]").count() == 0:
            self.tab.click("#parameters > summary")
        for name, value in fields.items():
            field = self.tab.locator(f"#ask [name={name}]")
            if field.evaluate("one => one.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)

    def begin(self, prompt: str) -> None:
        """Ask by keyboard."""
        self.tab.fill("#prompt", prompt)
        self.tab.press("#prompt", "Control+Enter")

    def ask(self, prompt: str) -> str:
        """Ask, and wait for the end of the answer."""
        self.begin(prompt)
        return self.answer()

    def answer(self) -> str:
        """The text of the last answer, once it has ended."""
        self.tab.wait_for_selector("#run:enabled")
        return self.tab.locator(".text").last.text_content() or ""

    def tokens(self, which: int = 0) -> list[tuple[str, list[str]]]:
        """Text and classes of each token of an answer."""
        script = "spans => spans.map(one => [one.textContent, [...one.classList]])"
        found: Any = self.tab.locator(".text").nth(which).locator(".token").evaluate_all(script)
        return [(text, classes) for text, classes in found]

    def kinds(self, which: int = 0) -> list[str]:
        """The source of each token as the page shows it."""
        return [classes[1] for _, classes in self.tokens(which)]

    def check(self) -> None:
        """Assert that nothing failed, and that no other server was called."""
        assert self.troubles == []
        assert {request for request in self.requests if not request.startswith(self.url)} == set()

    def _see(self, request: Request) -> None:
        self.requests.append(request.url)
        if request.method == "POST":
            self.sent.append(request.post_data)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(message.text)
