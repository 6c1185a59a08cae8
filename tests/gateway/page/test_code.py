"""Code in an answer is coloured, and it and the answer can be copied."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.gateway.harness.running_gateway import RunningGateway
from tests.gateway.page.contrast import READABLE, contrast, luminance
from tests.gateway.page.scripted_passes import PROMPT, SEED
from tests.gateway.page.shown_page import ShownPage
from tests.harness.servers.scripted_server import answer, text_of

Show = Callable[..., ShownPage]
SHOW = """([language, code]) => import("/page/script/answer/markdown.js").then(({ renderMarkdown }) => {
  const prose = document.createElement("div");
  prose.className = "prose";
  prose.append(...renderMarkdown("```" + language + "\\n" + code + "\\n```"));
  document.querySelector(".prose")?.remove();
  document.querySelector("#work").append(prose);
})"""
COPIED = "() => navigator.clipboard.readText()"
PYTHON = 'def halve(n: int) -> str:  # "half"\n    """Of <b>n</b>."""\n    return f"{n / 2:.1f} 字"'
PAGE = "<p onclick=\"alert('x')\">a</p><script>let b = 1;</script><style>p { color: red }</style>"


@pytest.mark.parametrize(
    ("language", "code", "kinds"),
    [
        ("python", PYTHON, {"keyword", "title", "params", "built_in", "comment", "string", "subst", "number"}),
        ("Python title=a.py", PYTHON, {"keyword", "comment"}),
        ("html", PAGE, {"tag", "name", "attr", "string", "keyword", "number"}),
        ("", PYTHON, set()),
        ("klingon", PYTHON, set()),
        ("python", "\n".join(["x = 1"] * 5000), set()),
    ],
    ids=["python", "language with more words", "languages in a language", "none", "unknown", "long"],
)
def test_code_is_coloured_and_is_the_same_text(shown: ShownPage, language: str, code: str, kinds: set[str]):
    shown.tab.evaluate(SHOW, [language, code])
    block = shown.tab.locator(".prose pre code")
    assert block.text_content() == code
    found = {
        name.removeprefix("code-")
        for name in block.locator("span").evaluate_all("all => all.map(one => one.className)")
    }
    assert kinds <= found if kinds else not found
    assert shown.tab.locator(".prose :is(script, style, b)").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_coloured_code_can_be_read(shown: ShownPage, theme: Any):
    shown.tab.emulate_media(color_scheme=theme)
    shown.tab.evaluate(SHOW, ["python", PYTHON])
    ground = luminance(shown.tab.locator(".prose pre"), "backgroundColor")
    assert (ground < 0.5) == (theme == "dark")
    colours = {luminance(word, "color") for word in shown.tab.locator(".prose code span").all()}
    assert len(colours) >= 4
    assert min(contrast(colour, ground) for colour in colours) >= READABLE


def test_code_and_answers_are_copied(toy: RunningGateway, show: Show):
    shown = show(toy.url, permissions=["clipboard-read", "clipboard-write"])
    shown.open()
    shown.fill(seed=str(SEED))
    shown.ask(PROMPT)
    shown.tab.click(".answer .copy")
    shown.tab.wait_for_selector(".answer .copy:has-text('Copied')")
    assert shown.tab.evaluate(COPIED) == text_of(answer([*PROMPT.encode()], SEED), is_whole=True)
    shown.tab.evaluate(SHOW, ["python", PYTHON])
    shown.tab.click(".prose .copy")
    shown.tab.wait_for_selector(".prose .copy:has-text('Copied')")
    assert shown.tab.evaluate(COPIED) == PYTHON


def test_there_is_no_button_that_cannot_copy(toy: RunningGateway, show: Show):
    shown = show(toy.url)
    shown.tab.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    shown.open()
    shown.ask(PROMPT)
    assert not shown.tab.is_visible(".copy")
