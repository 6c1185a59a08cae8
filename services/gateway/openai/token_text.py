"""Tokens, and how likely they were, as OpenAI's APIs spell them."""

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
