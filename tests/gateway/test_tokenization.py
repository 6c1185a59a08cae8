"""Token ids by HTTP are those of the RPC."""

from tests.gateway.running_gateway import RunningGateway


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
        ("/detokenize", {"tokens": [1 << 20]}, "tokens[0]"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
    ):
        answer = gateway.post(path, body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)
