"""PredictionChain: which of a draft's runs continue the committed tokens."""

import pytest

from services.draft_protocol.messages import AlternatePrediction, Prediction
from services.target.speculation.link.prediction_chain import PredictionChain

PROMPT = [1, 2, 3]


class Chain:
    """A chain beside the committed tokens that it follows."""

    def __init__(self, *, longest: int = 100) -> None:
        self.chain = PredictionChain(longest=longest)
        self.committed = [*PROMPT]
        self.has_switched = False  # to an alternate, at the last commit

    def receive(self, epoch: int, position: int, token_ids: list[int]) -> bool:
        tokens = [*self.committed, 0, 0]  # the last two were drawn just now and are not committed yet
        num_committed = len(self.committed)
        run = Prediction(1, epoch, position, tuple(token_ids))
        return self.chain.receive(run, tokens=tokens, num_committed=num_committed)

    def receive_alternate(
        self, epoch: int, position: int, token_id: int, token_ids: list[int], *, from_epoch: int = 0
    ) -> bool:
        alternate = AlternatePrediction(1, epoch, position, token_id, tuple(token_ids), from_epoch)
        return self.chain.receive_alternate(alternate, tokens=self.committed, num_committed=len(self.committed))

    def commit(self, *token_ids: int) -> None:
        num_before = len(self.committed)
        self.committed += token_ids
        self.has_switched = self.chain.commit(token_ids, num_committed=num_before)

    @property
    def tokens(self) -> list[int]:
        return self.chain.tokens


def test_runs_of_an_epoch_continue_one_another():
    chain = Chain()
    assert chain.receive(1, 3, [4, 5])
    assert chain.receive(1, 5, [6])
    assert chain.tokens == [4, 5, 6]


def test_committed_tokens_leave_the_chain():
    chain = Chain()
    chain.receive(1, 3, [4, 5, 6])
    chain.commit(4, 5)
    assert chain.tokens == [6]
    chain.commit(6, 7)
    assert chain.tokens == []


def test_a_contradicted_epoch_is_dead_until_the_next_one():
    chain = Chain()
    chain.receive(1, 3, [4, 5, 6])
    chain.commit(4, 9)
    assert chain.tokens == []
    assert not chain.receive(1, 6, [7])
    assert chain.receive(2, 5, [10])
    assert chain.tokens == [10]


def test_a_run_of_an_older_epoch_is_ignored():
    chain = Chain()
    chain.receive(2, 3, [4])
    assert not chain.receive(1, 4, [5])
    assert chain.tokens == [4]


@pytest.mark.parametrize("position", [3, 5, 2**32 - 1])
def test_a_run_that_does_not_follow_the_last_one_is_left_out(position):
    chain = Chain()
    chain.receive(1, 3, [4])
    assert not chain.receive(1, position, [4])
    assert chain.tokens == [4]


@pytest.mark.parametrize("position", [4, 2**32 - 1])
def test_an_epoch_that_starts_beyond_the_commits_is_useless(position):
    chain = Chain()
    assert not chain.receive(1, position, [5])
    chain.commit(4)
    assert not chain.receive(1, position + 1, [6])
    assert chain.tokens == []


def test_a_run_overtaken_by_commits_counts_from_where_they_end():
    chain = Chain()
    chain.receive(1, 3, [4])
    chain.commit(4, 5, 6)
    assert chain.receive(1, 4, [5, 6, 7, 8])
    assert chain.tokens == [7, 8]


def test_a_late_run_is_useless_but_the_next_one_is_useful():
    chain = Chain()
    chain.receive(1, 3, [4])
    chain.commit(4, 5, 6)
    assert not chain.receive(1, 4, [5, 6])
    assert chain.receive(1, 6, [7])
    assert chain.tokens == [7]


@pytest.mark.parametrize("run", [[9, 6, 7], [5, 9, 7], [5, 9], [9]])
def test_a_late_run_at_odds_with_the_commits_kills_its_epoch(run):
    chain = Chain()
    chain.receive(1, 3, [4])
    chain.commit(4, 5, 6)
    assert not chain.receive(1, 4, run)
    assert not chain.receive(1, 4 + len(run), [7, 8])
    assert chain.tokens == []


def test_an_epoch_may_start_long_before_the_last_commit():
    chain = Chain()
    assert chain.receive(1, 0, [1, 2, 3, 4])
    assert chain.tokens == [4]


def test_a_flood_takes_no_more_room_than_the_credit_ever_given():
    chain = Chain(longest=4)
    assert chain.receive(1, 3, [4, 5, 6, 7])
    for position in range(7, 50):
        assert not chain.receive(1, position, [0])
    assert chain.tokens == []
    assert not chain.receive(2, 3, [0] * 1000)
    assert chain.tokens == []
    assert chain.receive(3, 3, [4])
    assert chain.tokens == [4]


def test_an_empty_run_is_useless_and_harmless():
    chain = Chain()
    assert not chain.receive(1, 3, [])
    assert chain.receive(1, 3, [4])
    assert chain.tokens == [4]


def test_an_alternate_replaces_the_chain_that_it_contradicts():
    chain = Chain()
    chain.receive(1, 3, [4, 5, 6])
    assert chain.receive_alternate(2, 4, 50, [51, 52])
    chain.commit(4, 50)
    assert chain.has_switched
    assert chain.tokens == [51, 52]
    assert not chain.receive(1, 6, [7]), "the epoch has ended"
    assert chain.receive(2, 7, [53])
    assert chain.tokens == [51, 52, 53]


@pytest.mark.parametrize(
    "committed", [[4, 60], [50], [4, 50, 8]], ids=["another token", "another place", "more behind"]
)
def test_an_alternate_to_another_token_is_useless(committed):
    chain = Chain()
    chain.receive(1, 3, [4, 5, 6])
    chain.receive_alternate(2, 4, 50, [51, 52])
    chain.commit(*committed)
    assert not chain.has_switched
    assert chain.tokens == []
    assert chain.receive(3, len(chain.committed), [9])


def test_an_alternate_that_comes_late_is_a_run():
    chain = Chain()
    chain.receive(1, 3, [4, 5, 6])
    chain.commit(4, 50)
    assert not chain.receive_alternate(2, 4, 60, [61])
    assert chain.receive_alternate(3, 4, 50, [51, 52])
    assert chain.tokens == [51, 52]
    assert chain.receive(3, 7, [53])


@pytest.mark.parametrize("from_epoch", [0, 1], ids=["an older draft", "a draft that says so"])
def test_an_alternate_to_a_late_run_comes_later_still(from_epoch: int):
    chain = Chain()
    chain.commit(4, 50)
    assert not chain.receive(1, 3, [4, 5, 6])
    assert chain.receive_alternate(2, 4, 50, [51, 52], from_epoch=from_epoch)
    assert chain.receive_alternate(3, 4, 50, [53], from_epoch=from_epoch), "the latest one counts"
    assert chain.tokens == [53]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_late_alternate_to_a_chain_that_was_wrong_is_useless(is_known: bool):
    chain = Chain()
    if is_known:
        chain.receive(1, 3, [4, 5, 6])
    chain.commit(40, 50)
    if not is_known:
        chain.receive(1, 3, [4, 5, 6])
    assert not chain.receive_alternate(2, 4, 50, [51, 52]), "it would follow 4, not 40"
    assert chain.tokens == []


@pytest.mark.parametrize("is_late", [True, False])
def test_an_alternate_to_a_replaced_chain_is_useless(is_late: bool):
    chain = Chain()
    chain.receive(1, 3, [4, 5, 6])
    if is_late:
        chain.commit(40)
    assert chain.receive_alternate(2, 3, 40, [41, 42], from_epoch=1)
    if not is_late:
        chain.commit(40)
    assert chain.tokens == [41, 42]
    assert not chain.receive_alternate(3, 4, 50, [51], from_epoch=1), "it would follow 4"
    assert chain.receive_alternate(4, 4, 60, [61], from_epoch=2)
    chain.commit(50)
    assert chain.tokens == []


def test_alternates_decided_or_taken_back_are_forgotten():
    chain = Chain()
    chain.receive(1, 3, [4, 5, 6])
    chain.receive_alternate(2, 3, 40, [41])
    chain.receive_alternate(3, 5, 60, [61])
    chain.commit(4, 5)
    chain.chain.rewind()
    chain.receive(4, 5, [6])
    chain.commit(60)
    assert not chain.has_switched
    assert chain.tokens == []


def test_a_flood_of_alternates_takes_no_room():
    chain = Chain(longest=8)
    chain.receive(1, 3, [4, 5, 6])
    kept = sum(chain.receive_alternate(2 + number, 4 + number, 9, [10]) for number in range(1000))
    assert 0 < kept < 100
    assert not chain.receive_alternate(2000, 4, 9, [10] * 9)
    assert not chain.receive_alternate(2000, 4, 9, [])
    assert not chain.receive_alternate(1, 4, 9, [10]), "an epoch that has begun"


def test_a_flood_of_epochs_is_not_heard_until_the_next_commit():
    chain = Chain()
    useful = [chain.receive(epoch, 3, [4]) for epoch in range(1, 1001)]
    assert useful == [True] * 64 + [False] * 936
    chain.commit(4)
    assert chain.receive(1001, 4, [5])
    assert chain.tokens == [5]


def test_a_repeated_alternate_is_useful_once():
    chain = Chain()
    chain.receive(1, 3, [4, 5, 6])
    assert [chain.receive_alternate(epoch, 4, 50, [51]) for epoch in range(2, 100)] == [True] + [False] * 97
    assert not chain.receive_alternate(100, 3 + 100, 50, [51]), "nobody was asked to run so far ahead"
    chain.commit(4, 50)
    assert chain.receive(99, 6, [52]), "the latest one counts"


def test_an_alternate_to_a_chain_the_draft_has_left_is_useless():
    chain = Chain()
    chain.receive(1, 3, [4, 5, 6])
    chain.commit(9)
    chain.receive_alternate(2, 4, 50, [51])
    assert chain.receive(3, 4, [60])
    chain.commit(50)
    assert not chain.has_switched
    assert chain.tokens == []
