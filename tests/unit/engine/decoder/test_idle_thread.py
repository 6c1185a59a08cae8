"""Work in idle time delays nothing, least of all the end of the process."""

import subprocess
import sys
import threading
from collections.abc import Generator

import pytest

from services.engine.decoder.cache_memory import in_idle_time

pytestmark = pytest.mark.process

_ENDLESS = """
import itertools, threading
from services.engine.decoder.cache_memory import in_idle_time
from services.engine.decoder.native import Device, ReadProbe

def work():
    try:
        for _ in itertools.count():
            probe.read(in_stripes=False)  # which gives the GIL away
            yield
    finally:
        print("left", flush=True)

probe = ReadProbe(Device.cpu("portable", 1), 1 << 20)
starter = threading.Thread(target=in_idle_time, args=[work()], daemon=True)
starter.start()
starter.join()
"""


def test_all_steps_are_taken() -> None:
    taken: list[int] = []

    def work() -> Generator[None]:
        for step in range(5):
            taken.append(step)
            yield

    in_idle_time(work()).join()
    assert taken == [0, 1, 2, 3, 4]
    assert not [thread for thread in threading.enumerate() if thread.name == "idle time"]


def test_a_process_ends_between_two_steps_of_idle_work() -> None:
    ended = subprocess.run([sys.executable, "-c", _ENDLESS], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "left\n", "")
