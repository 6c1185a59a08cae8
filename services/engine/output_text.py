"""OutputText: one sequence's tokens to the text that may be released, up to the first stop string."""

from collections.abc import Sequence

from services.engine.detokenizer import Detokenizer
from services.engine.stops import StopStrings
from services.engine.tokenizer import Tokenizer


class OutputText:
    """Bytes of the token, then stop strings, then whole characters.

    The text so far is a pure function of the ids pushed so far. Stop strings match the text that is shown.
    """

    def __init__(
        self, tokenizer: Tokenizer, stops: Sequence[str] = (), show_special: bool = False, min_tokens: int = 0
    ) -> None:
        """Stop strings are not looked for in the first `min_tokens` tokens."""
        self._detokenizer = Detokenizer(tokenizer, show_special)
        self._stops = StopStrings(stops)
        self._num_unstoppable = min_tokens

    def push(self, token_id: int) -> tuple[str, str | None]:
        """Take one token; return the text it releases, and the stop string it completes, which ends the text."""
        data = self._detokenizer.visible_bytes(token_id)
        if self._num_unstoppable > 0:
            self._num_unstoppable -= 1
            return self._detokenizer.decode(data), None
        released, matched = self._stops.feed(data)
        return self._detokenizer.decode(released, is_end=matched is not None), matched

    def finish(self) -> str:
        """Return all that is held back, at the end of the sequence; nothing after a stop string."""
        return self._detokenizer.decode(self._stops.flush(), is_end=True)
