"""Sessions beside what else goes on: wrong predictions, blocks that run out, servers that end, other callers."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

import outrider
from services.service.access.caller import Scope
from services.service.server_config import ServerConfig
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.access.test_tokens import new_line
from tests.rpc.harness.commands import outrider_run
from tests.rpc.harness.predictors import SlippingPredictor, SlowPredictor
from tests.rpc.harness.requests import stream, stream_request
from tests.rpc.sessions.test_sessions import LONG, MORE, create, get

ALWAYS = {"mode": "SPECULATION_MODE_ALWAYS", "num_predictions": 4}
SEED = 5


def test_wrong_predictions_change_no_answer_in_a_session(model: Path) -> None:
    with target_server(model) as alone:
        plain = stream(alone, stream_request(LONG + MORE, output={"logprobs": True}))
    with target_server(model, predictor=SlippingPredictor(plain.token_ids)) as target:
        session = create(target)
        request = stream_request(MORE, session=session.name, speculation=ALWAYS, output={"logprobs": True})
        behind = stream(target, request)
        told = behind.finished.speculation
        assert 0 < told.accepted < told.predicted
        assert behind.token_ids == plain.token_ids
        assert [one.raw_logprob for one in behind.records] == [one.raw_logprob for one in plain.records]


def test_beside_sessions_at_their_quota_others_still_run(model: Path) -> None:
    """Four blocks are left, as many as one context has: of those that run, all but one make way again and again."""
    prompts = [[30 + index] * 40 for index in range(6)]
    with target_server(model, session_blocks=60) as target:
        expected = [_answer(target, prompt) for prompt in prompts]
        sessions = [create(target, [100 + index] * 127) for index in range(20)]
        assert sum(session.blocks for session in sessions) == 60
        with pytest.raises(grpc.RpcError) as failure:
            create(target, [99] * 127)
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "needs 3 more KV blocks, and 60 of 60 are held" in failure.value.details()
        with ThreadPoolExecutor(len(prompts)) as threads:
            assert list(threads.map(lambda prompt: _answer(target, prompt), prompts)) == expected
        assert target.engine.scheduler.num_preemptions > 0
        for session in sessions:
            one_more = stream(target, stream_request({}, session=session.name, stop={"max_tokens": 1}))
            assert one_more.started.cached_tokens == 96
        assert len(_answer(target, [200] * 40)) == 88


def _answer(target: RunningTarget, prompt: list[int]) -> list[int]:
    """An answer that fills the context after a prompt."""
    request = stream_request(prompt, stop={"ignore_eos": True}, cache={"prefix": False})
    return stream(target, request, timeout=300).token_ids


def test_a_sessions_stream_continues_at_a_server_without_it(model: Path) -> None:
    options = outrider.GenerateOptions(max_tokens=64, seed=SEED, ignore_eos=True)
    with (
        target_server(model, predictor=SlowPredictor()) as first,
        target_server(model) as second,
        outrider.Client(first.address, second.address) as client,
    ):
        session = client.create_session(LONG)
        assert session.token_ids == tuple(LONG)
        with client.stream(MORE, session=session.name, **options) as behind:
            chunks = iter(behind)
            next(chunks)
            first.engine.abandon("it ends")
            for _ in chunks:
                pass
        assert behind.result.resumed == 1
        with outrider.Client(second.address) as other:
            assert behind.result.token_ids == other.generate(LONG + MORE, **options).token_ids
            with pytest.raises(outrider.NotFound):
                other.generate(MORE, session=session.name)


async def test_both_clients_hold_a_session_for_a_block(target: RunningTarget) -> None:
    options = outrider.GenerateOptions(max_tokens=8, seed=SEED, ignore_eos=True)
    with outrider.Client(target.address) as client:
        with client.session(LONG, name="one") as session:
            assert [one.name for one in client.list_sessions()] == ["one"]
            assert client.get_session("one").token_ids == session.token_ids == tuple(LONG)
            with client.session(MORE, parent="one") as fork:
                behind = client.generate("", session=fork.name, **options)
            with pytest.raises(outrider.AlreadyExists):
                client.create_session(LONG, name="one")
        assert client.list_sessions() == ()
        expected = client.generate(LONG + MORE, **options)
    async with outrider.AsyncClient(target.address) as client, client.session(LONG) as session:
        other = await client.generate(MORE, session=session.name, **options)
        assert (await client.get_session(session.name)).num_tokens == len(LONG)
        await client.delete_session(session.name)  # the end of the block takes that for granted
        assert await client.list_sessions() == ()
    assert behind.token_ids == other.token_ids == expected.token_ids


def test_each_caller_has_its_own_sessions_and_quota(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    alice, bob = [new_line(path, name, Scope.GENERATE) for name in ("alice", "bob")]
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=path)
    with target_server(model, server=config) as target:
        with outrider.Client(target.address, token=alice) as client:
            client.create_session([7] * 240, name="mine")
            with pytest.raises(
                outrider.ResourceExhausted, match=r"this caller's .* 2 more KV blocks, and 7 of 8 are held"
            ):
                client.create_session([8] * 70)
        with outrider.Client(target.address, token=bob) as client:
            assert client.list_sessions() == ()
            with pytest.raises(outrider.NotFound):
                client.generate(MORE, session="mine")
            client.create_session([7] * 240, name="mine")


def test_the_session_command_creates_lists_and_deletes(target: RunningTarget) -> None:
    def session(*arguments: str) -> str:
        done = outrider_run("session", *arguments, "--address", target.address)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert session("create", "import os\n", "--name", "a", "--ttl-seconds", "50") == "a\n"
    session("create", "import sys\n", "--parent", "a", "--name", "b")
    listed = session("list").splitlines()
    assert [row.split()[-1] for row in listed] == ["name", "a", "b"]
    assert session("show", "b").splitlines()[1].split()[0] == str(get(target, "b").tokens)
    generated = outrider_run("generate", "x", "--session", "b", "--seed", "5", "--address", target.address)
    assert generated.returncode == 0, generated.stderr
    for name in ("a", "b"):
        session("delete", name)
    gone = outrider_run("session", "show", "a", "--address", target.address)
    assert (gone.returncode, "there is no session 'a'" in gone.stderr) == (1, True)
