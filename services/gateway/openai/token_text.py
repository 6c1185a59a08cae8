"""Texts and log-probabilities of tokens in the format of OpenAI's APIs."""

from typing import Any

from outrider import Candidate, Token

_NEVER = -9999.0


def token_text(token: Token | Candidate) -> str:
    """Return a token's text, or its bytes as numbers if they are not UTF-8 by themselves; unique for each token."""
    try:
        return token.bytes.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)


def token_logprob(token: Token | Candidate) -> float | None:
    """Return a token's log-probability, None if it has none; minus infinity becomes -9999, as in OpenAI's API."""
    return None if token.raw_logprob is None else max(token.raw_logprob, _NEVER)


def token_record(token: Token) -> dict[str, Any]:
    """Return a token's text, log-probability and bytes, with its candidates."""
    return {**_record(token), "top_logprobs": [_record(candidate) for candidate in token.candidates]}


def _record(token: Token | Candidate) -> dict[str, Any]:
    return {"token": token_text(token), "logprob": token_logprob(token), "bytes": [*token.bytes]}
