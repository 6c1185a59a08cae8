"""A draft with adapters of its own: it predicts the tokens that the target draws with adapters of the same names."""

from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from outrider import Client, Result
from tests.harness.models.lora_folders import write_adapter
from tests.harness.servers.server import target_server
from tests.rpc.harness.draft_link import RunningDraft

TEXT = "one two three"
ASKED = {"max_tokens": 60, "ignore_eos": True, "speculation": "always", "num_predictions": 4}

MOST_TRIES = 5  # of what a draft need not predict in time


@pytest.fixture(scope="module")
def folders(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    path = tmp_path_factory.mktemp("loras")
    first, second = (write_adapter(path / name, model, seed=seed) for seed, name in enumerate(("first", "second")))
    return first, second


def rate_of_predictions(ask: Callable[[], Result], expected: Result, tries: Iterable[int]) -> float:
    """How often the draft was right in the first answer that has predictions, or else in the last."""
    for _ in tries:
        answer = ask()
        assert (answer.token_ids, answer.text) == (expected.token_ids, expected.text)
        if answer.speculation.predicted > 3:
            break
    return answer.speculation.draft_acceptance_rate


@pytest.mark.parametrize("temperature", [pytest.param(0.0, marks=pytest.mark.exhaustive), 0.9])
def test_a_draft_predicts_by_its_own_adapter_of_the_same_name(
    model: Path, folders: tuple[Path, Path], temperature: float
) -> None:
    """The two services have one model, so that with the same adapters the draft is always right."""
    own, other = folders
    sampling = {"seed": 5, "temperature": temperature}
    with target_server(model, loras={"a": own, "b": other}, lookup=False) as alone, Client(alone.address) as client:
        expected = {name: client.generate(TEXT, lora=name, **sampling, **ASKED) for name in (None, "a", "b")}
    assert len({each.token_ids for each in expected.values()}) == 3
    rates: dict[str, dict[str | None, float]] = {}
    for has, loras in (("the same", {"a": own}), ("none", {}), ("another", {"a": other})):
        with (
            closing(RunningDraft(model, loras=loras)) as draft,
            target_server(model, loras={"a": own, "b": other}, drafts=[draft.address], lookup=False) as target,
            Client(target.address) as client,
        ):
            target.wait_for_draft()
            rates[has] = {}
            for name in ("a", "b", None):
                is_right = name is None or (has, name) == ("the same", "a")
                # A draft that is wrong may never be in time; one that is right is, however busy the machine.
                tries = count() if is_right else range(MOST_TRIES)
                ask = partial(client.generate, TEXT, lora=name, **sampling, **ASKED)
                rates[has][name] = rate_of_predictions(ask, expected[name], tries)
    assert min(each[None] for each in rates.values()) > 0.9  # sequences without an adapter have none in the draft
    assert rates["the same"]["a"] > 0.9
    assert max(rates["none"]["a"], rates["another"]["a"], rates["the same"]["b"]) < 0.6
