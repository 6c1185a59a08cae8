"""A process that prints how a KV cache takes up memory; run by `test_cache_memory`."""

import json

from services.engine.decoder.cache_memory import take_cache_memory
from services.engine.decoder.native import BLOCK_SIZE, Decoder, DecoderConfig, Device, isas
from tests.native.harness.load_peak import resident
from tests.native.harness.random_models import PLAIN

_MIB = 1 << 20


def main() -> None:
    """Print the bytes that are more in memory once a decoder has a cache of 128 MiB, and once that has its memory."""
    device, config = Device.cpu(isas()[0], 1), DecoderConfig(PLAIN)
    small = Decoder(device, config, weights="f32", kv="f32", num_blocks=1)
    before = resident("VmRSS")
    num_blocks = 128 * _MIB // (BLOCK_SIZE * small.kv_bytes_per_token)
    decoder = Decoder(device, config, weights="f32", kv="f32", num_blocks=num_blocks)
    allocated = resident("VmRSS") - before
    for _ in take_cache_memory(decoder):
        pass
    print(json.dumps({"allocated": allocated, "taken": resident("VmRSS") - before}))


if __name__ == "__main__":
    main()
