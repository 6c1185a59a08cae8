"""record_passes: what a GPU is asked for again and again, recorded before anyone waits for it."""

from services.engine.decoder.native import Decoder, Device

_MOST_SECONDS = 10.0  # what is not recorded then is when it comes for the second time


def record_passes(decoder: Decoder, device: Device, *, max_rows: int, max_blocks: int) -> None:
    """Record the passes of sequences under way, on a device with memory of its own; others have nothing to record."""
    if device.memory is not None:
        decoder.record_passes(max_rows=max_rows, max_blocks=max_blocks, seconds=_MOST_SECONDS)
