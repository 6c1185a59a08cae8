"""The grammar worker ends without a word when its service is killed, whatever it is doing then."""

import multiprocessing
import pickle
import socket
import subprocess

import pytest

from services.engine.worker_process import worker_command
from tests.unit.sequences import VOCAB_SIZE, byte_tokenizer

pytestmark = pytest.mark.process

_PATIENCE_SECONDS = 60


@pytest.mark.parametrize("moment", ["starting", "reading", "compiling", "waiting"])
def test_a_worker_whose_service_is_killed_prints_nothing(moment: str) -> None:
    ours, theirs = multiprocessing.Pipe()
    with theirs:
        command = worker_command("services.engine.grammar.worker", theirs.fileno())
        worker = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True)
    with ours:
        vocabulary = (byte_tokenizer(), VOCAB_SIZE)
        if moment == "reading":
            with socket.socket(fileno=multiprocessing.reduction.DupFd(ours.fileno()).detach()) as raw:
                raw.sendall(len(pickle.dumps(vocabulary)).to_bytes(4, "big") + b"a part of it")
        elif moment != "starting":
            ours.send(vocabulary)
        if moment == "waiting":
            ours.recv_bytes()
    _, said = worker.communicate(timeout=_PATIENCE_SECONDS)
    assert said == ""
