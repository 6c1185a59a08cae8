"""llama.cpp's and exllamav2's own samplers make the same of random rows, or something else for a known reason."""

from dataclasses import replace

import pytest

from tests.native.harness.sampling_reference import Doubles, Floats, Settings
from tests.peers import page
from tests.peers.cases import EXLLAMA, EXLLAMA_CASES, LLAMA, LLAMA_CASES, UNEXPLAINED, Case
from tests.peers.comparison import Peer, compared
from tests.peers.draws import compared_draws
from tests.peers.exllama_samplers import ExllamaSamplers
from tests.peers.llama_samplers import LlamaSamplers
from tests.peers.sources import MissingPeerError

CASES = (*LLAMA_CASES, *EXLLAMA_CASES)
ROWS = 700


@pytest.fixture(scope="module")
def peers() -> dict[str, Peer]:
    try:
        return {LLAMA: LlamaSamplers(), EXLLAMA: ExllamaSamplers()}
    except MissingPeerError as error:
        pytest.skip(f"not installed: {error}")


@pytest.mark.parametrize("case", CASES, ids=[f"{case.peer} {case.name}" for case in CASES])
def test_each_difference_has_a_known_reason(peers: dict[str, Peer], case: Case) -> None:
    tally = compared(case, peers[case.peer], ROWS)
    assert tally.rows >= ROWS
    assert UNEXPLAINED not in tally.reasons
    # Each reason is one of some rows alone, and the rest are the same.
    assert tally.reasons.total() < tally.rows


def test_numbers_fall_on_the_same_tokens(peers: dict[str, Peer]) -> None:
    assert UNEXPLAINED not in compared_draws(peers[EXLLAMA], ROWS).reasons


class Careless:
    """A peer that is asked for something else than it does."""

    def __init__(self, peer: Peer, **asked: float) -> None:
        self._peer, self._asked = peer, asked

    def shares(self, name: str, logits: Floats, asked: Settings, history: list[int]) -> Doubles:
        return self._peer.shares(name, logits, replace(asked, **self._asked), history)


@pytest.mark.parametrize("case", LLAMA_CASES, ids=[case.name for case in LLAMA_CASES])
def test_a_peer_with_another_number_is_found_out(peers: dict[str, Peer], case: Case) -> None:
    other = 7 if case.name == "top_k" else 0.43
    tally = compared(case, Careless(peers[LLAMA], **{case.number: other}), ROWS)
    assert tally.reasons[UNEXPLAINED] > ROWS / 10


def test_the_page_has_a_line_of_each() -> None:
    text = page.PAGE.read_text()
    for peer, name in [(case.peer, case.name) for case in CASES] + [(EXLLAMA, "skew")]:
        assert text.count(page.name_of(peer, name)) == 1
    assert UNEXPLAINED not in text
