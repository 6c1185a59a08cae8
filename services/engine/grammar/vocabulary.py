"""GrammarVocabulary: adapts a tokenizer to llguidance's interface."""

from collections.abc import Callable

from services.engine.text.tokenizer import Tokenizer

# Characters of a forced text. The library tokenizes all of it again for every mask, and uses the first token only. It
# drops last tokens that more text might change, which are shorter than the longest token.
_MOST_CUT = 2048


class GrammarVocabulary:
    """The bytes of every id of a model, and the tokenization of texts that a grammar forces."""

    is_tokenizer_wrapper = True
    bos_token_id = None
    eos_token_id = None  # the library then adds an id after the last one, which stands for the end of a text

    def __init__(self, tokenizer: Tokenizer, *, vocab_size: int) -> None:
        self.tokens = [tokenizer.token_bytes(token_id) for token_id in range(vocab_size)]
        self.special_token_ids = sorted(token_id for token_id in tokenizer.special_ids if token_id < vocab_size)
        self.cut_greedily: Callable[[str], list[int]] | None = None
        self._tokenizer = tokenizer
        self._encode("")  # the first call is slow

    def __call__(self, text: str) -> list[int]:
        """Tokenize the beginning of a text as the tokenizer would; greedily if that adds or changes bytes, such as a
        space before it.
        """
        text = text[:_MOST_CUT]
        ids = self._encode(text)
        is_known = max(ids, default=0) < len(self.tokens)
        if is_known and b"".join(self.tokens[token_id] for token_id in ids) == text.encode():
            return ids
        assert self.cut_greedily is not None
        return self.cut_greedily(text)

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False, parse_special=False)
