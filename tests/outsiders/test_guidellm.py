"""guidellm measures a gateway: every request succeeds, and has as many tokens as it wanted."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness.models import DEMO_TARGET
from tests.gateway.harness.running_gateway import RunningGateway
from tests.outsiders.conftest import Run, found

REQUESTS = 6
OUTPUT = 12


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/responses"])
def test_every_request_is_measured(gateway: RunningGateway, run: Run, tmp_path: Path, path: str):
    command = [str(found("guidellm") / "guidellm"), "run", "--disable-console"]
    command += ["--backend", f"kind=openai_http,target={gateway.url},model=target,request_format={path}"]
    command += ["--tokenizer", f"kind=huggingface_auto,model={DEMO_TARGET}"]
    command += ["--data", f"kind=synthetic_text,prompt_tokens=32,output_tokens={OUTPUT}"]
    command += ["--profile", "kind=concurrent,streams=2", "--constraint", f"kind=max_requests,count={REQUESTS}"]
    run([*command, "--output", f"kind=json,path={tmp_path / 'told.json'}"])
    (told,) = json.loads((tmp_path / "told.json").read_text())["benchmarks"]
    requests: dict[str, list[Any]] = told["requests"]
    assert requests["errored"] == []
    assert len(requests["successful"]) == REQUESTS
    assert {one["output_tokens"] for one in requests["successful"]} == {OUTPUT}
    assert all(one["time_to_first_token_ms"] > 0 for one in requests["successful"])
