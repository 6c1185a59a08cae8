"""The page can be read at every width, in both themes."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.shown_page import ShownPage

NUMBERS = "one => getComputedStyle(one)[{}].match(/\\d+/g).slice(0, 3).map(Number)"
WIDTHS = [360, 390, 1280, 2200]


def luminance(colour: Any) -> float:
    parts = [value / 255 for value in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("is_chosen", [False, True], ids=["by the system", "by the switch"])
def test_every_token_can_be_read(shown: ShownPage, theme: Any, is_chosen: bool):
    shown.tab.emulate_media(color_scheme="dark" if (theme == "dark") != is_chosen else "light")
    shown.tab.select_option("#theme", theme if is_chosen else "system")
    ground = luminance(shown.tab.locator(".text").evaluate(NUMBERS.format("'backgroundColor'")))
    assert (ground < 0.5) == (theme == "dark")
    shown.tab.locator(".token").first.hover()
    marked = luminance(shown.tab.locator(".in-pass").first.evaluate(NUMBERS.format("'backgroundColor'")))
    for name in ("draft", "alternate", "lookup", "own"):
        colour = luminance(shown.tab.locator(f".token.{name}").first.evaluate(NUMBERS.format("'color'")))
        for other in (ground, marked):
            assert (max(colour, other) + 0.05) / (min(colour, other) + 0.05) >= 4.5, name


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


def test_the_chosen_theme_stays(toy: RunningGateway, show: Callable[..., ShownPage]):
    shown = show(toy.url)
    shown.open()
    shown.tab.select_option("#theme", "dark")
    shown.open()
    assert shown.tab.input_value("#theme") == "dark"
    assert shown.tab.evaluate("() => getComputedStyle(document.documentElement).colorScheme") == "dark"
