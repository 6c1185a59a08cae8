"""GoodputSearch: it comes near the lengths at which tokens per second are most, by the equation of the docs."""

import itertools
from collections.abc import Sequence as Seq
from dataclasses import replace

import pytest

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.acceptance_rates import AcceptanceRates
from services.target.speculation.policy.goodput_search import GoodputSearch
from services.target.speculation.policy.pass_cost import PassCost
from services.target.speculation.policy.policy_config import PolicyConfig, SpeedupThreshold
from services.target.speculation.policy.speculation_plan import AutoSequence
from services.target.speculation.policy.step_cost import StepCost
from tests.harness.servers.silent_predictor import SilentPredictor
from tests.unit.sequences import make_request, make_sequence

CONFIG = PolicyConfig()
MAX_LENGTH = 4


class Slow(SilentPredictor):
    """Takes so many seconds, however much is asked of it, and so many for prefill."""

    def __init__(self, wait: float, prefill: float = 0.0) -> None:
        self.wait, self.prefill = wait, prefill

    def wait_for(self, sequence: Sequence, count: int) -> float:
        return self.wait

    def catch_up(self, sequence: Sequence) -> float:
        return self.prefill


class Setting:
    """Three streams, one of which fares well, one as the others, and one badly."""

    def __init__(self, predictor: Slow, row: float, *, slowest: float = 0.0) -> None:
        """A pass takes so many seconds longer for each row; no stream's speedup may be less than `slowest`."""
        self.predictor, self.passes = predictor, PassCost(CONFIG.pass_cost)
        for num_rows in range(3, 32):
            self.passes.observe(num_rows, 0.05 + row * num_rows)
        self.rates = AcceptanceRates(CONFIG.acceptance, num_positions=15)
        self.sequences = [AutoSequence(make_sequence(make_request(max_tokens=200)), MAX_LENGTH) for _ in range(3)]
        for accepted in (4, 4, 3, 4):
            self.rates.observe(self.sequences[0].sequence, 4, accepted)
            self.rates.observe(self.sequences[2].sequence, 4, 4 - accepted)
        config = replace(CONFIG.search, to_continue=SpeedupThreshold(mean=1.0, slowest=slowest))
        self.search = GoodputSearch(StepCost(predictor, self.passes, CONFIG.draft), self.rates, config)

    def slowest(self, lengths: Seq[int]) -> float:
        tokens = [
            1 + sum(itertools.islice(self.rates.run_probabilities(each.sequence, is_cautious=True), length))
            for each, length in zip(self.sequences, lengths, strict=True)
        ]
        step = self.passes.seconds(3 + sum(lengths)) + (self.predictor.wait if any(lengths) else 0.0)
        return min(tokens) * self.passes.seconds(3) / step

    def goodput(self, lengths: Seq[int]) -> float:
        tokens = len(lengths) + sum(
            sum(itertools.islice(self.rates.run_probabilities(each.sequence), length))
            for each, length in zip(self.sequences, lengths, strict=True)
        )
        wait = self.predictor.wait if any(lengths) else 0.0
        prefill = sum(self.predictor.prefill / 100 for length in lengths if length)  # half of the tokens that are left
        return tokens / (self.passes.seconds(len(lengths) + sum(lengths)) + wait + prefill)


@pytest.mark.parametrize("row", [0.0001, 0.001, 0.003, 0.01, 0.1])
@pytest.mark.parametrize("wait", [0.0, 0.01, 0.05, 0.5])
@pytest.mark.parametrize("slowest", [0.0, 0.95])
async def test_the_goodput_is_nearly_the_highest_of_all_lengths_that_slow_nobody(
    row: float, wait: float, slowest: float
) -> None:
    setting = Setting(Slow(wait), row, slowest=slowest)
    best = setting.search.best(setting.sequences, num_rows=3, spare_rows=64)
    every = itertools.product(range(MAX_LENGTH + 1), repeat=3)
    allowed = [lengths for lengths in every if not any(lengths) or setting.slowest(lengths) >= slowest]
    assert tuple(best.lengths) in allowed
    assert setting.goodput(best.lengths) >= 0.97 * max(map(setting.goodput, allowed))
    assert best.amortized_speedup == pytest.approx(setting.goodput(best.lengths) / setting.goodput([0, 0, 0]))


async def test_every_stream_is_as_fast_as_the_slowest_has_to_be() -> None:
    boldest = Setting(Slow(0.01), 0.003)
    fair = Setting(Slow(0.01), 0.003, slowest=1.3)
    best = boldest.search.best(boldest.sequences, num_rows=3, spare_rows=64)
    fairest = fair.search.best(fair.sequences, num_rows=3, spare_rows=64)
    assert best.slowest_speedup < 1.3 <= fairest.slowest_speedup
    assert fairest.amortized_speedup < best.amortized_speedup


async def test_prefill_is_shared_out_over_the_passes_to_come() -> None:
    setting = Setting(Slow(0.01, prefill=0.2), 0.001)
    best = setting.search.best(setting.sequences, num_rows=3, spare_rows=64)
    assert best.prefill == pytest.approx(0.2 * sum(map(bool, best.lengths)))
    assert 1 < best.amortized_speedup < best.speedup
    assert best.amortized_speedup == pytest.approx(setting.goodput(best.lengths) / setting.goodput([0, 0, 0]))


async def test_what_is_too_dear_is_left_out() -> None:
    setting = Setting(Slow(0.01, prefill=0.2), 0.001)
    most = setting.search.best(setting.sequences, num_rows=3, spare_rows=64, max_prefill=0.3)
    assert sum(map(bool, most.lengths)) == 1
    assert not any(setting.search.best(setting.sequences, num_rows=3, spare_rows=64, max_risk=0.014).lengths)
