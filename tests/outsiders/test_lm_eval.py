"""lm-eval's local-completions computes the log-likelihoods that the RPC's own records of a prompt have."""

import json
from pathlib import Path

from tests.e2e.harness.models import DEMO_TARGET
from tests.gateway.harness.running_gateway import RunningGateway
from tests.outsiders.conftest import Run, found

LINES = [
    ("def read(self, path):", "\n    return open(path).read()"),
    ("import os", "\nimport sys\n"),
    ("for index in range(", "10):"),
    ("class Stack:\n    def push", "(self, item):\n"),
]
TASK = """
task: lines
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: loglikelihood
doc_to_text: "{{{{context}}}}"
doc_to_target: "{{{{target}}}}"
target_delimiter: ""
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""


def expected(gateway: RunningGateway, context: str, target: str) -> tuple[float, bool]:
    """The sum of the target's log-probabilities, and whether each of its tokens is the likeliest."""
    with gateway.rpc() as client:
        count = len(client.tokenize(context).token_ids)
        result = client.generate(
            context + target, max_tokens=1, temperature=0.0, prompt_logprobs=True, top_candidates=1
        )
    tokens = result.prompt_records[count:]
    assert "".join(token.text for token in tokens) == target
    likeliest = all(token.candidates[0].id == token.id for token in tokens)
    return sum(token.raw_logprob or 0.0 for token in tokens), likeliest


def test_log_likelihoods(gateway: RunningGateway, run: Run, tmp_path: Path):
    data = tmp_path / "lines.jsonl"
    data.write_text("\n".join(json.dumps({"context": one, "target": other}) for one, other in LINES))
    (tmp_path / "lines.yaml").write_text(TASK.format(data=data))
    model = f"model=target,base_url={gateway.url}/v1/completions,tokenizer={DEMO_TARGET},tokenized_requests=True"
    command = [str(found("lm_eval") / "lm_eval"), "run", "--model", "local-completions", "--model_args", model]
    run([*command, "--tasks", "lines", "--include_path", str(tmp_path), "--log_samples", "--output_path", "told"])
    (samples,) = tmp_path.glob("told/**/samples_lines_*.jsonl")
    told = [json.loads(line) for line in samples.read_text().splitlines()]
    found_here = [(float(one["resps"][0][0][0]), one["resps"][0][0][1] == "True") for one in told]
    assert found_here == [expected(gateway, *line) for line in LINES]
