"""The fuzz in short: whatever comes is answered, and neither service ends, hangs or keeps anything of it."""

from pathlib import Path

import pytest

from tests.e2e.draft_rig import Service
from tests.e2e.models import DEMO_DRAFT
from tests.fuzz.fuzz import Fuzz, call_of_draft, fuzzed_services
from tests.fuzz.mutated_frames import send


async def test_random_requests_and_mutated_frames_do_no_harm(tmp_path: Path) -> None:
    async with fuzzed_services(tmp_path) as services:
        fuzz = Fuzz(*services, seed=1)
        await fuzz.run(num_requests=400, num_frames=100)
    assert fuzz.problems == []
    assert {"StreamGenerate OK", "StreamGenerate INVALID_ARGUMENT", "Tokenize OK"} <= fuzz.statuses.keys()
    assert any(status.startswith("Draft ") for status in fuzz.statuses)


@pytest.mark.xfail(reason="grpcio 1.85 ends its server at a path that is not UTF-8; a proxy must keep it away")
async def test_a_path_that_is_not_utf8_ends_no_service(tmp_path: Path) -> None:
    draft = Service("draft", DEMO_DRAFT, tmp_path)
    draft.start()
    try:
        await draft.logs("drafting with")
        await send(draft.address, call_of_draft(b"Other"))
        assert draft.is_running
        await send(draft.address, call_of_draft(b"\xf5"))
        await send(draft.address, call_of_draft(b"Other"))
        assert "UnicodeDecodeError" not in draft.log()
    finally:
        draft.kill()
