"""Clients that others have written get the RPC's bytes, objects, calls and errors of the gateway."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.gateway.harness.running_gateway import RunningGateway
from tests.outsiders.conftest import Run, found
from tests.outsiders.tools import MissingToolError, node_script

SAID = "def quicksort(items):"
SAMPLED: dict[str, Any] = {"temperature": 0.7, "seed": 5, "max_tokens": 40, "speculation": "never"}
Use = Callable[[str, str], Any]


@pytest.fixture
def chat(gateway: RunningGateway) -> str:
    """What the RPC answers in a conversation, without predictions."""
    with gateway.rpc() as client:
        message = client.generate([{"role": "user", "content": SAID}], message_deltas=True, **SAMPLED).message
    assert message is not None
    return str(message.content)


@pytest.fixture
def text(gateway: RunningGateway) -> str:
    """How the model continues a text."""
    with gateway.rpc() as client:
        return client.generate(SAID, **SAMPLED).text


def is_colour(value: Any) -> bool:
    return value["name"] in ("red", "green", "blue") and isinstance(value["is_dark"], bool)


def test_openai_of_npm(gateway: RunningGateway, run: Run, chat: str, text: str):
    try:
        command = node_script()
    except MissingToolError as error:
        pytest.skip(f"not installed: {error}")
    told = json.loads(run([*command, f"{gateway.url}/v1", SAID]))
    assert told["chat"] == told["streamed"] == told["response"] == chat
    assert told["text"] == text
    assert is_colour(told["parsed"])
    assert told["called"] == ["add", ["first", "second"]]
    assert told["aborted"] == 3  # and the target holds nothing after the test
    assert told["refused"] == [["BadRequestError", 400, "top_p"], ["NotFoundError", 404, "model"]]


def test_langchain(use: Use, chat: str, text: str):
    told = use("langchain", SAID)
    assert told["chat"] == told["streamed"] == chat
    assert told["text"] == text
    assert is_colour(told["parsed"])
    assert told["called"][0] == "Add"
    assert {"first", "second"} <= {*told["called"][1]}


def test_instructor(use: Use):
    told = use("instructor", SAID)
    assert len(told) == 4
    assert all(map(is_colour, told.values()))


def test_pydantic_ai(use: Use, chat: str):
    told = use("pydantic_ai", SAID)
    for api in ("chat", "responses"):
        assert told[api] == told[f"{api} streamed"] == chat
        assert is_colour(told[f"{api} parsed"])
        assert is_colour(told[f"{api} called"])


def test_litellm(use: Use, chat: str, text: str):
    told = use("litellm", SAID)
    assert told["chat"] == told["streamed"] == chat
    assert told["text"] == text
    assert "top_p: is 7; allowed: above 0, at most 1" in told["refused"]


def test_llm(gateway: RunningGateway, run: Run, tmp_path: Any, chat: str, text: str):
    command = [str(found("llm") / "llm"), "-o", "temperature", "0.7", "-o", "seed", "5", "-o", "max_tokens", "40"]
    models = [
        {"model_id": name, "model_name": "target", "api_base": f"{gateway.url}/v1", "completion": is_text}
        for name, is_text in (("outrider", False), ("outrider-text", True))
    ]
    models[0].pop("completion")
    (tmp_path / "extra-openai-models.yaml").write_text(json.dumps(models))  # JSON is YAML
    for model, expected in (("outrider", chat), ("outrider-text", text)):
        assert run([*command, "-m", model, SAID], LLM_USER_PATH=str(tmp_path)).strip() == expected.strip()


def test_aider(gateway: RunningGateway, run: Run, tmp_path: Any):
    """It asks by a litellm of its own, about a file; the answer is in its history."""
    (tmp_path / "words.py").write_text("def words(text):\n    return text.split()\n")
    quiet = ["--no-git", "--no-check-update", "--no-show-model-warnings", "--no-pretty", "--analytics-disable"]
    quiet += ["--no-show-release-notes", "--yes-always", "--no-detect-urls"]
    asked = ["--model", "openai/target", "--edit-format", "ask", "--message", SAID, "words.py"]
    run([str(found("aider") / "aider"), *quiet, *asked], OPENAI_API_BASE=f"{gateway.url}/v1")
    history = (tmp_path / ".aider.chat.history.md").read_text()
    assert f"#### {SAID}" in history
    assert "Error" not in history
    assert len(history.partition(f"#### {SAID}")[2].strip()) > 20
