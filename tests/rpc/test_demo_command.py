"""`outrider demo`, as a shell or a terminal runs it."""

import re
from pathlib import Path

import grpc
import pytest

from scripts.recording.recorder import record
from tests.checkpoints import copy_of
from tests.rpc.commands import OUTRIDER, outrider_run

GREEN, PLAIN = "\033[32m", "\033[0m"


def test_demo_writes_live_and_leaves_nothing_behind() -> None:
    done = outrider_run("demo", cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stderr) == (0, "")
    ways = re.findall(r"^── .+ … (.+) ──$", done.stdout, re.MULTILINE)
    ends = re.findall(r"^\d+ tokens · .* · ended by (.+)$", done.stdout, re.MULTILINE)
    assert {*ways} == {"greedy", "drawn at temperature 0.7"}
    assert {end for way, end in zip(ways, ends, strict=True) if way == "greedy"} == {"stop token"}
    assert "green" not in done.stdout
    served = re.search(r"served on (\S+)$", done.stdout, re.MULTILINE)
    assert served is not None
    with grpc.insecure_channel(served[1]) as channel, pytest.raises(grpc.FutureTimeoutError):
        grpc.channel_ready_future(channel).result(timeout=1)


def test_on_a_terminal_what_was_predicted_is_green() -> None:
    demo = record([OUTRIDER, "demo"], 100)
    text = "".join(output.text for output in demo.outputs).replace("\r\n", "\n")
    assert demo.exit_code == 0
    legend, *predicted = re.findall(rf"{re.escape(GREEN)}(.+?){re.escape(PLAIN)}", text, re.DOTALL)
    assert legend == "green: what the draft had predicted"
    assert "".join(predicted).strip()


def test_demo_asks_questions_of_a_model_that_chats(model: Path) -> None:
    done = outrider_run("demo", "--model", str(model), "--draft", str(model), "--max-tokens", "100")
    assert (done.returncode, done.stderr) == (0, "")
    scenes = re.findall(r"^── a question … .+ ──\n> .+\?? .*\.\n\n", done.stdout, re.MULTILINE)
    ends = re.findall(r"^\d+ tokens? · .*per pass · .* · ended by \w+", done.stdout, re.MULTILINE)
    assert len(scenes) == len(ends) == 2
    assert re.search(r"[1-9]\d*% accepted", done.stdout)


def test_demo_continues_texts_with_a_model_that_does_not(model: Path, tmp_path: Path) -> None:
    folder = copy_of(model, tmp_path)
    (folder / "chat_template.jinja").unlink()
    done = outrider_run("demo", "--model", str(folder), "--max-tokens", "8")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"^── def \w+\(.*\).*: … .+ ──\ndef \w+\(", done.stdout, re.MULTILINE)) == 3
    assert "accepted" not in done.stdout  # there is no draft


def test_demo_refuses_a_draft_without_a_model(model: Path) -> None:
    done = outrider_run("demo", "--draft", str(model))
    assert (done.returncode, done.stdout) == (1, "")
    assert "--draft is the draft of --model, which is not given" in done.stderr
