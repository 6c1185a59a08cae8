"""Other engines' processes: asked in lines, whatever else they print, and given up when they end."""

import sys
from pathlib import Path

import pytest

from benchmarks.peers.installed import InstalledPeers
from benchmarks.peers.peer_error import PeerError
from benchmarks.peers.python_peer import PythonPeer
from services.bench.answer import rate_together
from services.bench.contender import AUTO, PLAIN, fixed
from services.bench.setting import Setting
from services.cli.service_pair import ModelPair

pytestmark = pytest.mark.process

TALKATIVE = """
from benchmarks.peers.questions import serve

print("loading")

def answer(prompts, num_predictions, num_tokens):
    print("answering")
    told = {"first_token": 0.5, "num_first": 1, "decode": 2.0, "arrivals": [[1.0, 1], [3.0, 3]]}
    return [{"token_ids": [*prompt, num_predictions, num_tokens], **told} for prompt in prompts]

serve(answer)
"""


def peer(script: str) -> PythonPeer:
    return PythonPeer("a peer", [sys.executable, "-c", script], draft_lengths=[3], log=sys.__stderr__)


def test_a_peer_is_asked_in_each_way_whatever_it_prints():
    with peer(TALKATIVE) as running:
        assert running.ways == (PLAIN, fixed(3))
        answers = [running.answers([[7, 8]], way, num_tokens=5) for way in running.ways]
    assert [answer.token_ids for [answer] in answers] == [(7, 8, 0, 5), (7, 8, 3, 5)]
    assert answers[0][0].rate == 1.5


def test_a_peer_takes_several_prompts_and_may_choose_its_length():
    command = [sys.executable, "-c", TALKATIVE]
    with PythonPeer("a peer", command, draft_lengths=[3], has_auto=True, log=sys.__stderr__) as running:
        assert running.ways == (PLAIN, AUTO, fixed(3))
        answers = running.answers([[7], [8]], AUTO, num_tokens=5)
    assert [answer.token_ids for answer in answers] == [(7, None, 5), (8, None, 5)]
    assert rate_together(answers) == 3.0


def test_a_peer_that_ends_is_given_up():
    with pytest.raises(PeerError, match="a peer ended with code 3"), peer("raise SystemExit(3)"):
        pass
    dying = TALKATIVE.replace('print("answering")', "raise SystemExit(4)")
    with peer(dying) as running, pytest.raises(PeerError, match="a peer ended with code 4"):
        running.answers([[7, 8]], PLAIN, num_tokens=5)


def test_peers_not_installed_are_absent_with_a_reason(tmp_path: Path):
    models = ModelPair(tmp_path / "target", tmp_path / "draft")
    found = InstalledPeers(Path(sys.executable), tmp_path, Path(sys.executable), None)
    assert list(found.of(Setting(models=models, weights="int8", draft_weights="int4"), sys.__stderr__)) == []
    assert found.absent == {
        "transformers int8": "it is measured in bf16 only",
        "OpenVINO GenAI int8": "not named (--openvino-python, --openvino)",
        "llama.cpp int8": "there is no target-q8_0.gguf, draft-q4_0.gguf",
        "vLLM int8": "it is measured in bf16 only",
    }
    found = InstalledPeers(None, None, Path(sys.executable), tmp_path, Path(sys.executable), chosen=["vLLM"])
    assert list(found.of(Setting(models=models), sys.__stderr__)) == []
    assert found.absent == {"vLLM bf16": f"{Path(sys.executable).name} has no vllm"}
