"""Answers and tables as HTML, in which all that a model or a server says is text, never markup."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from html import escape

from outrider.token_record import Token

_COLOURS = {"draft": "#2ea04355", "lookup": "#1f9ecf55"}  # seen on light and on dark


def answer_html(text: str, records: Seq[Token], figures: Mapping[str, str]) -> str:
    """The text, with predicted tokens in colour where there are records of all of it, and its figures."""
    is_recorded = "".join(token.text for token in records) == text
    shown = _tokens(records) if is_recorded else escape(text)
    first = "\n" if shown.startswith(("\n", "\r")) else ""  # HTML drops a line break right after the tag
    pre = "white-space:pre-wrap;overflow-wrap:anywhere"
    return f'<div><pre style="{pre}">{first}{shown}</pre>{table_html(figures)}</div>'


def table_html(values: Mapping[str, str]) -> str:
    """A table of names and values, without those whose value is empty."""
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in values.items() if value)
    return f"<table>{''.join(rows)}</table>"


def _tokens(tokens: Seq[Token]) -> str:
    return "".join(
        f'<span style="background:{_COLOURS.get(token.prediction_source or "", _COLOURS["draft"])}">'
        f"{escape(token.text)}</span>"
        if token.predicted
        else escape(token.text)
        for token in tokens
    )
