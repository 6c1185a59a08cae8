"""`outrider demo`: as a terminal runs it, and what it shows of other models."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

import outrider
from scripts.recording.recorder import record
from services.cli import demo, main
from services.cli.service_pair import ModelPair
from tests.harness.models.checkpoints import copy_of
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.commands import OUTRIDER, outrider_run
from tests.rpc.harness.draft_link import drafted_target

GREEN, PLAIN = "\033[32m", "\033[0m"
ANY_STYLE = re.compile(r"\033\[[\d;]*m")
COMPARISON = re.compile(
    r"^\d\.\d\d tokens per pass with (the draft|the head), \d+ passes instead of \d+ · without it: the same bytes$",
    re.MULTILINE,
)

RunDemo = Callable[..., str]


@pytest.fixture
def run_demo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunDemo:
    """Runs the command in this process, where it starts no services: it has a server that runs already."""

    def run(running: RunningTarget, *options: str, models: ModelPair, exit_code: int = 0) -> str:
        @contextmanager
        def pair_of(wanted: ModelPair, **_: object) -> Iterator[SimpleNamespace]:
            assert wanted == models
            yield SimpleNamespace(target=running, draft=models.draft)

        monkeypatch.setattr(demo, "running_pair", pair_of)
        assert main(["demo", *options]) == exit_code
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return run


def test_demo_is_coloured_on_a_terminal_and_stops_its_server() -> None:
    done = record([OUTRIDER, "demo"], 100)
    assert done.exit_code == 0
    coloured = "".join(output.text for output in done.outputs).replace("\r\n", "\n")
    for part, predictor in zip(coloured.split("speed: ")[:2], ("the draft", "the head"), strict=True):
        legend, *predicted = re.findall(rf"{re.escape(GREEN)}(.+?){re.escape(PLAIN)}", part, re.DOTALL)
        assert legend == f"green: what {predictor} had predicted"
        assert "".join(predicted).strip()
    text = ANY_STYLE.sub("", coloured)
    ways = re.findall(r"^── .+ … (.+) ──$", text, re.MULTILINE)
    ends = re.findall(r"^\d+ tokens · .* · ended by (.+)$", text, re.MULTILINE)
    assert {*ways} == {"greedy", "drawn at temperature 0.7"}
    assert {end for way, end in zip(ways, ends, strict=True) if way == "greedy"} == {"stop token"}
    assert sorted(COMPARISON.findall(text)) == sorted(["the draft", "the head"] * (len(ways) // 2))
    served = re.findall(r"weights, on (\S+), with", text)
    assert len(served) == 2
    for address in served:
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as failure:
            channel.unary_unary("/nobody/Answers")(b"")
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE


def test_demo_asks_questions_of_a_chat_model_without_colour(model: Path, run_demo: RunDemo) -> None:
    options = ["--model", str(model), "--draft", str(model), "--max-tokens", "40"]
    with drafted_target(model, model) as running:

        def is_any_accepted() -> bool:
            out = run_demo(running, *options, models=ModelPair(model, model))
            scenes = re.findall(r"^── a question … .+ ──\n> .+\?? .*\.\n\n", out, re.MULTILINE)
            ends = re.findall(r"^\d+ tokens? · .*per pass · .* · ended by \w+", out, re.MULTILINE)
            assert len(scenes) == len(ends) == len(COMPARISON.findall(out)) == 2
            assert "green" not in out
            assert not ANY_STYLE.search(out)
            return re.search(r"[1-9]\d*% accepted", out) is not None

        wait_until(is_any_accepted)  # on a busy machine a draft may be too late for all of an answer


def test_demo_continues_texts_with_a_model_that_does_not(model: Path, tmp_path: Path, run_demo: RunDemo) -> None:
    folder = copy_of(model, tmp_path)
    (folder / "chat_template.jinja").unlink()
    with target_server(folder) as running:
        out = run_demo(running, "--model", str(folder), "--max-tokens", "8", models=ModelPair(folder, None))
    assert len(re.findall(r"^── def \w+\(.*\).*: … .+ ──\ndef \w+\(", out, re.MULTILINE)) == 3
    assert "accepted" not in out  # there is no draft
    assert "with the draft" not in out


def test_demo_fails_if_a_draft_changed_a_byte(model: Path, run_demo: RunDemo, monkeypatch: pytest.MonkeyPatch) -> None:
    generate = outrider.Client.generate
    monkeypatch.setattr(outrider.Client, "generate", lambda client, prompt, **options: generate(client, "!", **options))
    with target_server(model) as running:
        options = ["--model", str(model), "--draft", str(model), "--max-tokens", "8"]
        out = run_demo(running, *options, models=ModelPair(model, model), exit_code=1)
    assert out.count("without it: OTHER BYTES") == 2


def test_demo_refuses_a_draft_without_a_model(model: Path) -> None:
    done = outrider_run("demo", "--draft", str(model))
    assert (done.returncode, done.stdout) == (1, "")
    assert "--draft is the draft of --model, which is not given" in done.stderr


def comparison(drafted: float, alone: float) -> demo._Comparison:
    """Of answers of eleven tokens in so many seconds."""
    results = (
        SimpleNamespace(token_ids=range(11), timings=SimpleNamespace(decode=seconds)) for seconds in (drafted, alone)
    )
    return demo._Comparison("the draft", *results)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ratios", "load", "said"),
    [
        ([2.0, 0.25, 4.0], 0.5, "speed: 2.00 × with the draft (median of 3 pairs of runs, 0.25 to 4.00)."),
        ([0.5], 0.5, "That is not faster: here it was asked at every pass"),
        ([0.5], 1e4, "This machine is busy, with a load of 10000.0 on"),
        ([], 0.5, "too short"),
    ],
)
def test_the_speed_is_a_median_and_says_if_it_is_little_worth(ratios: list[float], load: float, said: str) -> None:
    text = demo._speed([comparison(1.0, ratio) for ratio in ratios], "the draft", load)
    assert said in text
    assert ("not faster" in text) == ("not faster" in said)
