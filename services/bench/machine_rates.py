"""MachineRates: how fast this machine reads and computes, measured in turn with what is held against it."""

import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from functools import partial

from services.bench.spread import Spread
from services.engine.decoder.native import Device, ReadProbe
from services.engine.decoder.weight_choice import STORED

_ROUNDS = 1 << 18  # a millisecond or so
_ATTENTION_FORMAT = "f32"  # what queries, keys and values are computed in, however they are held
_STORED_FORMAT = "int8"  # what multiplies integers that a file holds


class MachineRates:
    """`measures` are timed in turn with others, and their times make the rates, per second."""

    def __init__(self, device: Device, *, weights: str, num_bytes: int) -> None:
        """`weights` is a format; a buffer of about `num_bytes` is read."""
        self._device = device
        self._probe = ReadProbe(device, num_bytes)
        formats = (_STORED_FORMAT if weights == STORED else weights, _ATTENTION_FORMAT)
        self._operations = [device.multiply_registers(each, _ROUNDS) for each in formats]
        actions: list[Callable[[], object]] = [partial(self._probe.read, stripes) for stripes in (True, False)]
        actions += [partial(device.multiply_registers, each, _ROUNDS) for each in formats]
        self.measures: list[Callable[[], float]] = [partial(timed, device, action) for action in actions]

    def read_rate(self, times: Seq[Seq[float]]) -> Spread:
        """Bytes, in the best of several ways."""
        rates = [Spread.of([self._probe.bytes / each for each in some]) for some in times[: -len(self._operations)]]
        return max(rates, key=lambda rate: rate.median)

    def product_rate(self, times: Seq[Seq[float]]) -> Spread | None:
        """Operations by what multiplies weights, on numbers in registers; None where the device does not tell."""
        return self._rate(times, -2)

    def attention_rate(self, times: Seq[Seq[float]]) -> Spread | None:
        """The same by what attention is made of."""
        return self._rate(times, -1)

    def _rate(self, times: Seq[Seq[float]], index: int) -> Spread | None:
        operations = self._operations[index]
        return Spread.of([operations / each for each in times[index]]) if operations else None


def timed(device: Device, action: Callable[[], object]) -> float:
    """Seconds until all that the action enqueues is done."""
    start = time.perf_counter()
    action()
    device.synchronize()
    return time.perf_counter() - start
