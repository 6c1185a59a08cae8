"""Chaos in short: every answer is whole, and the one that an undisturbed target gives."""

from pathlib import Path

import pytest

from tests.chaos.chaos import Chaos
from tests.chaos.stand import ChaosStand


@pytest.mark.lengthy
@pytest.mark.timeout(900)  # services are started and killed at the machine's own pace
async def test_faults_cause_no_error_and_change_no_byte(tmp_path: Path) -> None:
    async with ChaosStand(tmp_path) as stand:
        chaos = Chaos(stand, seconds=0, seed=1, num_callers=2, pace=0.1)
        await chaos.run()
    assert chaos.tally.problems == []
