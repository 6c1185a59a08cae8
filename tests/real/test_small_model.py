"""A published model of 135M parameters, where it can be had: its logits, what it says, a kill that changes no byte."""

from pathlib import Path

import pytest

from outrider import Client, Message
from services.cli.service_pair import ModelPair, running_pair
from services.engine.decoder.native import isas
from tests.e2e.matrix.cells import Cell, Setup
from tests.real.equality import run_cells
from tests.real.fetch import DEFAULT_CACHE, FetchError, fetch
from tests.real.parity import measure_parity
from tests.real.published import SMALL

pytestmark = pytest.mark.timeout(1200)  # whichever comes first fetches a hundred megabytes


@pytest.fixture(scope="session")
def small() -> Path:
    """Its file, fetched once on each machine."""
    try:
        return fetch(SMALL, DEFAULT_CACHE)
    except FetchError as error:
        pytest.skip(f"NOT TESTED ON A PUBLISHED MODEL: {error}")


@pytest.mark.lengthy
@pytest.mark.filterwarnings("ignore")
def test_the_small_models_logits_are_those_of_transformers(small: Path) -> None:
    parity = measure_parity(small, num_prompts=2)
    assert parity.num_prompts == 2
    assert parity.is_close, parity


def test_the_small_model_knows_the_capital_of_france(small: Path) -> None:
    question = [Message("user", "What is the capital of France?")]
    exact = ["--weights", "f32"]  # rounding decides between two ways to begin
    with running_pair(ModelPair(small, None), options=exact) as pair, Client(pair.target.address) as client:
        answer = client.generate(question, temperature=0.0, max_tokens=40)
    assert "Paris" in answer.text
    assert answer.finish_reason.name == "STOP_TOKEN"


@pytest.mark.exhaustive
@pytest.mark.parametrize(("draft", "server"), [("killed", "spared"), ("good", "killed")])
def test_no_kill_changes_a_byte(small: Path, draft: str, server: str) -> None:
    """Its draft is itself in four bits."""
    setup = Setup(model="small", isa=isas()[0], threads=2, source="draft", weights="int8")
    cell = Cell(setup=setup, setting="greedy", company="others", fate=server, predictions=draft, draft_weights="int4")
    (result,) = run_cells([cell], target=small, draft=small, say=print)
    assert result.problems == []
