"""A process that loads a checkpoint and prints its peak of memory; run by `test_load_memory`."""

import json
import re
import sys
from pathlib import Path

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.decoder.model_loader import load_decoder
from services.engine.decoder.native import Device


def resident(field: str) -> int:
    """Bytes in memory, pages of mapped files included: `VmRSS` now, `VmHWM` at most so far."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def main(folder: str, isa: str, weights: str) -> None:
    """Print the bytes of the weights, and the most that was in memory beside what was there before."""
    device = Device.cpu(isa, threads=2)
    before = resident("VmRSS")
    checkpoint = load_checkpoint(folder)
    decoder = load_decoder(checkpoint, device, weights=weights, kv="bf16", num_blocks=1)
    checkpoint.weights_digest()
    print(json.dumps({"weights": decoder.weight_bytes, "peak": resident("VmHWM") - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
