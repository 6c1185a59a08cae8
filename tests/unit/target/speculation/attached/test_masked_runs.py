"""Masked runs: their rows stay in order while any run after them draws, and each mask follows the token before."""

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from typing import Any

from services.engine.decoder.native import Batch
from services.engine.grammar.source import GrammarKind, GrammarSource
from services.target.speculation.attached.masked_runs import MaskedRun, draw_masked
from tests.harness.grammar.grammars import allowed, compiler
from tests.unit.sequences import END, VOCAB_SIZE, byte_tokenizer, make_request, make_sequence


class Drafter:
    """Stands for the native decoder: draws the lowest token that each mask allows."""

    def __init__(self) -> None:
        self.num_rows: list[int] = []  # of each call
        self.rows: list[list[tuple[int, int]]] = []  # token and position of each, but those of the first call

    def extend(
        self, batch: Batch, _: object, states: Seq[Any], chains: Seq[Seq[int]], counts: Seq[int], masks: Seq[Any]
    ) -> list[list[int]]:
        assert [*counts] == [1] * len(states)
        self.num_rows.append(len(chains))
        self.rows.append([*zip(batch.token_ids[: batch.num_rows], batch.positions[: batch.num_rows], strict=True)])
        lowest = [allowed(mask[0], VOCAB_SIZE)[:1] for mask in masks]
        return [[*map(int, each)] for each in lowest]


def make_run(regex: str, limit: int, position: int) -> MaskedRun:
    source = GrammarSource(GrammarKind.REGEX, (regex,))
    sequence = make_sequence(make_request(grammar=compiler(byte_tokenizer(), VOCAB_SIZE).compile(source)))
    ahead = sequence.draw.allowed.ahead()
    assert ahead is not None
    return MaskedRun(sequence, position, [1, 2], limit, sequence.draw.allowed.masks(), ahead)


def drawn(*runs: MaskedRun) -> tuple[Drafter, int]:
    drafter, batch, seen = Drafter(), Batch(max_rows=8, max_sequences=8, max_blocks=2), []

    def allow(left: Iterable[MaskedRun]) -> None:
        seen.append(len([*left]))

    any_drafter: Any = drafter
    num_steps = draw_masked(any_drafter, batch, any_drafter, runs, allow)
    assert seen == drafter.num_rows
    return drafter, num_steps


async def test_each_mask_follows_the_token_before():
    run = make_run("a[xb][yc]d", 3, 40)
    _, num_steps = drawn(run)
    assert (bytes(run.drawn), num_steps) == (b"abc", 3)


async def test_rows_stay_in_order_while_one_after_them_draws():
    """The second run ends with its text; the third one has the smallest limit."""
    long, ended, short = make_run("abcdefg", 4, 40), make_run("x", 4, 50), make_run("ghijkl", 2, 60)
    drafter, num_steps = drawn(long, ended, short)
    assert (bytes(long.drawn), ended.drawn, bytes(short.drawn), num_steps) == (b"abcd", [*b"x", END], b"gh", 4)
    assert drafter.num_rows == [3, 3, 1, 1]
    assert drafter.rows[1:] == [
        [(ord("a"), 40), (ord("x"), 50), (ord("g"), 60)],
        [(ord("b"), 41)],
        [(ord("c"), 42)],
    ]


async def test_a_run_that_is_over_holds_its_place():
    ended, long = make_run("x", 4, 50), make_run("abcdefg", 4, 40)
    drafter, _ = drawn(ended, long)
    assert (ended.drawn, bytes(long.drawn)) == ([*b"x", END], b"abcd")
    assert drafter.num_rows == [2, 2, 2, 2]
    assert [row for row, _ in drafter.rows[1:]] == [(ord("x"), 50), (END, 51), (END, 52)]


async def test_looking_ahead_leaves_no_trace():
    run = make_run("ab*c", 4, 40)
    before = run.sequence.draw.allowed.masks()
    drawn(run)
    assert (run.sequence.draw.allowed.masks() == before).all()
    run.sequence.draw.allowed.advance(ord("a"))
    assert allowed(run.sequence.draw.allowed.masks()[0], VOCAB_SIZE) == [*b"bc"]
