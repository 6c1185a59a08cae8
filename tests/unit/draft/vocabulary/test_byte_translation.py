"""A DraftedSequence that is translated through bytes, compared with what follows from the whole texts."""

import math
from dataclasses import dataclass, field
from itertools import accumulate, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.draft.drafted_sequence import DraftedSequence
from services.draft.vocabulary.vocabularies import translation_along
from services.draft.vocabulary.vocabulary_map import VocabularyMap
from services.engine.sampling_params import SamplingParams
from services.engine.text.tokenizer import Tokenizer
from tests.harness.grammar.grammars import allowed
from tests.unit.merged_tokenizer import END, merged_tokenizer, merges

WINDOW = 5
MOST_RETOKENIZED = 4
OWN_ONLY, TARGET_ONLY = "<own>", "b a"  # what the target has only is read by its name


def make_vocabulary(own: Tokenizer, target: Tokenizer) -> VocabularyMap:
    return VocabularyMap(own, target, own_size=own.vocab_size, target_size=target.vocab_size, enough=math.inf)


def tokenizer_of(*words: str) -> Tokenizer:
    """Single bytes, the words, merged from the left, and the special token."""
    prefixes = dict.fromkeys(word[:end] for word in words for end in range(2, len(word) + 1))
    return merged_tokenizer(
        [(prefix[:-1].encode(), prefix[-1:].encode()) for prefix in prefixes],
        alphabet=[bytes([byte]) for byte in sorted({*"".join(words).encode(), *b"abc "})],
    )


@dataclass
class Pair:
    """A sequence of both sides, with the texts that they have of it."""

    own: Tokenizer
    target: Tokenizer
    num_prompt: int = 1
    temperature: float = 0.0
    committed: list[int] = field(default_factory=list)
    known: list[int] = field(default_factory=list)  # what the target was sent after the committed tokens

    def __post_init__(self) -> None:
        params = SamplingParams(seed=1, temperature=self.temperature)
        self.vocabulary = make_vocabulary(self.own, self.target)
        translation = translation_along(self.vocabulary, params)
        self.sequence = DraftedSequence(params, translation, num_prompt=self.num_prompt, min_tokens=0, masked_ids=[])
        self.sequence.window = WINDOW
        self._epoch = self.sequence.epoch

    def own_ids(self, text: str) -> list[int]:
        """Tokens with a bar between any two."""
        return [_id(self.own, token) for token in text.split("|")]

    def target_ids(self, text: str) -> list[int]:
        return [_id(self.target, token) for token in text.split("|")]

    def own_text(self) -> str:
        return "".join(map(self.vocabulary.own.text, self.sequence.tokens))

    def text(self, token_ids: list[int]) -> str:
        return "".join(map(self.vocabulary.target.text, token_ids))

    def commit(self, position: int, token_ids: list[int]) -> None:
        expected, length = [*self.committed, *self.known], len(self.committed)
        self.committed[position:] = token_ids
        agrees = len(self.committed) >= length and expected[: len(self.committed)] == self.committed
        self.known = expected[len(self.committed) :] if agrees else []
        self.sequence.commit(position, token_ids)
        self.hear()

    def predict(self, token_ids: list[int]) -> None:
        self.sequence.predicted(token_ids)
        self.sequence.text.num_computed = len(self.sequence.tokens) - 1
        self.hear()

    def hear(self) -> None:
        """What the target makes of the next run: it has to go on from the last one, or to begin an epoch."""
        run = self.sequence.next_run()
        if self.sequence.epoch != self._epoch:
            self._epoch, self.known = self.sequence.epoch, []
        if run.token_ids:
            assert run.position == len(self.committed) + len(self.known)
        self.known.extend(run.token_ids)


def _id(tokenizer: Tokenizer, token: str) -> int:
    data = token.encode()
    return next(token_id for token_id in range(tokenizer.vocab_size) if tokenizer.token_bytes(token_id) == data)


def ids_of(draw: st.DrawFn, tokenizer: Tokenizer, without: str) -> list[int]:
    """Any tokens, some of them special, but for one that is never drawn."""
    token_ids = [i for i in range(tokenizer.vocab_size) if tokenizer.token_bytes(i) != without.encode()]
    return draw(st.lists(st.sampled_from(token_ids), max_size=6))


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    own = merged_tokenizer(draw(merges()), specials=[END, OWN_ONLY])
    target = merged_tokenizer(draw(merges()), specials=[TARGET_ONLY, END])
    return Pair(own, target, temperature=draw(st.sampled_from([0.0, 1.0])))


@st.composite
def commits(draw: st.DrawFn, pair: Pair) -> tuple[int, list[int]]:
    """The tokens sent, the same text in other tokens, anything else, or a rewind."""
    position = len(pair.committed)
    kind = draw(st.sampled_from(["told", "recut", "any", "again", "rewind"]))
    if kind == "told":
        return position, pair.known[: draw(st.integers(0, WINDOW))]
    if kind == "recut":
        ahead = pair.own_text()[len(pair.text(pair.committed)) :]
        return position, [piece.token_id for piece in pair.vocabulary.target.tokenize(ahead[: draw(st.integers(0, 8))])]
    if kind == "again":
        start = draw(st.integers(0, position))
        return start, pair.committed[start:]
    if kind == "rewind":
        position = draw(st.integers(0, position))
    return position, ids_of(draw, pair.target, "")


def check_commit(pair: Pair, position: int, token_ids: list[int]) -> None:
    """What a commit keeps of our own tokens: all that spell the text, but for a few in front of a difference."""
    sequence = pair.sequence
    before, was = [*sequence.tokens], pair.own_text()
    ends = [*accumulate(len(pair.vocabulary.own.text(token_id)) for token_id in before)]
    old_text, computed = pair.text(pair.committed), sequence.text.num_computed
    pair.commit(position, token_ids)
    text = pair.text(pair.committed)
    agreed = len([*takewhile(lambda each: each[0] == each[1], zip(was, text, strict=False))])
    kept = sum(end <= agreed for end in ends)
    assert sequence.tokens[: max(0, kept - MOST_RETOKENIZED)] == before[: max(0, kept - MOST_RETOKENIZED)]
    goes_on = text.startswith(old_text) and was.startswith(text)
    if goes_on and agreed in [0, *ends]:
        assert sequence.tokens == before
        assert sequence.text.num_computed == computed


def check_texts(pair: Pair) -> None:
    sequence, text = pair.sequence, pair.text(pair.committed)
    own = pair.own_text()
    committed = "".join(map(pair.vocabulary.own.text, sequence.tokens[: sequence.num_committed]))
    assert text.startswith(committed)
    assert sequence.text.num_computed < max(1, len(sequence.tokens))
    if own.startswith(text):
        ahead = own[len(text) :]
        assert ahead.startswith(pair.text(pair.known))
        whole = [piece.token_id for piece in pair.vocabulary.target.tokenize_whole(ahead, text[-32:])]
        assert pair.known == whole[:WINDOW], "however it grew, the target knows it as the whole is cut"
    else:  # the last token was taken back, and is drawn anew, alone
        assert text.startswith(own)
        assert sequence.chain == []
        assert sequence.credit in {0, 1}


@settings(derandomize=True, database=None, max_examples=50)
@given(st.data())
def test_any_commits_and_any_chains_keep_the_texts_in_step(data):
    pair = data.draw(pairs())
    for _ in range(data.draw(st.integers(1, 8))):
        check_commit(pair, *data.draw(commits(pair)))
        check_texts(pair)
        if pair.sequence.credit:
            drawn = ids_of(data.draw, pair.own, OWN_ONLY)[: max(1, pair.sequence.credit)]
            if (mask := pair.sequence.mask) is not None:
                drawn = [data.draw(st.sampled_from(allowed(mask[0], pair.own.vocab_size)))]
            pair.predict(drawn)
            check_texts(pair)
        pair.sequence.window = WINDOW
        assert len(pair.known) <= WINDOW


OWN = tokenizer_of("cab", "cabba", "ab", "b ")
TARGET = tokenizer_of("ca", "bb", "ab")


def begin(prompt: str = "a|a", **fields) -> Pair:
    pair = Pair(OWN, TARGET, num_prompt=2, **fields)
    pair.commit(0, pair.target_ids(prompt))
    return pair


def test_the_target_is_sent_the_spelling_of_the_chain():
    pair = begin()
    pair.predict(pair.own_ids("cabba"))
    assert pair.known == pair.target_ids("ca|bb|a")
    pair.predict(pair.own_ids("c"))
    assert pair.known == pair.target_ids("ca|bb|a|c")


def test_a_spelling_changed_by_more_text_is_sent_anew():
    pair = begin()
    epoch = pair.sequence.epoch
    pair.predict(pair.own_ids("c|a"))
    assert (pair.known, pair.sequence.epoch) == (pair.target_ids("ca"), epoch)
    pair.predict(pair.own_ids("b"))
    assert (pair.known, pair.sequence.epoch) == (pair.target_ids("ca|b"), epoch)
    pair.predict(pair.own_ids("b"))
    assert (pair.known, pair.sequence.epoch) == (pair.target_ids("ca|bb"), epoch + 1)


def test_other_tokens_of_the_same_bytes_start_an_epoch():
    pair = begin()
    pair.predict(pair.own_ids("cabba|c|c"))
    epoch, tokens = pair.sequence.epoch, [*pair.sequence.tokens]
    pair.commit(2, pair.target_ids("c|ab"))
    assert (pair.sequence.tokens, pair.sequence.text.num_pending) == (tokens, 1)
    assert (pair.sequence.num_committed, pair.sequence.epoch) == (2, epoch + 1)
    assert pair.known == pair.target_ids("b|a|c|c")
    pair.commit(4, pair.target_ids("b|a|c"))
    assert (pair.sequence.tokens, pair.sequence.num_committed) == (tokens, 4)
    assert (pair.known, pair.sequence.epoch) == (pair.target_ids("c"), epoch + 1)


def test_a_token_the_target_also_has_is_not_half_committed():
    """It would have drawn "ab", had it meant it."""
    pair = begin()
    pair.predict(pair.own_ids(" |ab|c"))
    pair.commit(2, pair.target_ids(" |a"))
    assert (pair.sequence.tokens, pair.known) == (pair.own_ids("a|a| |a"), [])


def test_a_token_that_may_continue_is_drawn_anew():
    """The target lacks "cabba", which begins with "cab"."""
    pair = begin("a|ca|b")
    assert (pair.sequence.tokens, pair.sequence.credit) == (pair.own_ids("a"), 1)
    assert pair.sequence.mask is not None
    assert allowed(pair.sequence.mask[0], OWN.vocab_size) == sorted(pair.own_ids("cab|cabb|cabba"))
    pair.predict(pair.own_ids("cabba"))
    assert pair.sequence.mask is None
    assert pair.known == pair.target_ids("b|a")
    pair.commit(3, pair.target_ids("b"))
    assert (pair.sequence.tokens, pair.known) == (pair.own_ids("a|cabba"), pair.target_ids("a"))


def test_a_draw_has_the_position_of_the_target_after_the_chain():
    pair = begin(temperature=1.0)
    positions = []
    for token in ("cabba", "c", "ab"):
        positions.append(pair.sequence._translation.target_position(pair.sequence.chain))
        assert pair.sequence.credit == 1
        pair.predict(pair.own_ids(token))
    assert positions == [2, 5, 6]
    assert pair.sequence.sampling.num_generated == 0


def test_a_special_token_is_predicted_as_such_and_not_by_name():
    pair = begin()
    pair.predict([_id(OWN, END)])
    assert pair.known == [_id(TARGET, END)]
    pair.commit(2, [_id(TARGET, END)])
    assert (pair.sequence.num_committed, pair.sequence.chain) == (3, [])
    assert [bool(part) for part in (pair.known, pair.sequence.tokens)] == [False, True]


def test_the_window_is_of_the_target_s_tokens():
    pair = begin()
    pair.sequence.window = 2
    pair.predict(pair.own_ids("cabba|ab"))
    assert (pair.known, pair.sequence.credit) == (pair.target_ids("ca|bb"), 0)
    pair.sequence.window = 4
    pair.hear()
    assert (pair.known, pair.sequence.credit) == (pair.target_ids("ca|bb|a|ab"), 0)
    pair.commit(2, pair.target_ids("ca|bb|a"))
    assert (pair.known, pair.sequence.credit) == (pair.target_ids("ab"), 3)


def test_a_gap_is_refused():
    pair = begin()
    with pytest.raises(ValueError, match="a commit at 3 leaves a gap: 2 tokens are committed"):
        pair.sequence.commit(3, pair.target_ids("a"))
