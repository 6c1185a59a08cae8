"""record_passes: records the GPU graphs of decode passes at start-up, before a request waits for them."""

from services.engine.decoder.native import Decoder, Device

_MOST_SECONDS = 10.0  # graphs that are not recorded by then are when the pass runs for the second time


def record_passes(decoder: Decoder, device: Device, *, max_rows: int, max_blocks: int) -> None:
    """Record graphs of decode passes on a GPU; do nothing on a CPU."""
    if device.memory is not None:
        decoder.record_passes(max_rows=max_rows, max_blocks=max_blocks, seconds=_MOST_SECONDS)
