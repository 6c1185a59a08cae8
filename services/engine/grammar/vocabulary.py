"""GrammarVocabulary: a tokenizer as llguidance wants to see it."""

from collections.abc import Callable

from services.engine.text.tokenizer import Tokenizer

# Characters of a forced text. The library wants all of its tokens anew at every mask, and uses the first one only. It
# drops the last ones, as far as more text might change them, which is less than the longest token has.
_MOST_CUT = 2048


class GrammarVocabulary:
    """The bytes of every id of a model, and how a text that a grammar leaves no choice about is cut into tokens."""

    is_tokenizer_wrapper = True
    bos_token_id = None
    eos_token_id = None  # the library then adds an id of its own behind the last, which stands for the end of a text

    def __init__(self, tokenizer: Tokenizer, *, vocab_size: int) -> None:
        self.tokens = [tokenizer.token_bytes(token_id) for token_id in range(vocab_size)]
        self.special_token_ids = sorted(token_id for token_id in tokenizer.special_ids if token_id < vocab_size)
        self.cut_greedily: Callable[[str], list[int]] | None = None
        self._tokenizer = tokenizer
        self._encode("")  # the first time takes long

    def __call__(self, text: str) -> list[int]:
        """Cut the beginning of a text as the tokenizer would; greedily where that adds or changes a byte, such as a
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
