"""Grammars made to end a service or to keep it busy do neither, and delay no other request."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from outrider import AsyncClient, Client, InvalidArgument
from services.draft_protocol.conversions import write_grammar
from services.draft_protocol.protocol import PROTOCOL_VERSION
from services.engine.decoder.native import NOISE_VERSION
from services.engine.text.tokenizer import Tokenizer
from tests.e2e.harness.draft_rig import PATIENCE_SECONDS, Service
from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET
from tests.harness.further import all_with, further
from tests.harness.grammar.hostile_grammars import DOTS, HOSTILE, SLOW
from tests.rpc.harness.draft_link import PROMPT, REFUSED, Link

_MOST_MORE_MEMORY = 256 << 20  # bytes
_SMALL = ("--kv-blocks", "64")  # their memory, taken after the start, is little beside that


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service("target", DEMO_TARGET, tmp_path_factory.mktemp("target"), *_SMALL)
    service.start()
    try:
        asyncio.run(service.logs("serving target"))
        yield service
    finally:
        service.kill()


def assert_serves(service: Service) -> None:
    with Client(service.address, max_retries=0) as client:
        assert client.generate("import os\n", max_tokens=4, ignore_eos=True, timeout=PATIENCE_SECONDS).token_ids


@pytest.mark.parametrize("name", all_with(HOSTILE, "ambiguous rules", "a long forced text"))
def test_a_hostile_grammar_is_refused_and_the_service_lives(target: Service, name: str):
    source = HOSTILE[name]
    before = target.peak_bytes
    grammar = {source.kind.name.lower(): source.texts[0]}
    with Client(target.address, max_retries=0) as client, pytest.raises(InvalidArgument) as refused:
        client.generate("a", max_tokens=4, timeout=PATIENCE_SECONDS, **grammar)
    (violation,) = refused.value.violations
    assert violation.field == f"grammar.{source.kind.name.lower()}"
    assert "cannot be followed" in violation.description
    assert_serves(target)
    assert target.peak_bytes < before + _MOST_MORE_MEMORY


@pytest.mark.parametrize("name", all_with(["chained rules", "intersections"], "intersections"))
async def test_a_draft_refuses_a_hostile_grammar_too_and_lives(tmp_path: Path, name: str):
    draft = Service("draft", DEMO_DRAFT, tmp_path)
    draft.start()
    try:
        await draft.logs("drafting with")
        await asyncio.to_thread(_refuse, draft, name)
    finally:
        draft.kill()


def _refuse(draft: Service, name: str) -> None:
    link = Link(
        SimpleNamespace(address=draft.address),
        min_protocol_version=PROTOCOL_VERSION,
        max_protocol_version=PROTOCOL_VERSION,
        noise_version=NOISE_VERSION,
        vocabulary_fingerprint=Tokenizer.from_folder(DEMO_DRAFT).fingerprint(),
    )
    link.next()
    link.open(1, grammar=write_grammar(HOSTILE[name]))
    assert link.released() == (1, REFUSED)
    link.begin(PROMPT, 2, sequence_id=2)
    link.predictions(2, position=len(PROMPT), sequence_id=2)
    link.close()


@pytest.mark.parametrize("regex", [further(DOTS, id="refused at once"), pytest.param(SLOW.texts[0], id="tried")])
async def test_abandoned_grammars_delay_no_request_and_no_shutdown(tmp_path: Path, regex: str):
    service = Service("target", DEMO_TARGET, tmp_path, *_SMALL)
    service.start()
    try:
        await service.logs("serving target")
        before = service.peak_bytes
        clients = [AsyncClient(service.address, max_retries=0) for _ in range(6)]
        calls = [asyncio.create_task(client.generate("a", regex=regex)) for client in clients]
        await asyncio.wait(calls, timeout=0.5)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await asyncio.to_thread(assert_serves, service)
        assert service.peak_bytes < before + _MOST_MORE_MEMORY
        for client in clients:
            await client.close()
        assert await asyncio.to_thread(service.terminate, PATIENCE_SECONDS) == 0
    finally:
        service.kill()
