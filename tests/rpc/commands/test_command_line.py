"""`outrider generate`, as a shell runs it."""

import io
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import outrider
from services.cli import main
from services.cli.calls.result_text import TOKEN_HEADING
from tests.harness.models.checkpoints import CONTEXT_LENGTH
from tests.harness.servers.server import RunningTarget, target_server
from tests.rpc.harness.commands import outrider_begin, outrider_run
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.requests import PROMPT

FIGURES = re.compile(
    r"24 tokens · [\d.]+ tokens/s · first token after \d+ ms · 1\.00 tokens per pass · ended by max tokens\n"
)


def generate(target: RunningTarget, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    limits = ["--max-tokens", "24", "--seed", "5"]
    return outrider_run("generate", "--address", target.address, *limits, *arguments, **options)


@pytest.fixture
def halfway() -> GatePredictor:
    """Lets no generation go on beyond its hundredth token while it is shut, as it is."""
    predictor = GatePredictor(num_tokens=100)
    predictor.gate.clear()
    return predictor


@pytest.fixture
def long_generate(model: Path, halfway: GatePredictor) -> Iterator[subprocess.Popen[str]]:
    """A generation in the middle of its text; after the test the server has dropped it."""
    limits = ["--max-tokens", str(CONTEXT_LENGTH), "--ignore-eos"]
    with (
        target_server(model, predictor=halfway) as held,
        outrider_begin("generate", "--address", held.address, *limits, PROMPT) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.read(5)
        assert held.engine.scheduler.running
        yield process
        halfway.gate.set()
        held.assert_all_free()


def test_generate_prints_the_text_and_then_the_figures(target: RunningTarget) -> None:
    with outrider.Client(target.address) as client:
        expected = client.generate(PROMPT, max_tokens=24, seed=5, ignore_eos=True)
    done = generate(target, "--ignore-eos", PROMPT)
    assert (done.returncode, done.stdout) == (0, expected.text + "\n")
    assert FIGURES.fullmatch(done.stderr)
    piped = generate(target, "--ignore-eos", "-", input=PROMPT)
    assert piped.stdout == done.stdout


def test_generate_lists_tokens_with_their_probabilities(target: RunningTarget) -> None:
    done = generate(target, "--ignore-eos", "--logprobs", PROMPT)
    assert done.returncode == 0
    row = r"^ *\d+  +-?\d+\.\d{4}  +-?\d+\.\d{4} +\d+  +\d+\.\d{4}  ['\"].*['\"]$"
    assert len(re.findall(row, done.stdout, re.MULTILINE)) == 24


def test_an_answer_is_written_and_verified(target: RunningTarget, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    done = generate(target, "--ignore-eos", "--proof", str(path), PROMPT)
    assert done.returncode == 0
    verified = outrider_run("verify", str(path), "--address", target.address)
    assert (verified.returncode, verified.stdout) == (0, "equal: 24 tokens in 2 passes\n")
    proof = outrider.Proof.from_json(path.read_text())
    path.write_text(replace(proof, token_ids=proof.token_ids[:9]).to_json())
    verified = outrider_run("verify", str(path), "--address", target.address)
    right = f"where the model gives token {proof.token_ids[9]}"
    said = f"not equal: the answer has the end at position 9, {right}\n"
    assert (verified.returncode, verified.stdout) == (1, said)
    path.write_text("7")
    verified = outrider_run("verify", str(path), "--address", target.address)
    assert (verified.returncode, "a proof is a JSON object" in verified.stderr) == (1, True)


def test_generate_lists_the_prompt_and_the_candidates(target: RunningTarget) -> None:
    options = ["--ignore-eos", "--prompt-logprobs", "--top-candidates", "2"]
    lines = generate(target, *options, "import os").stdout.splitlines()
    with outrider.Client(target.address) as client:
        expected = client.generate(
            "import os", max_tokens=24, seed=5, ignore_eos=True, prompt_logprobs=True, top_candidates=2
        )
    table = lines[lines.index(TOKEN_HEADING) + 1 :]
    tokens = (*expected.prompt_records, *expected.tokens)
    assert len(table) == sum(1 + len(token.candidates) for token in tokens)
    assert table[0].split()[:5] == [str(expected.prompt_records[0].id), *"----"]
    assert table[1].split()[:2] == [str(tokens[1].id), f"{tokens[1].raw_logprob:.4f}"]
    assert table[2].split()[:2] == [str(tokens[1].candidates[0].id), f"{tokens[1].candidates[0].raw_logprob:.4f}"]


def test_generate_takes_loop_time_limit_and_heal_options(target: RunningTarget) -> None:
    loop = generate(target, "--ignore-eos", "--stop-on-loop", "4", "9", PROMPT)
    assert loop.stderr.splitlines() == ["stop.loop.window is 4; allowed: at least 9, at most 4096"]
    limit = generate(target, "--time-limit", "0", "--no-lookup", PROMPT)
    assert limit.stderr.splitlines() == ["stop.time_limit is 0; allowed: above 0, at most 86400"]
    with outrider.Client(target.address) as client:
        stop = client.generate(PROMPT, max_tokens=24, seed=5, ignore_eos=True).text[4:8]
        healed = client.generate(
            PROMPT, max_tokens=24, seed=5, ignore_eos=True, heal=True, stop=stop, include_stop=True
        )
    options = ["--ignore-eos", "--heal", "--include-stop", "--stop", stop]
    assert generate(target, *options, PROMPT).stdout == healed.text + "\n"


@pytest.mark.parametrize(
    "options",
    [
        ["--json-schema", '{"enum": ["yes"]}'],
        ["--regex", '"yes"'],
        ["--lark", 'start: "\\"yes\\""'],
        ["--choice", '"yes"'],
    ],
)
def test_generate_follows_a_grammar(target: RunningTarget, options: list[str]) -> None:
    done = generate(target, *options, PROMPT)
    assert (done.returncode, done.stdout) == (0, '"yes"\n')


def test_generate_sends_a_conversation(target: RunningTarget) -> None:
    with outrider.Client(target.address) as client:
        expected = client.generate([outrider.Message("user", "hello")], max_tokens=24, seed=5)
    assert generate(target, "--chat", "hello").stdout == expected.text + "\n"


def test_generate_prints_calls(target: RunningTarget, tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text('[{"name": "now"}]')
    asked = ["--chat", "--tools", str(tmp_path / "tools.json"), "--tool-choice", "now", "--max-tokens", "200", "hello"]
    assert generate(target, *asked).stdout == "now({})\n\n"


def test_generate_names_every_bad_field(target: RunningTarget) -> None:
    done = generate(target, "--temperature", "-1", "--top-p", "2", "")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "prompt.text is empty; allowed: at least one character",
        "sampling.temperature is -1; allowed: at least 0, at most 3.40282e+38",
        "sampling.top_p is 2; allowed: above 0, at most 1",
    ]


def test_generate_reports_a_server_that_does_not_answer() -> None:
    done = outrider_run("generate", "--address", "127.0.0.1:1", "a")
    assert done.returncode == 1
    assert done.stderr.startswith("outrider generate: ")
    assert "Traceback" not in done.stderr


def test_interrupting_generate_drops_the_sequence(long_generate: subprocess.Popen[str]) -> None:
    long_generate.send_signal(signal.SIGINT)
    _, errors = long_generate.communicate(timeout=60)
    assert (long_generate.returncode, errors) == (130, "")


def test_a_reader_that_closes_the_pipe_ends_generate_quietly(
    long_generate: subprocess.Popen[str], halfway: GatePredictor
) -> None:
    assert long_generate.stdout is not None
    assert long_generate.stderr is not None
    long_generate.stdout.close()
    halfway.gate.set()
    assert long_generate.stderr.read() == ""
    assert long_generate.wait(60) == 141


def test_a_closed_pipe_at_the_token_list_ends_generate_quietly(
    target: RunningTarget, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class UnreadList(io.TextIOWrapper):
        def write(self, text: str) -> int:
            if text.startswith(TOKEN_HEADING):
                raise BrokenPipeError
            return super().write(text)

    with UnreadList((tmp_path / "out").open("wb")) as out:
        monkeypatch.setattr("sys.stdout", out)
        assert main(["generate", "--address", target.address, "--max-tokens", "2", "--logprobs", PROMPT]) == 141
