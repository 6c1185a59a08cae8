"""A page streams the text of the RPC, across a connection that breaks and a gateway that takes over."""

import json
import shutil
import subprocess

import pytest

from tests.gateway.examples.conftest import EXAMPLES
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.network.cutting_proxy import CuttingProxy

RUN = """
import {{ complete }} from {module};
for await (const text of complete({url}, {body}, {{ retries: 2 }})) process.stdout.write(text);
"""


pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="NOT RUN: there is no node")
BODY = {"prompt": "def average(numbers):\n", "seed": 5, "max_tokens": 120, "temperature": 0.8, "ignore_eos": True}


def page(url: str, body: dict[str, object]) -> subprocess.Popen[str]:
    module = (EXAMPLES / "browser_stream.js").as_uri()
    script = RUN.format(module=json.dumps(module), url=json.dumps(url), body=json.dumps(body))
    command = ["node", "--input-type=module", "-e", script]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_page_continues_with_the_rpcs_bytes_after_a_break(gateway: RunningGateway):
    with gateway.rpc() as client:
        expected = client.generate(**BODY).text
    with CuttingProxy(int(gateway.url.rpartition(":")[2])) as proxy, page(f"http://{proxy.address}", BODY) as process:
        assert process.stdout is not None
        begun = process.stdout.read(1)
        proxy.cut()
        assert begun + process.stdout.read() == expected
        assert process.wait(60) == 0


def test_a_page_shows_the_field_that_is_wrong(gateway: RunningGateway):
    with page(gateway.url, BODY | {"top_p": 7}) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "top_p: " in errors
