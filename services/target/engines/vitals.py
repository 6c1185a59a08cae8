"""Vitals: signs of life of an engine in another process, in memory that both share."""

import mmap
import os

from services.engine.loop import Pulse, PulseMemory
from services.target.generation.engine_figures import EngineLoad

_NUM_PULSE = 3
_LOADED, _LOAD = 3, slice(4, 7)
_BYTES = 7 * 8  # each is a double, which is read and written at once


class Vitals:
    """One process writes them, another reads them, without waiting for each other."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor` is that of `new_memory`."""
        self._numbers = memoryview(mmap.mmap(descriptor, _BYTES)).cast("d")

    @property
    def pulse_memory(self) -> PulseMemory:
        """Where the engine's loop writes its pulse."""
        return self._numbers[:_NUM_PULSE]

    @property
    def pulse(self) -> Pulse:
        """The pulse of the engine's loop."""
        return Pulse.read(self._numbers)

    @property
    def loaded_share(self) -> float:
        """The share of the weights that is loaded, 0 to 1."""
        return self._numbers[_LOADED]

    @loaded_share.setter
    def loaded_share(self, share: float) -> None:
        self._numbers[_LOADED] = share

    @property
    def load(self) -> EngineLoad:
        """What the engine has to do."""
        return EngineLoad(*map(int, self._numbers[_LOAD]))

    @load.setter
    def load(self, load: EngineLoad) -> None:
        for place, number in enumerate(load, _LOAD.start):
            self._numbers[place] = number


def new_memory() -> int:
    """Return the descriptor of new memory for Vitals, which a child process may be given."""
    descriptor = os.memfd_create("outrider-vitals")
    os.truncate(descriptor, _BYTES)
    return descriptor
