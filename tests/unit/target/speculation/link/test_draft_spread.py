"""DraftSpread: each sequence has one of the drafts that are there, and another when that is lost."""

from services.draft_protocol.messages import Close, DraftLoad, Open
from services.target.sequence.sequence import Sequence
from services.target.speculation.link.draft_spread import DraftSpread
from services.target.speculation.link.remote_predictor import RemotePredictor
from services.target.speculation.link.shared_predictor import SharedPredictor
from services.target.speculation.policy.policy_config import PolicyConfig
from services.target.speculation.predictors.predictor import PredictionRequest
from tests.unit.sequences import draw, make_request, make_sequence

MUCH = 1 << 20  # tokens that a draft has room for


class Pool:
    """Drafts that are there, with nothing to do and room for eight sequences each."""

    def __init__(self, *names: str) -> None:
        self.drafts = {name: RemotePredictor(PolicyConfig(longest_wait=0.0), on_outgoing=bool) for name in names}
        spread = DraftSpread([*self.drafts.values()])
        self._shared = {name: SharedPredictor(draft, spread) for name, draft in self.drafts.items()}
        for name in names:
            self.connect(name)

    def connect(self, name: str) -> None:
        self.load(name)
        self.drafts[name].connected(run_ahead=8)

    def disconnect(self, name: str) -> None:
        self.drafts[name].disconnected(f"{name} is gone")

    def load(self, name: str, *, others: int = 0, free_tokens: int = MUCH, max_sequences: int = 8) -> None:
        self.drafts[name].hear_load(DraftLoad(others, free_tokens), max_sequences)

    def add(self, prompt: bytes = b"Hello") -> Sequence:
        sequence = make_sequence(make_request(prompt))
        self.commit(sequence)
        return sequence

    def commit(self, sequence: Sequence) -> None:
        """As the engine calls it: every predictor hears of every sequence."""
        for shared in self._shared.values():
            sequence.speculation.follow(shared.commit(sequence))
            if shared.serves(sequence):
                shared.predict([PredictionRequest(sequence, 4)])

    def close(self, sequence: Sequence) -> None:
        for shared in self._shared.values():
            shared.close(sequence)

    def whose(self, sequence: Sequence) -> str:
        (name,) = (name for name, shared in self._shared.items() if shared.serves(sequence))
        return name

    def sent(self, name: str) -> list[object]:
        return [*self.drafts[name].outgoing()]


async def test_drafts_with_as_much_to_do_take_turns():
    pool = Pool("a", "b", "c")
    assert sorted(pool.whose(pool.add()) for _ in range(9)) == [*"aaabbbccc"]


async def test_a_sequence_is_sent_to_its_own_draft_only():
    pool = Pool("a", "b")
    first, second = pool.add(), pool.add()
    assert [pool.whose(first), pool.whose(second)] == ["a", "b"]
    for name, sequence in (("a", first), ("b", second)):
        opened = [message for message in pool.sent(name) if isinstance(message, Open)]
        assert opened == [Open.of(1, sequence.request)]
    pool.close(second)
    assert (pool.sent("a"), pool.sent("b")) == ([], [Close(1)])


async def test_a_drafts_other_targets_count_against_its_capacity():
    pool = Pool("small", "large")
    pool.load("small", others=1, max_sequences=4)
    pool.load("large", others=10, max_sequences=64)
    assert [pool.whose(pool.add()) for _ in range(6)] == ["large"] * 6
    pool.load("large", others=32, max_sequences=64)
    assert pool.whose(pool.add()) == "small"


async def test_a_draft_without_room_for_a_sequence_is_passed_over():
    pool = Pool("full", "free")
    pool.load("full", free_tokens=4)
    pool.load("free", others=3)
    assert [pool.whose(pool.add(b"longer")), pool.whose(pool.add(b"tiny"))] == ["free", "full"]


async def test_a_newly_connected_draft_is_tried_first():
    pool = Pool("old", "new")
    for _ in range(3):
        pool.close(pool.add())
    pool.disconnect("new")
    pool.close(pool.add())
    pool.connect("new")
    assert pool.whose(pool.add()) == "new"


async def test_sequences_of_a_lost_draft_move_to_another_and_stay():
    pool = Pool("a", "b")
    moved, stays = pool.add(), pool.add()
    pool.sent("a"), pool.sent("b")
    pool.disconnect("a")
    draw(moved, b" there")
    for sequence in (moved, stays):
        pool.commit(sequence)
    assert [pool.whose(moved), pool.whose(stays)] == ["b", "b"]
    opened, commit, *_ = pool.sent("b")
    assert opened == Open.of(2, moved.request)
    assert commit.token_ids == [*b"Hello there"]
    pool.connect("a")
    for sequence in (moved, stays):
        pool.commit(sequence)
    assert (moved.speculation.losses, moved.speculation.returns) == (1, 1)
    assert (stays.speculation.losses, stays.speculation.returns) == (0, 0)
    assert pool.whose(moved) == "b"
    assert pool.sent("a") == []


async def test_a_sequence_without_draft_takes_the_first_that_connects():
    pool = Pool("a", "b")
    pool.disconnect("a")
    pool.disconnect("b")
    sequence = pool.add()
    assert pool.drafts[pool.whose(sequence)].absence
    for name in ("b", "a"):
        pool.connect(name)
        pool.commit(sequence)
    assert pool.whose(sequence) == "b"
    pool.close(sequence)
    assert (pool.sent("a"), pool.sent("b")) == ([], [])
