"""AcceptanceRates and LengthController where a draft may end a run by itself."""

import pytest

from services.target.sequence.sequence import Sequence
from services.target.speculation.policy.acceptance_rates import AcceptanceRates
from services.target.speculation.policy.policy_config import PolicyConfig
from tests.unit.sequences import make_request, make_sequence
from tests.unit.simulation import SimulatedDraft, Simulation, World
from tests.unit.target.speculation.policy.test_length_controller import CODER, SYNTHETIC


async def test_what_a_draft_did_not_predict_is_neither_counted_on_nor_held_against_it():
    rates, sequence = AcceptanceRates(PolicyConfig()), make_sequence(make_request())
    for _ in range(200):
        rates.observe(sequence, 4, 4, has_ended=False)
        rates.observe(sequence, 2, 2, has_ended=True)
    first, second, third, fourth = rates.offered[:4]
    assert first == second == 1.0
    assert third == pytest.approx(0.5, abs=0.05)
    assert fourth == pytest.approx(third)
    (probabilities,) = rates.probabilities([sequence])
    assert probabilities[1] > 0.95
    assert probabilities[2] == pytest.approx(0.5, abs=0.06)


def least_chances(world: World) -> list[float]:
    """All that the draft is told, behind a rehearsal."""
    told: list[float] = []

    class Listening(SimulatedDraft):
        def ask(self, sequence: Sequence, limit: int, least_chance: float = 0.0) -> None:
            told.append(least_chance if limit else 0.0)
            super().ask(sequence, limit, least_chance)

    simulation = Simulation(world, 1, Listening).rehearse()
    assert set(told) == {0.0}, "a rehearsal wants all"
    simulation.run(4)
    return sorted(chance for chance in told if chance)


async def test_the_dearer_a_prediction_the_surer_it_must_be():
    dear, cheap = least_chances(CODER), least_chances(SYNTHETIC)
    assert 0.3 < dear[len(dear) // 2] <= 0.85
    assert cheap[len(cheap) // 2] < dear[len(dear) // 2]
