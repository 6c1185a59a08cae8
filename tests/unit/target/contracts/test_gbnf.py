"""GBNF is read where it can do no harm."""

import asyncio
from dataclasses import replace

import pytest

from services.service.errors import InvalidRequestError
from services.target.contracts import gbnf
from services.target.contracts.gbnf import GbnfReader
from tests.harness.processes.cpu_time import cpu_seconds

pytestmark = pytest.mark.process

LARK = 'start: "a::=b" | rule\nrule: /x ::= y/\n'
CHAIN = "root::=r0\n" + "".join(f"r{i}::=r{i + 1}\n" for i in range(4500)) + 'r4500::="x"\n'
HOSTILE = {
    "deep": "root ::= " + "(" * 60_000,
    "endless": 'root ::= "a',
    "no root": 'a ::= "b"',
    "long number": 'root ::= "a"{' + "1" * 5000 + "}",
}


async def test_lark_grammars_are_left_as_they_are():
    assert await GbnfReader().to_lark(LARK) == LARK


async def test_gbnf_becomes_lark():
    lark = await GbnfReader().to_lark('root ::= item+\nitem ::= "a" | [0-9]\n')
    assert "start: " in lark
    assert "::=" not in lark


@pytest.mark.parametrize("case", HOSTILE)
async def test_bad_gbnf_is_refused_and_the_next_is_read(case: str):
    reader = GbnfReader()
    with pytest.raises(InvalidRequestError) as refused:
        await reader.to_lark(HOSTILE[case])
    ((field, said),) = refused.value.violations
    assert (field, said[:12], len(said) < 300) == ("grammar.lark", "is no GBNF: ", True)
    assert "start" in await reader.to_lark('root ::= "a"')


async def test_a_grammar_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gbnf, "_LIMITS", replace(gbnf._LIMITS, seconds=3600.0))  # as a busy one may take
    reader = GbnfReader()
    with pytest.raises(InvalidRequestError) as refused:
        await reader.to_lark(CHAIN)
    assert len(CHAIN) < 1 << 16, "a longer one is refused unread"
    assert "it takes more than 0.5 s" in refused.value.violations[0].description
    assert "start" in await reader.to_lark('root ::= "a"')


async def test_a_cancelled_reading_is_ended_and_the_next_is_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gbnf, "_LIMITS", replace(gbnf._LIMITS, cpu_seconds=60.0))
    monkeypatch.setattr(gbnf, "_GRACE_SECONDS", 0.0)
    reader = GbnfReader()
    await reader.to_lark('root ::= "a"')  # so that the worker has started
    assert reader._worker._process is not None
    first = reader._worker._process._child
    began = cpu_seconds(first.pid)
    reading = asyncio.create_task(reader.to_lark(CHAIN))
    waiting = [asyncio.create_task(reader.to_lark('root ::= "b"')) for _ in range(2)]
    while cpu_seconds(first.pid) < began + 0.05:  # it is at work then, and has seconds of it left
        await asyncio.sleep(0.01)
    reading.cancel()
    waiting[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert "start" in await waiting[1]
    assert first.poll() is not None
