"""The page can be read at every width, in both themes."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.contrast import READABLE, contrast, luminance
from tests.gateway.page.shown_page import ShownPage

WIDTHS = [360, 390, 1280, 2200]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("is_chosen", [False, True], ids=["by the system", "by the switch"])
def test_every_token_can_be_read(shown: ShownPage, theme: Any, is_chosen: bool):
    shown.tab.emulate_media(color_scheme="dark" if (theme == "dark") != is_chosen else "light")
    shown.tab.select_option("#theme", theme if is_chosen else "system")
    ground = luminance(shown.tab.locator(".text"), "backgroundColor")
    assert (ground < 0.5) == (theme == "dark")
    shown.tab.locator(".token").first.hover()
    marked = luminance(shown.tab.locator(".in-pass").first, "backgroundColor")
    for name in ("draft", "alternate", "lookup", "own"):
        colour = luminance(shown.tab.locator(f".token.{name}").first, "color")
        for other in (ground, marked):
            assert contrast(colour, other) >= READABLE, name


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_and_fills_its_width(shown: ShownPage, width: int):
    shown.tab.set_viewport_size({"width": width, "height": 800})
    assert shown.tab.evaluate("() => document.documentElement.scrollWidth") == width
    box = shown.tab.locator("main").bounding_box()
    assert box is not None
    assert box["width"] > 0.85 * width


def test_a_phone_shows_a_token_beside_its_text_and_no_keys(toy: RunningGateway, show: Callable[..., ShownPage]):
    shown = show(toy.url, viewport={"width": 390, "height": 700}, has_touch=True, is_mobile=True)
    shown.open()
    shown.ask("ab")
    assert not shown.tab.is_visible(".keys, #token")
    shown.tab.locator(".token").first.tap()
    box = shown.tab.locator("#token").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] == 700
    shown.tab.locator("h1").tap()
    assert not shown.tab.is_visible("#token")


def test_the_chosen_theme_stays(shown: ShownPage):
    shown.tab.select_option("#theme", "dark")
    other = ShownPage(shown.tab.context, shown.url)
    other.open()
    assert other.tab.input_value("#theme") == "dark"
    assert other.tab.evaluate("() => getComputedStyle(document.documentElement).colorScheme") == "dark"
    other.check()
