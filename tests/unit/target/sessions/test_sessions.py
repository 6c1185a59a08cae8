"""Sessions of a model: names, times by the test's clock, and that their pinned blocks are freed, each once."""

from types import SimpleNamespace
from typing import Any

import pytest

from services.target.sessions.session import Session, SessionExistsError, SessionQuotaError, UnknownSessionError
from services.target.sessions.session_quota import SessionLimits
from services.target.sessions.sessions import Sessions

LIMITS = SessionLimits(blocks=10, blocks_each=5, sessions=4, sessions_each=2)
SIZE = 4


class Held:
    """Sessions on a clock that stands, and the calls to pin and to free blocks."""

    def __init__(self) -> None:
        self.now = 100.0
        self.held: list[Any] = []
        self.let_go: list[Any] = []
        self.sessions = Sessions(
            LIMITS, block_size=SIZE, hold=self.held.append, let_go=self.let_go.append, clock=lambda: self.now
        )

    def open(self, name: str, *, owner: str = "", num_tokens: int = 9, ttl: float = 10.0) -> Session:
        session = self.begin(name, owner=owner, num_tokens=num_tokens, ttl=ttl)
        session.pinned = SimpleNamespace(name=name)
        self.sessions.open(session)
        return session

    def begin(self, name: str, *, owner: str = "", num_tokens: int = 9, ttl: float = 10.0) -> Session:
        tokens = tuple(range(num_tokens))
        return self.sessions.begin(owner, name, tokens, salt="", ttl=ttl)


def test_a_sessions_end_follows_its_last_use() -> None:
    held = Held()
    session = held.open("a")
    held.now += 9
    assert held.sessions.seconds_left(session) == 1
    assert held.sessions.find("", "a") is session
    assert held.sessions.seconds_left(session) == 1  # looking it up is no use of it
    assert held.sessions.use("", "a") is session
    assert (held.sessions.seconds_left(session), held.held) == (10, [session.pinned])
    held.now += 10
    with pytest.raises(UnknownSessionError, match="'a'"):
        held.sessions.use("", "a")
    assert held.let_go == [session.pinned]
    assert held.sessions.quota.num_blocks == 0


def test_a_session_being_computed_is_hidden_but_keeps_its_name() -> None:
    held = Held()
    session = held.begin("a")
    assert (held.sessions.num_open, held.sessions.of("")) == (0, [])
    with pytest.raises(UnknownSessionError):
        held.sessions.find("", "a")
    with pytest.raises(SessionExistsError, match="'a'"):
        held.begin("a")
    held.now += 1000
    held.sessions.open(session)
    assert held.sessions.seconds_left(session) == 10
    assert held.sessions.of("") == [session]


def test_a_name_is_its_owner_s() -> None:
    held = Held()
    first, second = held.open("a", owner="x"), held.open("a", owner="y")
    assert (held.sessions.of("x"), held.sessions.of("y")) == ([first], [second])
    held.sessions.drop(first)
    assert held.sessions.find("y", "a") is second
    with pytest.raises(UnknownSessionError):
        held.sessions.find("x", "a")


def test_shared_blocks_count_once_and_are_freed_by_the_last_user() -> None:
    held = Held()
    sizes = {4: 0, 5: 1, 9: 2, 21: 5}  # tokens, and full blocks before the last of them
    for num_tokens, num_blocks in sizes.items():
        assert len(held.begin(str(num_tokens), num_tokens=num_tokens).blocks) == num_blocks
    assert held.sessions.quota.num_blocks == 5
    held.sessions.drop(held.sessions._sessions["", "21"])
    assert held.sessions.quota.num_blocks == 2


def test_a_session_that_is_refused_leaves_nothing() -> None:
    held = Held()
    held.open("a", owner="x", num_tokens=21)
    for _ in range(2):
        with pytest.raises(SessionQuotaError, match="needs 1 more KV blocks, and 5 of 5 are held") as refused:
            held.begin("b", owner="x", num_tokens=25)
        assert refused.value.of_owner
    assert held.begin("b", owner="x", num_tokens=13).blocks  # which the other has already
    with pytest.raises(SessionQuotaError, match="there are 2, of 2 that may be"):
        held.begin("c", owner="x", num_tokens=2)
    held.begin("a")
    with pytest.raises(SessionQuotaError, match="needs 6 more KV blocks, and 5 of 10 are held") as full:
        held.begin("b", num_tokens=45)
    assert not full.value.of_owner
    held.begin("b", num_tokens=41)
    with pytest.raises(SessionQuotaError, match="there are 4, of 4 that may be"):
        held.begin("c", owner="y", num_tokens=2)


def test_salts_and_prefixes_distinguish_blocks() -> None:
    held = Held()
    first = held.sessions.begin("", "a", (1, 2, 3, 4, 5), salt="", ttl=1)
    salted = held.sessions.begin("", "b", (1, 2, 3, 4, 5), salt="s", ttl=1)
    behind = held.sessions.begin("", "c", (9, 9, 9, 9, 1, 2, 3, 4, 5), salt="", ttl=1)
    assert len({*first.blocks, *salted.blocks, *behind.blocks}) == held.sessions.quota.num_blocks == 4
