"""`outrider chat`: as it is typed into, and as it is piped."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from outrider import Client, Message
from services.cli import main
from services.cli.chat.dialogue import Dialogue
from services.cli.chat.parameters import Parameters
from services.cli.chat.session import ChatSession
from services.cli.terminal import Terminal
from tests.harness.models.checkpoints import CONTEXT_LENGTH, copy_of
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.draft_link import drafted_target
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.typed_command import TypedCommand, typed

PARAMS = ["--param", "max_tokens=20", "--param", "seed=5", "--param", "ignore_eos=true"]
OPTIONS = {"max_tokens": 20, "seed": 5, "ignore_eos": True}
GREEN, CYAN, PLAIN = "\033[32m", "\033[36m", "\033[0m"


class Done(NamedTuple):
    """How a command has ended, and what it has written."""

    code: int
    out: str
    err: str


Chat = Callable[..., Done]


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Chat:
    """`outrider chat` with lines from a pipe."""

    def run(target: RunningTarget, *options: str, lines: list[str]) -> Done:
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
        code = main(["chat", "--address", target.address, *options])
        return Done(code, *capsys.readouterr())

    return run


def said(client: Client, *questions: str, system: str | None = None) -> list[Message]:
    """The conversation that these questions make."""
    messages = [Message("system", system)] * bool(system)
    for question in questions:
        messages.append(Message("user", question))
        answer = client.generate(messages, message_deltas=True, **OPTIONS).message
        assert answer is not None
        messages.append(answer)
    return messages


def drawn(command: TypedCommand) -> str:
    """An answer as it is on the screen, with its figures after it."""
    return command.until("20 tokens")


def test_a_pipe_s_lines_are_questions_of_one_conversation(target: RunningTarget, chat: Chat) -> None:
    with Client(target.address) as client:
        first, second = (m for m in said(client, "Who?", "And why?", system="Be short.") if m.role == "assistant")
    done = chat(target, *PARAMS, "--system", "Be short.", lines=["Who?", "", "And why?"])
    assert done.code == 0
    assert done.out == f"{first.content}\n{second.content}\n"
    assert len(re.findall(r"^20 tokens · .* tokens per pass · ended by max tokens$", done.err, re.MULTILINE)) == 2


def test_commands_are_not_for_the_model(target: RunningTarget, chat: Chat, tmp_path: Path) -> None:
    file = tmp_path / "said.json"
    lines = [
        "Forget me",
        "/reset",
        "/system Be short.",
        "/params temperature=0.5",
        "Who?",
        f"/save {file}",
        "/params",
        "/help",
    ]
    done = chat(target, *PARAMS, lines=lines)
    assert done.code == 0
    saved = json.loads(file.read_text())
    assert [message["role"] for message in saved["messages"]] == ["system", "user", "assistant"]
    assert saved["messages"][2]["content"] == done.out.removesuffix("\n").split("\n", 1)[-1]
    assert {name: saved[name] for name in ("temperature", *OPTIONS)} == {"temperature": 0.5, **OPTIONS}
    assert "max_tokens=20 seed=5 ignore_eos=true temperature=0.5\n" in done.err
    assert len(re.findall(r"^/\w+ .+", done.err, re.MULTILINE)) == 5


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/gone", "there is no /gone; /help lists what there is"),
        ("/params gone=1", "'gone=1' is not NAME=VALUE, with one of these names: adaptive_decay, "),
        ("/params top_k=few", "top_k is 'few'; it must be a whole number"),
        ("/save /", "File exists: '/'"),
        ("/save", "/save needs the name of a file"),
    ],
)
def test_a_pipe_ends_at_the_first_command_that_fails(target: RunningTarget, chat: Chat, line: str, told: str) -> None:
    done = chat(target, lines=[line, "Who?"])
    assert (done.code, done.out) == (1, "")
    assert told in done.err


def test_a_refused_question_is_reported_by_field_and_dropped(target: RunningTarget) -> None:
    with typed("chat", "--address", target.address, *PARAMS) as command:
        command.until("> ")
        command.type("/params temperature=-1\n")
        command.until("temperature=-1.0")
        command.type("Who?\n")
        command.until("sampling.temperature is -1")
        command.type("/params temperature=\n")
        command.type("Who?\n")
        drawn(command)
        assert command.end() == 0


def test_ctrl_c_ends_an_answer_and_not_the_program(model: Path) -> None:
    predictor = GatePredictor()
    with (
        target_server(model, predictor=predictor) as target,
        typed("chat", "--address", target.address, *PARAMS) as command,
    ):
        command.until("> ")
        command.type("dropped")
        command.until("dropped")
        command.press_ctrl_c_until("> ")
        predictor.gate.clear()  # an answer cannot be through before it is cancelled
        command.type("Go on and on.\n")
        command.until("Go on and on.\n")
        wait_until(lambda: target.engine.scheduler.running)
        command.press_ctrl_c_until("cancelled")
        predictor.gate.set()
        target.assert_all_free()
        command.type("Once more.\n")
        drawn(command)
        assert command.end() == 0


def test_predicted_tokens_are_in_colour(model: Path) -> None:
    forced = ["--param", "speculation=always", "--param", "num_predictions=4", "--param", "temperature=0"]
    letters = ["--param", "regex=[a-z]{200,300}"]  # whose tokens are whole characters
    with (
        drafted_target(model, model) as target,
        typed("chat", "--address", target.address, *PARAMS, *forced, *letters) as command,
    ):
        legend, answer = command.until("> "), ""
        while "accepted" not in answer:  # on a busy machine predictions may come too late for a whole answer
            command.type("Who?\n")
            command.until("Who?\n")
            answer = command.until("> ")
    assert f"{GREEN}green: what a draft or a head had predicted{PLAIN}" in legend
    assert CYAN in legend
    assert "".join(re.findall(rf"{re.escape(GREEN)}(.+?){re.escape(PLAIN)}", answer, re.DOTALL))
    assert re.search(r"20 tokens · .* · \d\.\d\d tokens per pass · [1-9]\d*%", answer)


def test_the_oldest_is_forgotten_when_the_context_is_full(model: Path, chat: Chat) -> None:
    questions = [f"Number {number}. {'word ' * (CONTEXT_LENGTH // 10)}" for number in range(12)]
    with target_server(model, kv_blocks=256) as target:
        done = chat(target, *PARAMS, lines=questions)
    assert (done.code, len(re.findall("^20 tokens", done.err, re.MULTILINE))) == (0, 12)
    assert "the context is full: the oldest question is forgotten\n" in done.err


def test_a_question_that_is_too_long_makes_nothing_forgotten(target: RunningTarget, chat: Chat) -> None:
    done = chat(target, *PARAMS, lines=["Who?", "word " * CONTEXT_LENGTH])
    assert done.code == 1
    assert re.search(r"^prompt\.chat is \d+ tokens long; allowed: at most", done.err, re.MULTILINE)
    assert "forgotten" not in done.err


def test_a_question_that_is_refused_makes_nothing_forgotten(target: RunningTarget) -> None:
    dialogue, parameters = Dialogue("Be short."), Parameters()
    parameters.set("temperature=-1")
    for role in ("user", "assistant"):
        dialogue.add(Message(role, "word " * (CONTEXT_LENGTH // 2)))
    before, pipe = dialogue.messages, io.StringIO()
    with Client(target.address) as client:
        session = ChatSession(client, client.model_info(), dialogue, parameters, goes_on=True)
        assert not session.ask("Who?", Terminal(pipe), Terminal(pipe))
    assert dialogue.messages == before
    assert "sampling.temperature is -1" in pipe.getvalue()


def test_ctrl_c_ends_a_pipe_s_questions(target: RunningTarget, chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(io.StringIO):
        def write(self, _: str) -> int:
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdout", Interrupted())
    done = chat(target, *PARAMS, lines=["Who?", "And why?"])
    assert (done.code, done.err.count("cancelled")) == (130, 1)


def test_a_model_without_a_template_cannot_chat(model: Path, chat: Chat, tmp_path: Path) -> None:
    folder = copy_of(model, tmp_path)
    (folder / "chat_template.jinja").unlink()
    with target_server(folder) as target:
        done = chat(target, lines=["Who?"])
    assert done.code == 1
    assert "has no chat template; `outrider generate` continues texts with it" in done.err
