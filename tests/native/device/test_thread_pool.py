"""The threads of a CPU device stay on a core each where they fill the cores, and go where they like otherwise."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

_COUNT = """
import os, sys
from services.engine.decoder.native import Device, isas

device = Device.cpu(isas()[0], int(sys.argv[1]))
places = []
for task in os.listdir("/proc/self/task"):
    if int(task) != os.getpid():
        cores = os.sched_getaffinity(int(task))
        places.append(tuple(cores))
single = [place for place in places if len(place) == 1]
print(len(single), len(set(single)))
"""


def pinned(num_threads: int) -> tuple[int, int]:
    """Threads that stay on one core, and how many cores these are."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNT, str(num_threads)], capture_output=True, text=True, check=True, timeout=60
    )
    num_pinned, num_cores = map(int, done.stdout.split())
    return num_pinned, num_cores


several_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core only")


@several_cores
def test_threads_that_fill_the_cores_have_one_each():
    num_cores = len(os.sched_getaffinity(0))
    assert pinned(num_cores) == (num_cores - 1, num_cores - 1)


@several_cores
def test_other_numbers_of_threads_are_left_to_the_scheduler():
    num_cores = len(os.sched_getaffinity(0))
    assert pinned(num_cores + 1) == (0, 0)
