"""TokenLogprobs: what completions tell of tokens, in the lists that OpenAI's API has for that."""

import codecs
from collections.abc import Iterable
from typing import Any

from outrider import Token
from services.gateway.openai.token_text import token_text, told_logprob


class TokenLogprobs:
    """Knows where in the text of one choice the next token begins."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = 0

    def lists(self, tokens: Iterable[Token], *, with_top: bool) -> dict[str, Any]:
        """The lists for the tokens that follow; the first token of a prompt has no log-probability."""
        tokens = tuple(tokens)
        return {
            "tokens": [token_text(token) for token in tokens],
            "token_logprobs": [told_logprob(token) for token in tokens],
            "top_logprobs": [_top(token) for token in tokens] if with_top else None,
            "text_offset": [self._begin(token) for token in tokens],
        }

    def _begin(self, token: Token) -> int:
        offset = self._offset
        self._offset += len(self._decoder.decode(token.bytes))
        return offset


def _top(token: Token) -> dict[str, float | None] | None:
    """The candidates, and the token itself where it is none of them."""
    if token.raw_logprob is None:
        return None
    told = {token_text(one): told_logprob(one) for one in token.candidates}
    return {**told, token_text(token): told_logprob(token)}
