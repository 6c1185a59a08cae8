"""How a notebook shows a result: its text as plain text, predictions in colour, and figures."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from outrider import Client, PredictionSource, Result, Token
from tests.harness.servers.scripted_server import ScriptedServer

HOSTILE = "</pre><script>alert('&amp;')</script>\n\"x\""


@pytest.fixture(scope="module")
def result() -> Result:
    with ScriptedServer() as server, Client(server.address) as client:
        return client.generate("x", max_tokens=4)


def shown(result: Result) -> ET.Element:
    """The page, which is well-formed, and has nothing that runs or is loaded."""
    page = ET.fromstring(f"<body>{result._repr_html_()}</body>")
    assert {element.tag for element in page.iter()} <= {"body", "div", "pre", "span", "table", "tr", "th", "td"}
    assert {name for element in page.iter() for name in element.attrib} <= {"style"}
    return page


def token(text: str, source: PredictionSource | None) -> Token:
    return Token(1, text.encode(), text, None, None, (), source is not None, source, None, None, None)


def test_text_is_never_markup(result: Result) -> None:
    (pre,) = shown(replace(result, text=HOSTILE)).iter("pre")
    assert pre.text == HOSTILE


def test_a_line_break_at_the_beginning_is_not_lost(result: Result) -> None:
    (pre,) = shown(replace(result, text="\n\na")).iter("pre")
    assert pre.text == "\n\n\na"  # HTML drops the first of them


def test_predicted_tokens_have_the_colour_of_their_source(result: Result) -> None:
    sources = (None, PredictionSource.DRAFT, PredictionSource.LOOKUP, PredictionSource.UNKNOWN)
    tokens = tuple(token(f"<{source}>", source) for source in sources)
    text = "".join(each.text for each in tokens)
    (pre,) = shown(replace(result, text=text, tokens=tokens)).iter("pre")
    assert "".join(pre.itertext()) == text
    assert [span.text for span in pre] == [each.text for each in tokens[1:]]
    assert pre[0].attrib != pre[1].attrib


def test_text_that_was_cut_within_a_token_has_no_colours(result: Result) -> None:
    (pre,) = shown(replace(result, text="a", tokens=(token("ab", PredictionSource.DRAFT),))).iter("pre")
    assert (pre.text, len(pre)) == ("a", 0)


def test_figures_and_further_samples_are_shown(result: Result) -> None:
    page = shown(replace(result, further_samples=(replace(result, text="another"),)))
    assert [pre.text for pre in page.iter("pre")] == [result.text, "another"]
    rows = {row[0].text: row[1].text for row in page.iter("tr")}
    assert rows["tokens"] == f"4 after {result.usage.prompt_tokens} of the prompt"
    assert rows["seed"] == str(result.started.seed)


def test_a_model_is_a_table(result: Result) -> None:
    with ScriptedServer() as server, Client(server.address) as client:
        page = ET.fromstring(replace(client.model_info(), name=HOSTILE)._repr_html_())
    assert {row[0].text: row[1].text for row in page.iter("tr")}["model"] == HOSTILE
