"""Sampler: of the tokens drawn beside predictions, those that the history really leads to are kept."""

from dataclasses import replace

import numpy as np
import pytest

from services.engine.decoder.native import Device
from services.engine.decoder.native import Sampler as NativeSampler
from services.engine.decoder.native.testing import make_logits
from services.engine.events import FinishReason, PredictionSource, TokenRecord
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.engine.request import OutputOptions, Request
from services.target.generation.sampler import Sampler, SamplerOutput
from services.target.scheduling.scheduled_rows import ScheduledRows
from tests.harness.grammar.grammars import compiler
from tests.unit.sequences import END, VOCAB_SIZE, byte_tokenizer, make_request, make_sequence, records_of

DEVICE = Device.cpu("portable", 1)
NAN, MASKED = -1, -2  # in place of a token that a row leads to: a row of NaN, and one of minus infinity


def draw(*sequences: tuple[str | list[int], str], request: Request | None = None) -> list[SamplerOutput]:
    """Draw for sequences, each given by the tokens that its rows lead to and its predictions."""
    scheduled = [
        ScheduledRows(
            make_sequence(request or make_request()),
            1,
            draws=True,
            predictions=[*predictions.encode()],
            source=PredictionSource.DRAFT,
        )
        for _, predictions in sequences
    ]
    rows = [_logits(token) for tokens, _ in sequences for token in _ids(tokens)]
    return Sampler(NativeSampler(DEVICE)).sample(make_logits(DEVICE, np.stack(rows)), scheduled)


def _ids(tokens: str | list[int]) -> list[int]:
    return [*tokens.encode()] if isinstance(tokens, str) else tokens


def _logits(token: int) -> np.ndarray:
    filled = {NAN: np.nan, MASKED: -np.inf}.get(token, 0.0)
    row = np.full(VOCAB_SIZE, filled, dtype=np.float32)
    if token >= 0:
        row[token] = 5.0
    return row


@pytest.mark.parametrize(
    ("tokens", "predictions", "kept", "num_predicted"),
    [
        ("a", "", "a", 0),
        ("ab", "x", "a", 0),
        ("ab", "a", "ab", 1),
        ("abcd", "abc", "abcd", 3),
        ("abcd", "abx", "abc", 2),
        ("abcd", "axc", "ab", 1),  # the third prediction would be right, but on a history that did not come true
        ("abcd", "xbc", "a", 0),
        ("aaaa", "aaa", "aaaa", 3),
    ],
)
async def test_the_run_ends_with_the_first_token_not_predicted(tokens, predictions, kept, num_predicted):
    (drawn,) = draw((tokens, predictions))
    assert drawn == SamplerOutput(records_of(kept.encode(), num_predicted), None)


async def test_each_sequence_has_its_own_rows():
    runs = draw(("abc", "ab"), ("x", ""), ("pqr", "pz"))
    assert [bytes(record.token_id for record in drawn.records) for drawn in runs] == [b"abc", b"x", b"pq"]


@pytest.mark.parametrize(("bad", "failure"), [(NAN, FinishReason.INVALID_LOGITS), (MASKED, FinishReason.NO_CANDIDATES)])
async def test_a_row_without_a_token_ends_its_own_sequence_only(bad, failure):
    runs = draw(([bad], ""), ("ab", "a"))
    assert runs == [SamplerOutput([], failure), SamplerOutput(records_of(b"ab", 1), None)]


@pytest.mark.parametrize(("bad", "failure"), [(NAN, FinishReason.INVALID_LOGITS), (MASKED, FinishReason.NO_CANDIDATES)])
async def test_tokens_before_a_row_without_one_are_kept(bad, failure):
    assert draw(([97, bad, 99], "ab")) == [SamplerOutput(records_of(b"a", 1), failure)]


async def test_a_bad_row_after_a_wrong_prediction_does_not_count():
    assert draw(([97, NAN], "x")) == [SamplerOutput(records_of(b"a"), None)]


async def test_each_row_draws_what_the_grammar_allows_after_its_chain():
    """The model would say "x" in every row; a text of three letters is all that the grammar allows."""
    source = GrammarSource(GrammarKind.REGEX, ("a[bx][cd]",))
    request = make_request(grammar=compiler(byte_tokenizer(), VOCAB_SIZE).compile(source))
    (drawn,) = draw(("xxxx", "axc"), request=request)
    assert drawn == SamplerOutput(records_of([*b"axc", END], 3), None)
    (drawn,) = draw(("xxx", "ab"), request=request)
    assert drawn == SamplerOutput(records_of(b"ax", 1), None)


async def test_a_complete_text_ends_where_no_stop_token_may_be_drawn():
    source = GrammarSource(GrammarKind.CHOICE, ("ab",))
    request = make_request(grammar=compiler(byte_tokenizer(), VOCAB_SIZE).compile(source), stop_ids=[])
    (drawn,) = draw(("xxx", "ab"), request=request)
    assert drawn == SamplerOutput(records_of(b"ab", 2), None)  # yet: that is the next row's
    request = replace(request, received=tuple(b"ab"))
    assert draw(("x", ""), request=request) == [SamplerOutput([], FinishReason.NO_CANDIDATES)]


async def test_an_empty_batch_draws_nothing():
    logits = make_logits(DEVICE, np.zeros((0, VOCAB_SIZE), dtype=np.float32))
    assert Sampler(NativeSampler(DEVICE)).sample(logits, []) == []


async def test_logprobs_and_candidates_are_reported_where_asked():
    request = replace(make_request(), output=OutputOptions(logprobs=True, num_candidates=2))
    (drawn,) = draw(("ab", "a"), request=request)
    expected = np.log(np.exp(5.0) / (np.exp(5.0) + VOCAB_SIZE - 1))
    for record in drawn.records:
        assert record.raw_logprob == pytest.approx(expected, abs=1e-5)
        assert record.logprob == pytest.approx(expected, abs=1e-5)
        assert [candidate.token_id for candidate in record.candidates] == [record.token_id, 0]
        assert record.candidates[0].raw_logprob == record.raw_logprob
        assert record.candidates[0].logprob == record.logprob


async def test_reported_figures_come_from_the_rows_of_kept_tokens():
    asked = OutputOptions(logprobs=True, rank=True, entropy=True, logits=True)
    (drawn,) = draw(("abz", "ax"), request=replace(make_request(), output=asked))
    assert [record.token_id for record in drawn.records] == [*b"ab"]
    for record in drawn.records:
        assert np.array_equal(np.frombuffer(record.logits, "<f4"), _logits(record.token_id))
        assert record.rank == 1
        probabilities = np.exp(_logits(record.token_id)) / np.exp(_logits(record.token_id)).sum()
        assert record.entropy == pytest.approx(-(probabilities * np.log(probabilities)).sum(), abs=1e-5)
    some = replace(asked, logits_token_ids=(5, 97, 5))
    (drawn,) = draw(("ab", "x"), request=replace(make_request(), output=some))
    assert np.frombuffer(drawn.records[0].logits, "<f4").tolist() == [0, 5, 0]


async def test_prompt_rows_report_their_tokens_beside_drawing_rows():
    request = make_request(b"abc", prompt_logprobs=True)
    rows = ScheduledRows(make_sequence(request), 3, draws=True, prompt_targets=[*b"bc"])
    other = ScheduledRows(make_sequence(make_request()), 1, draws=True)
    logits = np.stack([_logits(ord("b")), _logits(ord("x")), _logits(ord("d")), _logits(ord("q"))])
    drawn, last = Sampler(NativeSampler(DEVICE)).sample(make_logits(DEVICE, logits), [rows, other])
    assert [record.token_id for record in drawn.prompt_records] == [*b"bc"]
    assert drawn.prompt_records[0].raw_logprob - drawn.prompt_records[1].raw_logprob == pytest.approx(5)
    assert all(record.logprob == record.raw_logprob for record in drawn.prompt_records)
    assert drawn.records == [TokenRecord(ord("d"))]
    assert last == SamplerOutput([TokenRecord(ord("q"))], None)


async def test_prompt_tokens_with_nan_logits_get_no_logprobs():
    sequence = make_sequence(make_request(b"abc", prompt_logprobs=True))
    rows = ScheduledRows(sequence, 2, draws=False, prompt_targets=[*b"bc"])
    logits = make_logits(DEVICE, np.stack([_logits(NAN), _logits(ord("c"))]))
    (drawn,) = Sampler(NativeSampler(DEVICE)).sample(logits, [rows])
    assert drawn.prompt_records[0] == TokenRecord(ord("b"))
    assert drawn.prompt_records[1].raw_logprob is not None
    assert (drawn.records, drawn.failure) == ([], None)


async def test_no_figures_are_reported_where_not_asked():
    assert draw(("a", "")) == [SamplerOutput([TokenRecord(97)], None)]
