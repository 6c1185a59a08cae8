"""What it costs to offload KV blocks and restore them: `python -m benchmarks.kv_offload MODEL DIR`.

For memory, and for a file in DIR, it prints the median time to write and to restore a block, beside the time to compute
its tokens in a prompt. The system may serve reads of the file from its page cache.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from services.engine.cache.disk_pages import DiskPages
from services.engine.cache.memory_pages import MemoryPages
from services.engine.cache.page_file import PageFile
from services.engine.cache.page_key import PageKey, scope_digest
from services.engine.cache.page_store import PageStore
from services.engine.config import KV_FORMATS, EngineConfig, resolve_isa, resolve_threads
from services.engine.decoder.native import BLOCK_SIZE, Batch, Decoder
from services.engine.loaded_model import LoadedModel

_TOKENS = 256  # of the prompt: one chunk
_PAGES = 32


def main() -> None:
    """Measure both stores, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--kv", choices=KV_FORMATS, default="bf16", help="how keys and values are held (%(default)s)")
    parser.add_argument("--weights", default="stored", help="how weights are held (%(default)s)")
    options = parser.parse_args()
    config = EngineConfig(
        model=options.model, isa=resolve_isa(), threads=resolve_threads(), weights=options.weights, kv=options.kv
    )
    decoder = LoadedModel.load(config).decoder
    print(f"a block: {decoder.block_bytes} bytes; computed in {1e3 * _computing(decoder):.2f} ms")
    size = decoder.block_bytes
    file = PageFile(options.folder, "measured", num_slots=_PAGES, page_bytes=size, block_size=BLOCK_SIZE)
    disk = DiskPages(file)
    disk.clear()
    _measure("memory", decoder, MemoryPages(num_slots=_PAGES, page_bytes=size), lambda: None)
    _measure("disk", decoder, disk, disk.flush)


def _measure(name: str, decoder: Decoder, store: PageStore, flush: Callable[[], None]) -> None:
    keys = [PageKey.after(scope_digest(""), (number,) * BLOCK_SIZE) for number in range(_PAGES)]
    begin = time.perf_counter()
    kept = _times(lambda key: store.put(key, lambda page: decoder.read_block(0, page)), keys)
    flush()
    whole = (time.perf_counter() - begin) / _PAGES
    back = _times(lambda key: _bring_back(decoder, store, key), keys)
    store.close()
    print(f"{name}: kept in {1e3 * kept:.2f} ms, written in {1e3 * whole:.2f} ms, brought back in {1e3 * back:.2f} ms")


def _bring_back(decoder: Decoder, store: PageStore, key: PageKey) -> None:
    page = store.get(key)
    assert page is not None
    decoder.write_block(1, page)


def _times(work: Callable[[PageKey], object], keys: Iterable[PageKey]) -> float:
    """Return the median seconds of `work` over the keys."""
    seconds = []
    for key in keys:
        begin = time.perf_counter()
        work(key)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def _computing(decoder: Decoder) -> float:
    """Return the seconds to compute each block of a prompt."""
    num_blocks = _TOKENS // BLOCK_SIZE
    batch = Batch(max_rows=_TOKENS, max_sequences=1, max_blocks=num_blocks)
    batch.append([1] * _TOKENS, position=0, blocks=range(num_blocks), num_logits=1)
    return _times(lambda _: decoder.forward(batch).logits.numpy(), [PageKey(b"", ())] * 5) / num_blocks


if __name__ == "__main__":
    main()
