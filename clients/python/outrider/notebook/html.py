"""Results and models as HTML, in which all that a model or a server says is text, never markup."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outrider.token_record import Token
    from outrider.types import ModelInfo, Result

_COLOURS = {"draft": "#2ea04355", "lookup": "#1f9ecf55"}  # seen on light and on dark


def result_html(result: "Result") -> str:
    """The text, what had been predicted in colour where there are token records, and its figures."""
    return _answer(result) + "".join(map(_answer, result.further_samples))


def model_html(info: "ModelInfo") -> str:
    """What a server holds, as a table."""
    parts = info.fingerprint_parts
    rows = {
        "model": info.name,
        "architecture": info.architecture,
        "context": f"{info.context_length} tokens",
        "vocabulary": f"{info.vocab_size} tokens",
        "weights, keys and values": f"{parts.weight_format}, {parts.kv_type} on {parts.device}",
        "chat template": "yes" if info.has_chat_template else "no",
        "fingerprint": info.fingerprint,
    }
    return _table(rows)


def _answer(result: "Result") -> str:
    records = result.tokens if "".join(token.text for token in result.tokens) == result.text else ()
    text = _tokens(records) if records else escape(result.text)
    speculation, seconds = result.speculation, result.timings.decode
    rows = {
        "tokens": f"{result.usage.completion_tokens} after {result.usage.prompt_tokens} of the prompt",
        "tokens per pass": f"{speculation.tokens_per_pass:.2f}",
        "accepted": f"{speculation.accepted} of {speculation.predicted} predicted" if speculation.predicted else "",
        "tokens per second": f"{(len(result.token_ids) - 1) / seconds:.1f}" if seconds else "",
        "ended by": result.finish_reason.replace("_", " "),
        "seed": str(result.started.seed),
    }
    first = "\n" if text.startswith(("\n", "\r")) else ""  # HTML drops a line break right after the tag
    pre = "white-space:pre-wrap;overflow-wrap:anywhere"
    table = _table({name: value for name, value in rows.items() if value})
    return f'<div><pre style="{pre}">{first}{text}</pre>{table}</div>'


def _tokens(tokens: Iterable["Token"]) -> str:
    return "".join(
        f'<span style="background:{_COLOURS.get(token.prediction_source or "", _COLOURS["draft"])}">'
        f"{escape(token.text)}</span>"
        if token.predicted
        else escape(token.text)
        for token in tokens
    )


def _table(values: Mapping[str, str]) -> str:
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in values.items())
    return f"<table>{''.join(rows)}</table>"
