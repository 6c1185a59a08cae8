"""A tiny vocabulary with overlapping tokens, a model that favours banned strings, and the rule on whole strings.

The rule is written as naively as it can be: after every token the whole text is searched anew.
"""

import functools
import json
import zlib
from collections import defaultdict
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native.testing import gumbel_noise
from services.engine.events import FinishReason, Suppressed
from services.engine.grammar.grammar import Grammar
from services.engine.request import Loop, Request
from services.engine.text.tokenizer import Tokenizer
from tests.harness.grammar.grammars import allowed as allowed_ids

_PIECES = ["a", "b", "A", "ab", "Ba", "abb", "ß", "s", "S", "<0xC3>", "<0x9F>", " "]
END, HIDDEN = len(_PIECES), len(_PIECES) + 1
VOCAB_SIZE = len(_PIECES) + 2


@functools.cache
def tokenizer() -> Tokenizer:
    """Letters, runs of letters, halves of a character, and two special tokens."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | {"special": True}
    description = {
        "added_tokens": [{"id": END, "content": "<end>", **flags}, {"id": HIDDEN, "content": "<b>", **flags}],
        "model": {
            "type": "BPE",
            "byte_fallback": True,
            "vocab": {piece: token_id for token_id, piece in enumerate(_PIECES)},
            "merges": [],
        },
        "decoder": {"type": "ByteFallback"},
    }
    return Tokenizer(json.dumps(description))


def logits_of(history: Seq[int]) -> NDArray[np.float32]:
    """Logits that depend on every token of the history.  # [VOCAB_SIZE]"""
    return _shuffled(zlib.crc32(np.asarray(history, dtype=np.int32).tobytes()))


@functools.lru_cache(maxsize=100_000)
def _shuffled(seed: int) -> NDArray[np.float32]:
    values = np.random.default_rng(seed).permutation(VOCAB_SIZE).astype(np.float32) * np.float32(0.5)
    values.flags.writeable = False
    return values


def scores_of(request: Request, history: Seq[int]) -> NDArray[np.float32]:
    """What the next token is the argmax of, at temperature 0 or 1.  # [VOCAB_SIZE]"""
    logits = logits_of(history)
    if request.sampling.temperature == 0:
        return logits
    return logits + gumbel_noise(request.sampling.seed, len(history), 0, VOCAB_SIZE)


def choices_of(request: Request, ids: list[int]) -> set[int]:
    """What may be drawn after the tokens of an answer, before anything is taken back."""
    allowed = request.sampling.allowed_tokens
    choices = {token_id for token_id in range(VOCAB_SIZE) if allowed is None or token_id in allowed}
    if request.grammar is not None:
        choices &= _grammar_choices(request.grammar, request.stops.token_ids, tuple(ids))
    return choices - request.stops.token_ids if len(ids) < request.stops.min_tokens else choices


@functools.lru_cache(maxsize=10_000)
def _grammar_choices(grammar: Grammar, stop_ids: frozenset[int], ids: tuple[int, ...]) -> frozenset[int]:
    """As of a matcher that has seen only these tokens."""
    state = grammar.begin(stop_ids=stop_ids)
    state.advance(ids)
    return frozenset(allowed_ids(state.masks()[0], VOCAB_SIZE))


def _reason(request: Request, ids: list[int]) -> FinishReason:
    """Why there is no token after these."""
    if request.grammar is None:
        return FinishReason.NO_CANDIDATES
    assert isinstance(request.grammar, Grammar)
    state = request.grammar.begin(stop_ids=request.stops.token_ids)
    state.advance(ids)
    state.masks()  # the end of a text is looked for with its mask, which may cost too much
    return FinishReason.NO_CANDIDATES if state.may_end else FinishReason.GRAMMAR_INCOMPLETE


@dataclass
class Expected:
    """An answer by the rule."""

    ids: list[int]
    text: str
    reason: FinishReason
    suppressed: list[Suppressed]
    due: list[int]  # for each suppressed text the position whose token it is delivered with


def answer(request: Request) -> Expected:
    """Draw, look at the whole text, take back, draw again."""
    ids: list[int] = []
    forbidden: defaultdict[int, list[int]] = defaultdict(list)
    suppressed: list[Suppressed] = []
    due: list[int] = []
    while True:
        choices = choices_of(request, ids) - {*forbidden[len(ids)]}
        if not choices:
            return Expected(ids, _shown(request, ids, None), _reason(request, ids), suppressed, due)
        scores = scores_of(request, [*request.prompt, *ids])
        ids.append(max(sorted(choices), key=scores.__getitem__))
        stop = None if ids[-1] in request.stops.token_ids else _first_stop(request, ids)
        if (found := _first_banned(request, ids, stop)) is not None:
            start, string = found
            places = range(start, len(ids))
            is_open = (choices_of(request, ids[:at]) - {*forbidden[at], ids[at]} for at in places)
            start = next((at for at, others in zip(places, is_open, strict=True) if others), start)
            taken_back = b"".join(map(tokenizer().token_bytes, ids[start:])).decode(errors="replace")
            suppressed.append(Suppressed(taken_back, string, start, ids[start]))
            due = [*(min(position, start) for position in due), start]
            forbidden = defaultdict(list, {at: banned for at, banned in forbidden.items() if at <= start})
            forbidden[start].append(ids[start])
            del ids[start:]
        elif (reason := _end(request, ids, stop)) is not None:
            return Expected(ids, _shown(request, ids, stop), reason, suppressed, due)


def _end(request: Request, ids: list[int], stop: int | None) -> FinishReason | None:
    if ids[-1] in request.stops.token_ids:
        return FinishReason.STOP_TOKEN
    if stop is not None:
        return FinishReason.STOP_STRING
    is_early = len(ids) < request.stops.min_tokens
    if (loop := request.stops.loop) is not None and _is_loop(ids[-loop.window :], loop) and not is_early:
        return FinishReason.LOOP
    return FinishReason.MAX_TOKENS if len(ids) == request.stops.max_tokens else None


def _is_loop(latest: list[int], loop: Loop) -> bool:
    periods = range(1, loop.window // loop.repetitions + 1)
    return len(latest) == loop.window and any(latest[period:] == latest[:-period] for period in periods)


def _first_stop(request: Request, ids: list[int]) -> int | None:
    """Where the text ends, in bytes of its tokens spelled out, if a stop string is there."""
    text, passed_over = (
        b"".join(map(tokenizer().token_bytes, some)) for some in (ids, ids[: request.stops.min_tokens])
    )
    stops = [stop.encode() for stop in request.stops.strings]
    places = ((text.find(stop, max(0, len(passed_over) + 1 - len(stop))), -len(stop)) for stop in stops)
    found = [(start, size) for start, size in places if start >= 0]
    if not found:
        return None
    start, size = min(found)
    return start - size if request.stops.include_stop else start


def _pieces(request: Request, ids: list[int], stop: int | None) -> list[tuple[bytes, bool]]:
    """The bytes of every token as far as they are text, and whether it is a special one."""
    pieces, size = [], 0
    for token_id in ids:
        data = tokenizer().token_bytes(token_id)
        if token_id in request.stops.token_ids and not request.stops.include_stop:
            data = b""
        kept = data if stop is None else data[: max(0, stop - size)]
        pieces.append((kept, tokenizer().is_special(token_id)))
        size += len(data)
    return pieces


def _shown(request: Request, ids: list[int], stop: int | None) -> str:
    shows_special = request.output.show_special_tokens
    pieces = _pieces(request, ids, stop)
    return b"".join(data for data, special in pieces if shows_special or not special).decode(errors="replace")


def _first_banned(request: Request, ids: list[int], stop: int | None) -> tuple[int, str] | None:
    """The token in which the first banned string begins, with special tokens or without, and that string."""
    pieces = _pieces(request, ids, stop)
    plain = [(b"" if special else data) for data, special in pieces]
    found = [_search(request, texts) for texts in ([data for data, _ in pieces], plain)]
    return min((one for one in found if one is not None), key=lambda one: one[0], default=None)


def _search(request: Request, pieces: list[bytes]) -> tuple[int, str] | None:
    owners = [index for index, data in enumerate(pieces) for _ in data]
    folded, folded_owners = "", []
    for character, start in _characters(b"".join(pieces)):
        folded += character.casefold()
        folded_owners += [owners[start]] * len(character.casefold())
    found = [
        (folded.find(string.casefold()), -len(string.casefold().encode()), index, string)
        for index, string in enumerate(request.sampling.banned_strings)
        if string.casefold() in folded
    ]
    if not found:
        return None
    start, _, _, string = min(found)
    return folded_owners[start], string


def _characters(data: bytes) -> list[tuple[str, int]]:
    """The whole characters and where each begins; of those of more than one byte, this vocabulary has those of two."""
    characters, at = [], 0
    while at < len(data):
        if data[at] == 0xC3 and at + 1 == len(data):
            break
        size = 2 if data[at] == 0xC3 and 0x80 <= data[at + 1] < 0xC0 else 1
        characters.append((data[at : at + size].decode(errors="replace"), at))
        at += size
    return characters
