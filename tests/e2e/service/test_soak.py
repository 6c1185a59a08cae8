"""The soak in short: answers that end in every way while the draft is killed and both services are administered."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.soak.soak import running_soak


@pytest.mark.exhaustive
def test_a_soak_finds_no_problem(tmp_path: Path):
    with running_soak(tmp_path, seconds=20, seed=1) as (soak, troubles):
        asyncio.run(soak.run(troubles))
    assert soak.tally.problems == []
