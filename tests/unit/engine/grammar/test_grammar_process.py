"""GrammarProcess: costly grammars are refused, whatever they do to the process that tries them."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.engine.grammar import process as grammar_process
from services.engine.grammar.compiler import GrammarError
from services.engine.grammar.process import GrammarProcess
from services.engine.grammar.source import GrammarSource
from tests.harness.further import all_with
from tests.harness.grammar.grammars import SOURCES, compiler
from tests.harness.grammar.hostile_grammars import HOSTILE, SLOW
from tests.harness.processes.child_processes import child_processes
from tests.unit.engine.grammar import patient_worker
from tests.unit.sequences import END, VOCAB_SIZE, byte_tokenizer

pytestmark = pytest.mark.process

_PATIENCE_SECONDS = 60


@pytest_asyncio.fixture(loop_scope="function")
async def process() -> AsyncIterator[GrammarProcess]:
    tokenizer = byte_tokenizer()
    made = GrammarProcess(tokenizer, vocab_size=VOCAB_SIZE)
    yield made
    made.close()


@pytest.fixture
def process_with_time(process: GrammarProcess, monkeypatch: pytest.MonkeyPatch) -> GrammarProcess:
    """One whose trials end with their calls only, however slow the machine is."""
    monkeypatch.setattr(grammar_process, "MAX_WAIT", patient_worker.SECONDS)
    monkeypatch.setattr(grammar_process, "_WORKER", patient_worker.__name__)
    process.start()
    return process


def forks(process: GrammarProcess) -> int:
    """How many grammars are being tried."""
    assert process._process is not None
    return len(child_processes(process._process.pid))


async def until_forks(process: GrammarProcess, count: int) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while forks(process) != count:
            await asyncio.sleep(0.002)


async def test_ordinary_grammars_pass_and_can_be_compiled(process: GrammarProcess):
    compiles = compiler(byte_tokenizer(), VOCAB_SIZE)
    for name, source in SOURCES.items():
        grammar = compiles.compile_again(await process.try_out(source, "me"))
        assert grammar.begin(stop_ids=[END]).masks().any(), name


@pytest.mark.parametrize("name", all_with(HOSTILE, "chained rules", "intersections"))
async def test_costly_grammars_are_refused_and_the_next_passes(process: GrammarProcess, name: str):
    with pytest.raises(GrammarError, match=r"at most|more than|limit"):
        await process.try_out(HOSTILE[name], "me")
    await process.try_out(SOURCES["lark"], "me")
    await until_forks(process, 0)


async def test_a_trial_ends_with_the_call_that_wants_it(process_with_time: GrammarProcess):
    process = process_with_time
    call = asyncio.create_task(process.try_out(SLOW, "me"))
    await until_forks(process, 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until_forks(process, 0)


async def test_a_caller_s_grammars_are_tried_one_by_one(process_with_time: GrammarProcess):
    process = process_with_time
    calls = [asyncio.create_task(process.try_out(SLOW, "me")) for _ in range(3)]
    await until_forks(process, 1)
    await process.try_out(SOURCES["regex"], "another")  # which does not wait for them
    await until_forks(process, 1)
    assert not any(call.done() for call in calls)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_no_more_are_tried_at_once_than_may(process_with_time: GrammarProcess):
    process = process_with_time
    calls = [asyncio.create_task(process.try_out(SLOW, str(caller))) for caller in range(5)]
    await until_forks(process, 2)
    await asyncio.sleep(0.2)
    assert forks(process) == 2
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_process_that_was_killed_is_started_anew(process: GrammarProcess):
    process.start()
    assert process._process is not None
    process._process.kill()
    process._process.wait()
    await process.try_out(SOURCES["choice"], "me")


async def test_a_grammar_that_has_passed_is_not_tried_again(process: GrammarProcess):
    await process.try_out(SOURCES["choice"], "me")
    assert process._process is not None
    process._process.kill()
    process._process.wait()
    await process.try_out(SOURCES["choice"], "me")
    assert process._process.poll() is not None
    await process.try_out(SOURCES["choice"], "me", num_states=2)
    assert process._process.poll() is None


async def test_as_many_states_as_are_wanted_count(process: GrammarProcess):
    costly = GrammarSource(SLOW.kind, ("(a{1000}){1000}",))
    with pytest.raises(GrammarError, match=r"takes|holds"):
        await process.try_out(costly, "me", num_states=16)
