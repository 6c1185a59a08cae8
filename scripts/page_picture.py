"""Photograph the page of a gateway: `python -m scripts.page_picture docs/pictures/page.png http://127.0.0.1:8000`.

It asks once for an answer beside the target alone, and takes what there is to see; Chromium must be installed.
"""

import argparse
import shutil
import sys
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_PROMPT = "def binary_search(items, target):"
_PARAMETERS = {"max_tokens": "118", "seed": "7", "temperature": "0"}
_TOKEN = 24  # whose candidates are shown
_PATIENCE_MS = 60_000


def main() -> int:
    """Write the picture; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path, help="the PNG to write")
    parser.add_argument("url", help="where the page is")
    parser.add_argument("--dark", action="store_true", help="in the dark theme")
    parser.add_argument("--width", type=int, default=1280, metavar="PIXELS", help="(%(default)s)")
    arguments = parser.parse_args()
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        print(f"page_picture: none of {', '.join(_BROWSERS)} is installed", file=sys.stderr)
        return 1
    _photograph(browser, arguments)
    return 0


def _photograph(browser: str, arguments: argparse.Namespace) -> None:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        size = ViewportSize(width=arguments.width, height=1060)
        tab = chromium.new_page(viewport=size, color_scheme="dark" if arguments.dark else "light")
        tab.set_default_timeout(_PATIENCE_MS)
        tab.goto(arguments.url)
        tab.wait_for_selector("#model:has-text('context of')")
        tab.click("#parameters > summary")
        for name, value in _PARAMETERS.items():
            tab.fill(f"#ask [name={name}]", value)
        tab.select_option("#ask [name=speculation]", "always")
        tab.click("#parameters > summary")
        tab.fill("#prompt", _PROMPT)
        tab.click("#compare")
        tab.wait_for_selector("#run:enabled")
        tab.locator(".text").last.locator(".token").nth(_TOKEN).click()
        tab.screenshot(path=arguments.picture)
        chromium.close()


if __name__ == "__main__":
    sys.exit(main())
