"""Contrast: how well a colour on the page can be seen on the one below it, as WCAG defines it."""

from playwright.sync_api import Locator

READABLE = 4.5
_NUMBERS = "(one, name) => getComputedStyle(one)[name].match(/\\d+/g).slice(0, 3).map(Number)"


def luminance(element: Locator, name: str) -> float:
    """The luminance of an element's colour `name`, 0 to 1."""
    parts = [value / 255 for value in element.evaluate(_NUMBERS, name)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: float, other: float) -> float:
    """The contrast of two luminances, 1 to 21."""
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)
