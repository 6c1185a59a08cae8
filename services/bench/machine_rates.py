"""MachineRates: how fast this machine reads and computes, measured in turn with the passes that it is compared with."""

import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from functools import partial

from services.bench.spread import Spread
from services.engine.decoder.native import Device, ReadProbe
from services.engine.decoder.weight_choice import STORED

_ROUNDS = 1 << 18  # about a millisecond
_ATTENTION_FORMAT = "f32"  # attention computes in this format, whatever the format of the KV cache
_STORED_FORMAT = "int4"  # no kernel multiplies a file's own integers faster than this format's


class MachineRates:
    """Time `measures` in turn with other measures, and pass the times to the methods: they return rates per second."""

    def __init__(self, device: Device, *, weights: str, num_bytes: int) -> None:
        """`weights` is a format; a buffer of about `num_bytes` is read to measure the read rate."""
        self._device = device
        self._probe = ReadProbe(device, num_bytes)
        formats = (_STORED_FORMAT if weights == STORED else weights, _ATTENTION_FORMAT)
        self._operations = [device.multiply_registers(each, _ROUNDS) for each in formats]
        actions: list[Callable[[], object]] = [partial(self._probe.read, stripes) for stripes in (True, False)]
        actions += [partial(device.multiply_registers, each, _ROUNDS) for each in formats]
        self.measures: list[Callable[[], float]] = [partial(timed, device, action) for action in actions]

    def read_rate(self, times: Seq[Seq[float]]) -> Spread:
        """Return bytes per second, read in the fastest of several ways."""
        rates = [Spread.of([self._probe.bytes / each for each in some]) for some in times[: -len(self._operations)]]
        return max(rates, key=lambda rate: rate.median)

    def product_rate(self, times: Seq[Seq[float]]) -> Spread | None:
        """Return operations per second of the weights' matrix kernel on registers; None if the device cannot tell."""
        return self._rate(times, -2)

    def attention_rate(self, times: Seq[Seq[float]]) -> Spread | None:
        """Return operations per second of the attention kernel on registers; None if the device cannot tell."""
        return self._rate(times, -1)

    def _rate(self, times: Seq[Seq[float]], index: int) -> Spread | None:
        operations = self._operations[index]
        return Spread.of([operations / each for each in times[index]]) if operations else None


def timed(device: Device, action: Callable[[], object]) -> float:
    """Return the seconds until everything that the action enqueues is done."""
    start = time.perf_counter()
    action()
    device.synchronize()
    return time.perf_counter() - start
