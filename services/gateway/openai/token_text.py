"""Tokens, and how likely they were, as OpenAI's APIs spell them."""

from typing import Any

from outrider import Candidate, Token

_NEVER = -9999.0


def token_text(token: Token | Candidate) -> str:
    """Its text; of bytes that are none by themselves their numbers, so that no two tokens read the same."""
    try:
        return token.bytes.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)


def told_logprob(token: Token | Candidate) -> float | None:
    """Its log-probability, None where it has none; JSON has no infinity, for which OpenAI writes -9999."""
    return None if token.raw_logprob is None else max(token.raw_logprob, _NEVER)


def told_token(token: Token) -> dict[str, Any]:
    """All of it, with the candidates beside it."""
    tops = [{"token": token_text(one), "logprob": told_logprob(one), "bytes": [*one.bytes]} for one in token.candidates]
    told = {"token": token_text(token), "logprob": told_logprob(token), "bytes": [*token.bytes]}
    return {**told, "top_logprobs": tops}
