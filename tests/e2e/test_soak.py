"""The soak in short: random requests while the draft is killed and restarted."""

import asyncio
from pathlib import Path

from tests.e2e.soak import running_soak


def test_nothing_changes_or_fails_or_stays_while_the_draft_is_killed(tmp_path: Path):
    with running_soak(tmp_path, seconds=20, seed=1) as soak:
        asyncio.run(soak.run())
    assert soak.tally.problems == []
