"""LengthController where a draft may end a run by itself."""

from services.target.sequence.sequence import Sequence
from tests.unit.simulation import SimulatedDraft, Simulation, World
from tests.unit.target.speculation.policy.test_length_controller import CODER, SYNTHETIC


def least_chances(world: World) -> list[float]:
    """The least chances that the draft is sent, after a rehearsal."""
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
