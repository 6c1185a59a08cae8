"""The fuzz in short: any request is answered, and neither service ends, hangs or keeps anything of it."""

from pathlib import Path

from tests.fuzz.fuzz import Fuzz
from tests.fuzz.fuzzed_service import fuzzed_services


async def test_random_requests_and_mutated_frames_do_no_harm(tmp_path: Path) -> None:
    async with fuzzed_services(tmp_path) as services:
        fuzz = Fuzz(*services, seed=1)
        await fuzz.run(num_requests=400, num_frames=100)
    assert fuzz.problems == []
    assert {"StreamGenerate OK", "StreamGenerate INVALID_ARGUMENT", "Tokenize OK"} <= fuzz.statuses.keys()
    assert any(status.startswith("Draft ") for status in fuzz.statuses)
