"""SMG before two targets, one of them killed in the middle of an answer: what the client gets.

No part of a unary answer is sent before all of it is there, so the router asks the other target: one seed, one text.
A stream's client has read the beginning, and the contract cannot express a continuation: the router reports the break,
and a second request gives the same text.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import openai
import pytest

from outrider.v1 import common_pb2
from outrider.v1.generation_pb2_grpc import GenerationServiceStub
from tests.deploy.smg import Smg, binary
from tests.e2e.harness.draft_rig import Service, serving
from tests.e2e.harness.models import DEMO_TARGET
from tests.harness.models.checkpoints import copy_of
from tests.harness.servers.server import wait_until
from tests.rpc.harness.requests import as_unary, stream_request

pytestmark = pytest.mark.skipif(
    binary() is None, reason="SMG IS NOT INSTALLED (make deploy-test INSTALLS IT): NO ROUTER IS PUT BEFORE TARGETS"
)
MODEL = "target"  # the folder's name
TEMPLATE = "{% for message in messages %}# {{ message.content }}\n{% endfor %}"
SAID: Any = [{"role": "user", "content": "A last-in, first-out stack"}]
TEXT = "def main(argv):"
PROMPTS: dict[str, Any] = {
    "completions": {"text": TEXT, "add_special_tokens": False},
    "chat": {"chat": {"messages": SAID}},
}
MOST = 1500
SAMPLED: dict[str, Any] = {"temperature": 0.7, "top_p": 0.9, "seed": 5}
ASKED: dict[str, Any] = {"model": MODEL, "max_tokens": MOST, "extra_body": {"ignore_eos": True}, **SAMPLED}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Service]]:
    """Two demo targets, which have a chat template here, in processes of their own."""
    model = copy_of(DEMO_TARGET, tmp_path, MODEL, chat_template=TEMPLATE)
    folders = (tmp_path / "one", tmp_path / "two")
    for folder in folders:
        folder.mkdir()
    targets = [Service("target", model, folder, "--vllm-contract", "--kv-blocks", "128") for folder in folders]
    with serving(targets):
        yield targets


@pytest.fixture
def router(pair: list[Service], tmp_path: Path) -> Iterator[Smg]:
    """SMG, which knows both."""
    running = Smg(tmp_path, *(target.address for target in pair))
    try:
        running.wait_until_ready(MODEL)
        yield running
    finally:
        running.kill()


def connect(router: Smg, max_retries: int = 0) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{router.url}/v1", api_key="none", max_retries=max_retries, timeout=120)


def ask(client: openai.OpenAI, api: str, *, stream: bool = False) -> Any:
    if api == "chat":
        return client.chat.completions.create(messages=SAID, stream=stream, **ASKED)
    return client.completions.create(prompt=TEXT, stream=stream, **ASKED)


def text_of(api: str, choices: Any) -> str:
    """What an answer says, or a part of one."""
    if not choices or api == "completions":
        return choices[0].text if choices else ""
    told = getattr(choices[0], "delta", None) or choices[0].message
    return told.content or ""


def expected(target: Service, api: str) -> str:
    """The same by our own RPC, without predictions."""
    with grpc.insecure_channel(target.address) as channel:
        never = {"mode": common_pb2.SPECULATION_MODE_NEVER}
        stop = {"max_tokens": MOST, "ignore_eos": True}
        request = stream_request(PROMPTS[api], sampling=SAMPLED, stop=stop, speculation=never)
        return GenerationServiceStub(channel).Generate(as_unary(request), timeout=120).text


def kill_when(is_under_way: Callable[[], object], pair: list[Service], asked: Future[Any]) -> None:
    """Kill the target that answers, in the middle of it."""
    wait_until(lambda: is_under_way() or asked.done())
    (victim,) = (target for target in pair if target.num_used_blocks)
    assert not asked.done()
    victim.kill()


@pytest.mark.parametrize("api", PROMPTS)
def test_a_whole_answer_comes_from_the_other_target(router: Smg, pair: list[Service], api: str) -> None:
    text = expected(pair[0], api)
    with connect(router) as client, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(ask, client, api)
        kill_when(lambda: any(target.num_used_blocks > 2 for target in pair), pair, asked)
        assert text_of(api, asked.result().choices) == text


@pytest.mark.parametrize("api", PROMPTS)
def test_a_stream_reports_its_break_and_a_retry_is_the_same(router: Smg, pair: list[Service], api: str) -> None:
    text, parts, has_begun = expected(pair[0], api), list[str](), threading.Event()

    def read(client: openai.OpenAI) -> None:
        for part in ask(client, api, stream=True):
            parts.append(text_of(api, part.choices))
            if parts[-1]:
                has_begun.set()

    with connect(router) as client, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(read, client)
        kill_when(has_begun.is_set, pair, asked)
        with pytest.raises(openai.APIError, match="Stream error") as broken:
            asked.result()
    assert broken.value.body == {"message": broken.value.message, "type": "stream_error"}
    told = "".join(parts)
    assert text.startswith(told)
    assert 0 < len(told) < len(text)
    with connect(router, max_retries=9) as client:  # it may try the dead one before it sees that it is
        assert text_of(api, ask(client, api).choices) == text
