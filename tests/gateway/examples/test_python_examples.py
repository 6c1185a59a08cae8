"""The programs of examples/ work as described, with the packages that they are for."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from outrider import Client
from tests.gateway.examples.conftest import python_of, run_example
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.scripted_server import Fault, ScriptedServer
from tests.harness.servers.server import RunningTarget


def test_json_extraction_follows_its_schema(demo: RunningTarget):
    assert json.loads(run_example("json_extraction", demo.address)).keys() == {"language", "lines", "tested"}


def test_a_hedged_stream_is_not_held_up():
    with ScriptedServer(Fault(9, how="hang")) as slow, ScriptedServer() as fast:
        text, told = run_example("hedged_stream", slow.address, fast.address).rsplit("\n", 2)[:2]
    with ScriptedServer() as alone, Client(alone.address) as client:
        expected = client.generate("def quicksort(items):", max_tokens=60, seed=7)
    assert text == expected.text
    assert told.startswith(f"{len(expected.token_ids)} tokens, continued by another server ")


def test_langchain_streams_the_bytes_of_the_rpc(chat_gateway: RunningGateway):
    with chat_gateway.rpc() as client:
        said = [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "What is a hash table good for?"},
        ]
        options = {"temperature": 0.7, "seed": 7, "max_tokens": 60, "banned_strings": ["As an AI"]}
        expected = client.generate(said, message_deltas=True, **options).message
    assert expected is not None
    assert run_example("langchain_chat", chat_gateway.url) == f"{expected.content}\n"


def test_instructor_reads_an_object_at_the_first_try(chat_gateway: RunningGateway):
    ticket = json.loads(run_example("instructor_extract", chat_gateway.url))
    assert ticket["kind"] in ("bug", "question", "wish")
    assert 1 <= ticket["urgency"] <= 5


def test_pydantic_ai_gets_the_type_that_it_asks_for(chat_gateway: RunningGateway):
    verdict = json.loads(run_example("pydantic_ai_agent", chat_gateway.url))
    assert verdict.keys() == {"sentiment", "is_sure"}


@pytest.fixture
def llm(tmp_path: Path):
    """Runs `llm`, with a folder of its own for what it keeps."""
    python = python_of("llm", ["llm", "llm-outrider"])

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "LLM_USER_PATH": str(tmp_path)}
        return subprocess.run(
            [python, "-m", "llm", *arguments], capture_output=True, text=True, env=environment, check=False, timeout=240
        )

    return run


def test_llm_prints_the_rpcs_bytes_and_logs_the_response(llm, chat_gateway: RunningGateway):
    (address,) = chat_gateway.targets
    asked = ["-m", "outrider", "-o", "address", address, "-o", "seed", "7", "-o", "max_tokens", "30"]
    done = llm(*asked, "--system", "Be short.", "Who?")
    assert (done.returncode, done.stderr) == (0, "")
    with chat_gateway.rpc() as client:
        said = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Who?"}]
        expected = client.generate(said, seed=7, max_tokens=30, message_deltas=True)
    assert expected.message is not None
    assert done.stdout == f"{expected.message.content}\n"
    (kept,) = json.loads(llm("logs", "--json").stdout)
    assert kept["response_json"]["seed"] == 7
    assert kept["output_tokens"] == expected.usage.completion_tokens
    refused = llm(*asked, "-o", "temperature", "-1", "Who?")
    assert refused.returncode == 1
    assert "sampling.temperature" in refused.stderr


def test_options_that_llm_has_stored_count_beside_others(llm, chat_gateway: RunningGateway):
    for name, value in (("address", chat_gateway.targets[0]), ("max_tokens", "3")):
        assert llm("models", "options", "set", "outrider", name, value).returncode == 0
    done = llm("-m", "outrider", "-o", "seed", "7", "Who?")
    assert (done.returncode, done.stderr) == (0, "")
    (kept,) = json.loads(llm("logs", "--json").stdout)
    assert (kept["response_json"]["seed"], kept["output_tokens"]) == (7, 3)


def test_llm_follows_a_schema(llm, chat_gateway: RunningGateway):
    schema = json.dumps({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
    asked = ["-m", "outrider", "-o", "address", chat_gateway.targets[0], "--schema", schema]
    done = llm(*asked, "Is it?")
    assert isinstance(json.loads(done.stdout)["ok"], bool)
