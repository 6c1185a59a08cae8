"""Logs for machines: every line is JSON, with the ids of its request, and without a word of it."""

from outrider import Client
from tests.e2e.harness.told_pair import ToldPair
from tests.harness.servers.server import wait_until

SECRET = "class PromptsAreNeverLogged:\n    def __init__(self):\n"
SEED = 564738291918273
TRACE = "0af7651916cd43dd8448eb211c80319c"
FIELDS = {"time", "service", "level", "logger", "message"}


def test_each_request_has_a_line_with_its_ids_and_no_word_of_it(told: ToldPair) -> None:
    with Client(told.address) as client:
        result = told.generate(client, SECRET, max_tokens=60, seed=SEED)
    request_id = result.started.request_id
    wait_until(lambda: request_id in told.log_text())
    lines = told.log_lines()
    assert all(line.keys() >= FIELDS for line in lines)
    (line,) = [line for line in lines if line.get("request_id") == request_id]
    assert "60 tokens" in line["message"]
    assert len(line["trace_id"]) == 32
    text = told.log_text()
    assert "PromptsAreNeverLogged" not in text
    assert result.text.strip()[:20] not in text
    assert str(SEED) not in text
