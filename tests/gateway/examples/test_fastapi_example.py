"""The service on FastAPI streams the text of the RPC, reports bad fields, and cancels abandoned requests."""

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import httpx2
import pytest
import uvicorn

from outrider import Client
from tests.gateway.examples.conftest import EXAMPLES
from tests.harness.servers.scripted_server import Fault, ScriptedServer
from tests.harness.servers.server import RunningTarget, wait_until

PROMPT = "def average(numbers):\n"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    pytest.importorskip("fastapi", reason="NOT RUN: fastapi is not installed")
    spec = importlib.util.spec_from_file_location("fastapi_stream", EXAMPLES / "fastapi_stream.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module


@contextmanager
def served(example: ModuleType, address: str) -> Iterator[str]:
    """The URL of the service in front of a server."""
    config = uvicorn.Config(example.create_app(address), host="127.0.0.1", port=0, log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/stream"
    finally:
        server.should_exit = True
        thread.join()


def test_the_example_streams_and_reports_bad_fields(example: ModuleType, demo: RunningTarget):
    with Client(demo.address) as client:
        expected = client.generate(PROMPT, max_tokens=20, seed=5).text
    with served(example, demo.address) as url:
        with httpx2.stream("POST", url, json={"prompt": PROMPT, "max_tokens": 20, "seed": 5}, timeout=60) as answer:
            assert "".join(answer.iter_text()) == expected
        refused = httpx2.post(url, json={"prompt": PROMPT, "max_tokens": 0}, timeout=60)
    assert (refused.status_code, refused.json()["detail"][0]["field"]) == (400, "stop.max_tokens")
    demo.assert_all_free()


def test_leaving_the_stream_ends_the_generation(example: ModuleType):
    with ScriptedServer(Fault(at=6, how="hang")) as server, served(example, server.address) as url:
        with httpx2.stream("POST", url, json={"prompt": "x"}, timeout=60) as answer:
            texts = answer.iter_text()  # which closes the connection once it is unreferenced
            assert next(texts)
            assert not server.servicer.ended.is_set()
        assert server.servicer.ended.wait(60)
