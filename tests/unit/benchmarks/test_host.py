"""The model whose passes take hardly any time is a whole checkpoint, and threads are counted by their names."""

import os
import threading
import time
from collections import Counter
from pathlib import Path

from benchmarks.host.threads import processor_times
from benchmarks.host.tiny_model import write_tiny_model
from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.weight_shapes import weight_shapes
from services.engine.loop import EngineLoop
from services.engine.text.tokenizer import Tokenizer
from tests.e2e.harness.models import DEMO_TARGET


def test_the_tiny_model_is_a_whole_checkpoint(tmp_path: Path):
    write_tiny_model(DEMO_TARGET, tmp_path)
    checkpoint = load_checkpoint(tmp_path)
    checkpoint.check_vocabulary(Tokenizer.from_model(tmp_path))
    assert {name: weight.shape for name, weight in checkpoint.weights()} == weight_shapes(checkpoint.config)


class Once:
    """A worker with one step, which takes some processor time and then counts it."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.has_stepped = threading.Event()

    def step(self) -> bool:
        while time.thread_time() < 0.05:  # the system counts from time to time only
            pass
        self.seen = processor_times("service", os.getpid())
        self.has_stepped.set()
        return False

    def abandon(self, message: str) -> None:
        """There are no requests."""


def test_the_engines_thread_is_counted_by_its_name():
    worker = Once()
    loop = EngineLoop(worker, on_failure=lambda: None)
    loop.start()
    assert worker.has_stepped.wait(60)
    loop.stop()
    assert worker.seen["service/engine"] > 0
    assert worker.seen["service/event loop"] > 0
