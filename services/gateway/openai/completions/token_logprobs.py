"""TokenLogprobs: the log-probabilities of completions' tokens, in the lists of OpenAI's API."""

import codecs
from collections.abc import Iterable
from typing import Any

from outrider import Token
from services.gateway.openai.token_text import token_logprob, token_text


class TokenLogprobs:
    """Keeps the offset of the next token in the text of one choice."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = 0

    def lists(self, tokens: Iterable[Token], *, with_top: bool) -> dict[str, Any]:
        """Return the lists for the next tokens; the first token of a prompt has no log-probability."""
        tokens = tuple(tokens)
        return {
            "tokens": [token_text(token) for token in tokens],
            "token_logprobs": [token_logprob(token) for token in tokens],
            "top_logprobs": [_top(token) for token in tokens] if with_top else None,
            "text_offset": [self._begin(token) for token in tokens],
        }

    def _begin(self, token: Token) -> int:
        offset = self._offset
        self._offset += len(self._decoder.decode(token.bytes))
        return offset


def _top(token: Token) -> dict[str, float | None] | None:
    """Return the log-probabilities of the candidates and of the token itself; None if it has none."""
    if token.raw_logprob is None:
        return None
    candidates = {token_text(one): token_logprob(one) for one in token.candidates}
    return {**candidates, token_text(token): token_logprob(token)}
