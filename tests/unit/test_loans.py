"""Loans: what it costs to catch up with a sequence is paid by the passes that have predictions for it."""

import pytest

from services.target.loans import Loans
from tests.unit.sequences import make_request, make_sequence


async def test_a_loan_is_paid_in_equal_parts():
    loans, sequence = Loans(), make_sequence(make_request())
    loans.open(sequence, num_passes=4)
    assert loans.growing([sequence]) == [sequence]
    assert [loans.lend([sequence], cost) for cost in (3.0, 9.0)] == [3, 1], "a deposit"
    loans.answered(sequence)
    assert loans.growing([sequence]) == []
    assert [loans.pay([sequence]) for _ in range(5)] == pytest.approx([2, 2, 2, 2, 0])
    assert loans.close(sequence) == 0


async def test_what_is_left_is_due_when_the_sequence_ends():
    loans, sequence = Loans(), make_sequence(make_request())
    loans.open(sequence, num_passes=4)
    loans.lend([sequence], 12.0)
    loans.pay([sequence])
    assert loans.close(sequence) == pytest.approx(6)
    assert loans.pay([sequence]) == 0


async def test_sequences_that_are_read_together_share_the_cost():
    loans = Loans()
    first, second = make_sequence(make_request()), make_sequence(make_request())
    for sequence in (first, second):
        loans.open(sequence, num_passes=2)
    assert loans.lend([first, second], 16.0) == 8
    assert loans.close(first) == loans.close(second) == 4


async def test_the_share_of_a_sequence_that_has_ended_is_due():
    loans, sequence = Loans(), make_sequence(make_request())
    loans.open(sequence, num_passes=2)
    assert loans.close(sequence) == 0
    assert loans.lend([sequence], 8.0) == 8


async def test_too_much_is_due_at_once():
    loans, sequence = Loans(), make_sequence(make_request())
    loans.open(sequence, num_passes=100)
    due = [loans.lend([sequence], 10.0) for _ in range(4)]
    assert due == [4, 0, 0, 36]
    assert loans.close(sequence) == 0


async def test_one_that_has_fallen_behind_may_borrow_again():
    loans, sequence = Loans(), make_sequence(make_request())
    loans.open(sequence, num_passes=1)
    loans.lend([sequence], 1.0)
    loans.answered(sequence)
    loans.pay([sequence])
    loans.open(sequence, num_passes=2)
    assert loans.growing([sequence]) == [sequence]
    assert loans.lend([sequence], 6.0) == 4
    assert loans.pay([sequence]) == 1
