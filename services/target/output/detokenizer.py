"""Detokenizer: converts one sequence's tokens to the text that may be released, up to the first stop."""

import codecs
from collections.abc import Collection
from collections.abc import Sequence as Seq
from copy import copy
from itertools import compress

from services.engine.request import Request
from services.engine.text.tokenizer import Tokenizer
from services.target.output.banned_strings import BannedMatch, BannedStrings
from services.target.output.stop_strings import StopStrings


class Detokenizer:
    """Collects the tokens' bytes, searches them for stop strings, drops hidden tokens and releases whole characters: an
    incomplete one waits for the token that completes it, and invalid bytes become U+FFFD.

    The text so far is a pure function of the ids pushed so far. Stop strings match the text with special tokens
    spelled out, whether or not these are shown. Nothing is searched after the end at a stop string.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stops: Seq[str] = (),
        *,
        show_special: bool = False,
        shown_ids: Collection[int] = (),
        min_tokens: int = 0,
        include_stop: bool = False,
        banned: Seq[str] = (),
    ) -> None:
        """`show_special` spells out all control tokens, `shown_ids` only these. A stop string that the first
        `min_tokens` tokens complete is ignored, and `include_stop` shows the stop string or token.
        """
        self._tokenizer = tokenizer
        self._show_special = show_special
        self._shown_ids = shown_ids
        self._decoder = _new_decoder()
        self._stops = StopStrings(stops) if stops else None
        self._num_unstoppable = min_tokens
        self._include_stop = include_stop
        self._held = bytearray()
        self._shown = bytearray()  # one flag per held byte
        self._bans = BannedStrings(banned) if banned else None
        self.banned: BannedMatch | None = None
        """The banned string that the last token completed; the token must be taken back with a fork from before it."""
        self._looks = bool(stops or banned)
        self._num_cut = 0  # bytes of the last token after the end
        self._num_new = 0  # held bytes at the end that were not searched for stop strings yet

    @classmethod
    def of(cls, request: Request, tokenizer: Tokenizer) -> "Detokenizer":
        """A detokenizer with the request's options."""
        stops = request.stops
        return cls(
            tokenizer,
            stops.strings,
            show_special=request.output.show_special_tokens,
            min_tokens=stops.min_tokens,
            include_stop=stops.include_stop,
            banned=request.sampling.banned_strings,
        )

    @property
    def num_unsafe(self) -> int:
        """The number of last tokens that may become part of a banned string."""
        return self._bans.num_held if self._bans else 0

    def fork(self) -> "Detokenizer":
        """An independent copy of the detokenizer's state."""
        other = copy(self)
        other._decoder, other._stops = _new_decoder(), copy(self._stops)
        other._decoder.setstate(self._decoder.getstate())
        other._held, other._shown = self._held.copy(), self._shown.copy()
        other._bans = self._bans and self._bans.fork()
        return other

    def begin(self, token_id: int, *, num_known: int) -> None:
        """Begin the text with the bytes of the healed prompt's last token after its first `num_known` ones."""
        data = self._tokenizer.token_bytes(token_id)[num_known:]
        self._hold(data, is_shown=True)
        self._num_new = len(data)

    def push(self, token_id: int) -> tuple[str, str | None]:
        """Take one token; returns the text that it releases, and the stop string that it completes, if any."""
        if not (self._looks or self._held):
            data = self._tokenizer.token_bytes(token_id) if self._is_shown(token_id) else b""
            return self._decoder.decode(data), None
        self._num_new += self._hold_token(token_id)
        released = self._search()
        self._num_unstoppable = max(self._num_unstoppable - 1, 0)
        self._look_for_banned(token_id)
        return released

    def push_stop_token(self, token_id: int) -> str:
        """Take the stop token that ends the text, without a search for stop strings; returns the text it releases."""
        text, matched = self._search()
        if matched is None and self._include_stop:
            self._hold_token(token_id)
            self._look_for_banned(token_id)
        return text

    def finish(self) -> str:
        """Return all text that is held back, at the end of the sequence; empty after a stop string."""
        text = self._search()[0] if self._num_new else ""
        return text + self._release(len(self._held), is_end=True)

    def _look_for_banned(self, token_id: int) -> None:
        if self._bans is not None:
            data = self._tokenizer.token_bytes(token_id)
            shown = data[: max(0, len(data) - self._num_cut)]
            self.banned = self._bans.feed(shown, is_special=self._tokenizer.is_special(token_id))

    def _hold_token(self, token_id: int) -> int:
        data = self._tokenizer.token_bytes(token_id)
        self._hold(data, is_shown=self._is_shown(token_id))
        return len(data)

    def _hold(self, data: bytes, *, is_shown: bool) -> None:
        self._held += data
        self._shown += bytes([is_shown]) * len(data)

    def _search(self) -> tuple[str, str | None]:
        """Search the new bytes for stop strings; release the bytes that cannot be part of one any more."""
        new = bytes(self._held[len(self._held) - self._num_new :])
        self._num_new = 0
        if self._stops is None:
            return self._release(len(self._held)), None
        match = self._stops.feed(new)
        if match is None or self._num_unstoppable:
            return self._release(len(self._held) - self._stops.num_held), None
        size = len(match.stop.encode()) if self._include_stop else 0
        self._num_cut = match.distance - size
        text = self._release(len(self._held) - self._num_cut, is_end=True)
        self._held.clear()
        self._shown.clear()
        return text, match.stop

    def _release(self, count: int, *, is_end: bool = False) -> str:
        data = bytes(compress(self._held[:count], self._shown[:count]))
        del self._held[:count], self._shown[:count]
        return self._decoder.decode(data, is_end)

    def _is_shown(self, token_id: int) -> bool:
        return self._show_special or not self._tokenizer.is_special(token_id) or token_id in self._shown_ids


def _new_decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")(errors="replace")
