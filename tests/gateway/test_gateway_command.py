"""outrider gateway: its options and its process, and its error in a plain installation."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
import uvicorn

from outrider import Client, GenerateOptions
from services.cli import main
from services.gateway.openai.completions.request import CompletionRequest
from tests.e2e.harness.models import DEMO_TARGET
from tests.harness.processes.child_processes import child_processes
from tests.harness.servers.server import RunningTarget
from tests.rpc.harness.commands import SMALL, outrider_begin, press_ctrl_c

_OF_CONVERSATIONS = {"tools", "tool_choice", "parallel_tool_calls", "template_variables", "add_generation_prompt"}
_OF_CONVERSATIONS |= {"continue_final_message", "message_deltas"}
_SAID_OTHERWISE = {"num_samples": "n", "top_candidates": "logprobs", "prompt_logprobs": "echo"}
_NOT_TOLD_HERE = {"token_records", "pass_reports", "rank", "entropy", "logits", "logits_token_ids"}
_API = "OpenAI's API is at "


def test_the_gateway_serves_until_sigterm(demo: RunningTarget):
    command = [sys.executable, "-P", "-m", "services.gateway", "--target", demo.address, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("listening on ").strip()
        assert process.stdout.readline() == "serving\n"
        assert httpx2.get(f"http://{address}/health", timeout=60).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--listen", "0.0.0.0:0"], "where others may read and change unencrypted traffic"),
        (["--target", "192.0.2.1:50051"], "set --target-tls-ca, or say --insecure"),
        (["--listen", "nowhere"], "listen is 'nowhere'; it must be HOST:PORT"),
        (["--max-body", "0"], "max_body is 0"),
        (["--allow-demo-controls", "192.0.2.1:50051"], "it must be an address on this machine"),
        (
            ["--allow-demo-controls", "localhost:1", "--listen", "0.0.0.0:0", "--insecure"],
            "need a listen of this machine",
        ),
        (["--allow-demo-controls", "localhost:1", "--allowed-hosts", "*"], "or names in allowed_hosts"),
        (["--allowed-hosts", "a.example", "http://a"], "allowed_hosts has 'http://a'; allowed: a name without scheme"),
        (["--tls-cert", "gone.pem"], "only one of tls_certificate and tls_key is set"),
    ],
)
def test_a_bad_option_is_reported(options: list[str], said: str, capsys: pytest.CaptureFixture[str]):
    assert main(["gateway", "--target", "localhost:1", *options]) == 1
    assert said in capsys.readouterr().err


def test_an_invalid_certificate_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (bad := tmp_path / "bad.pem").write_text("none")
    local = ["--target", "localhost:1", "--listen", "127.0.0.1:0"]
    assert main(["gateway", *local, "--tls-cert", str(bad), "--tls-key", str(bad)]) == 1
    assert f"{bad} and {bad}: are not a certificate and its key" in capsys.readouterr().err


def test_the_gateway_ends_when_its_server_loop_fails(monkeypatch: pytest.MonkeyPatch):
    async def fail(_: uvicorn.Server) -> None:
        raise RuntimeError("the loop is lost")

    monkeypatch.setattr(uvicorn.Server, "main_loop", fail)
    with pytest.raises(RuntimeError, match="the loop is lost"):
        main(["gateway", "--target", "localhost:1", "--listen", "127.0.0.1:0"])


def test_missing_packages_are_named_with_their_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert main(["gateway", "--target", "localhost:1"]) == 1
    assert capsys.readouterr().err.endswith("it comes with: pip install 'outrider[gateway]'\n")


def test_a_plain_installation_imports_nothing_of_the_gateway():
    script = """
import sys
for name in ("starlette", "uvicorn", "httptools", "pydantic"):
    sys.modules[name] = None
import services.target.server, services.draft.server, services.gateway.command, services.cli.up
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_option_of_the_client_is_a_field():
    served = set(GenerateOptions.__annotations__) - _OF_CONVERSATIONS - _NOT_TOLD_HERE
    fields = CompletionRequest.model_fields.keys()
    assert {_SAID_OTHERWISE.get(name, name) for name in served} <= fields


def test_up_does_not_promise_http_in_front_of_a_target_with_tls(capsys: pytest.CaptureFixture[str]):
    assert main(["up", "--http", "127.0.0.1:0", "--", "--tls-cert", "some.pem"]) == 1
    assert "--http asks the target in clear text" in capsys.readouterr().err


def test_up_has_one_admin_address_of_its_target(capsys: pytest.CaptureFixture[str]):
    controls = ["up", "--http", "127.0.0.1:0", "--allow-demo-controls"]
    assert main([*controls, "--", "--admin-listen", "127.0.0.1:0"]) == 1
    assert "--allow-demo-controls has an admin address of its own" in capsys.readouterr().err


def test_up_ends_when_its_gateway_does():
    local = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    with outrider_begin("up", "--model", str(DEMO_TARGET), *local, "--", *SMALL) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert any(line.startswith(_API) for line in process.stdout)
        (gateway,) = (child for child in child_processes(process.pid) if b"\0gateway\0" in _command_of(child))
        os.kill(gateway, signal.SIGKILL)
        assert process.wait(60) == 1
        assert "outrider up: the gateway ended with code -9" in process.stderr.read()


def _command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_up_speaks_http_too(demo: RunningTarget):
    local = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--allow-demo-controls"]
    with outrider_begin("up", "--model", str(DEMO_TARGET), *local, "--", *SMALL) as process:
        assert process.stdout is not None
        suggested = []
        for line in process.stdout:
            if line.startswith(_API):
                break
            suggested.append(line)
        assert not any("outrider chat" in each for each in suggested), "the demo model has no chat template"
        url = line.removeprefix(_API).strip()
        asked = {"prompt": "import", "seed": 5, "max_tokens": 8}
        answer = httpx2.post(f"{url}/completions", json=asked, timeout=60).json()
        page = process.stdout.readline().removeprefix("a page that shows where each token comes from is at ").strip()
        assert httpx2.get(f"{page}page/settings.json", timeout=60).json() == {"demo_controls": True}
        assert httpx2.post(f"{page}demo/draft", json={}, timeout=60).json() == {"linked": 0, "absent": 0, "taken": 0}
        press_ctrl_c(process)
        assert process.wait(60) == 0
    with Client(demo.address) as client:
        assert answer["choices"][0]["text"] == client.generate("import", seed=5, max_tokens=8).text


def test_up_allows_demo_controls_with_http_only(capsys: pytest.CaptureFixture[str]):
    assert main(["up", "--allow-demo-controls"]) == 1
    assert "--allow-demo-controls is for the callers of --http" in capsys.readouterr().err
