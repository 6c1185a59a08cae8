"""Token ids by HTTP are those of the RPC."""

import threading

import grpc
import httpx2
import pytest

from outrider.v1 import generation_pb2
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.servers.scripted_server import ScriptedServer, ScriptedServicer


def test_a_text_becomes_ids_and_ids_become_text(gateway: RunningGateway):
    with gateway.rpc() as client:
        ids = client.tokenize("def read(self):").token_ids
    answer = gateway.post("/tokenize", {"prompt": "def read(self):"}).json()
    assert (answer["tokens"], answer["count"]) == ([*ids], len(ids))
    assert "".join(answer["token_strs"]) == "def read(self):"
    assert gateway.post("/detokenize", {"tokens": [*ids]}).json() == {"prompt": "def read(self):"}


def test_a_conversation_becomes_ids(chat_gateway: RunningGateway):
    messages = [{"role": "user", "content": "a"}]
    with chat_gateway.rpc() as client:
        ids = client.tokenize(messages).token_ids
    assert chat_gateway.post("/tokenize", {"messages": messages}).json()["tokens"] == [*ids]


def test_a_bad_field_is_named(gateway: RunningGateway):
    for path, body, name in (
        ("/tokenize", {}, "messages"),
        ("/tokenize", {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, "messages"),
        ("/tokenize", {"messages": [{"role": "user", "content": "a"}]}, "messages"),
        ("/tokenize", {"prompt": "a", "tools": [{"type": "function", "function": {"name": "a"}}]}, "tools"),
        ("/tokenize", {"prompt": "a", "chat_template_kwargs": {"a": 1}}, "chat_template_kwargs"),
        ("/tokenize", {"prompt": "a", "chat_template": "a"}, "chat_template"),
        ("/detokenize", {"tokens": [1 << 20]}, "tokens[0]"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
    ):
        answer = gateway.post(path, body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)


class SlowServicer(ScriptedServicer):
    """Answers what writes no text only once its caller has left."""

    came, left = threading.Event(), threading.Event()

    def Tokenize(  # noqa: N802
        self, request: generation_pb2.TokenizeRequest, context: grpc.ServicerContext
    ) -> generation_pb2.TokenizeResponse:
        """Answer the call late."""
        self._wait(context)
        return super().Tokenize(request, context)

    def GetModelInfo(  # noqa: N802
        self, request: generation_pb2.GetModelInfoRequest, context: grpc.ServicerContext
    ) -> generation_pb2.GetModelInfoResponse:
        """Describe the model late."""
        self._wait(context)
        return super().GetModelInfo(request, context)

    def _wait(self, context: grpc.ServicerContext) -> None:
        self.came.set()
        gone = threading.Event()
        context.add_callback(gone.set)
        if gone.wait(30):
            self.left.set()


@pytest.mark.parametrize(
    ("method", "path", "body"), [("POST", "/tokenize", {"prompt": "a"}), ("GET", "/v1/models", None)]
)
def test_an_abandoned_request_is_cancelled_at_the_target(method: str, path: str, body: object):
    SlowServicer.came.clear()
    SlowServicer.left.clear()
    with ScriptedServer(servicer_type=SlowServicer) as server, RunningGateway(server.address) as gateway:
        for seconds in (0.3, 3.0, 20.0):  # a slow machine needs more of them until the target is asked
            with pytest.raises(httpx2.ReadTimeout):
                httpx2.request(method, f"{gateway.url}{path}", json=body, timeout=seconds)
            if SlowServicer.came.is_set():
                break
        assert SlowServicer.left.wait(60)


def test_a_conversation_has_the_options_of_chat(chat_gateway: RunningGateway):
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    function = {"name": "now", "description": "Tells it."}
    asked = {"tools": [{"type": "function", "function": function}], "continue_final_message": True}
    with chat_gateway.rpc() as client:
        expected = client.tokenize(messages, tools=[function], continue_final_message=True).token_ids
        begun = client.tokenize(messages, add_generation_prompt=False).token_ids
        changed = client.tokenize(messages, template_variables={"bos_token": "changed"}).token_ids
    for fields, ids in (
        (asked, expected),
        ({"add_generation_prompt": False}, begun),
        ({"chat_template_kwargs": {"bos_token": "changed"}}, changed),
    ):
        assert chat_gateway.post("/tokenize", {"messages": messages, **fields}).json()["tokens"] == [*ids]


def test_texts_of_tokens_can_be_left_out(gateway: RunningGateway):
    answer = gateway.post("/tokenize", {"prompt": "a", "return_token_strs": False}).json()
    assert answer.keys() == {"count", "tokens"}
