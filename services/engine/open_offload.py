"""open_offload: opens the configured KV offload, the store for blocks that the prefix cache evicts."""

import logging

from services.engine.cache.disk_pages import DiskPages
from services.engine.cache.kv_offload import KvOffload
from services.engine.cache.memory_pages import MemoryPages
from services.engine.cache.page_file import PageFile, PageFileInUseError
from services.engine.cache.page_store import PageStore
from services.engine.cache.state_pages import StatePages
from services.engine.config import ConfigError, EngineConfig, state_bytes
from services.engine.decoder.native import BLOCK_SIZE
from services.engine.loaded_model import LoadedModel

logger = logging.getLogger(__name__)

_MOST_PAGES = 1 << 20  # each page has an entry of about 1 KiB in memory


def open_offload(config: EngineConfig, model: LoadedModel, owner: str) -> KvOffload | None:
    """Open the configured offload of a model, None if there is none.

    `owner` describes everything but the tokens that a page's bytes depend on. Raises ConfigError if the store cannot be
    opened, or would hold no page.
    """
    decoder, shape = model.decoder, model.checkpoint.config
    least = decoder.block_bytes + (state_bytes(shape) if shape.has_states else 0)
    store = _open_store(config, decoder.block_bytes, owner, least=least)
    if store is None:
        return None
    states = None
    if shape.has_states:
        states = StatePages(
            store,
            state_bytes=state_bytes(shape),
            read_state=decoder.read_state,
            write_state=decoder.write_state,
        )
    text = "KV offload: %s pages of %s bytes, %s of them already filled"
    logger.info(text, store.num_slots, decoder.block_bytes, store.num_pages)
    return KvOffload(store, read_block=decoder.read_block, write_block=decoder.write_block, states=states)


def _open_store(config: EngineConfig, page_bytes: int, owner: str, *, least: int) -> PageStore | None:
    if config.kv_offload_memory is not None:
        num_slots = _num_slots("kv_offload_memory", config.kv_offload_memory, page_bytes, least)
        try:
            return MemoryPages(num_slots=num_slots, page_bytes=page_bytes)
        except MemoryError as error:
            problem = f"kv_offload_memory is {config.kv_offload_memory} bytes"
            raise ConfigError(f"{problem}; it must be what the system can give") from error
    if config.kv_offload_dir is None or config.kv_offload_disk is None:
        return None
    num_slots = _num_slots("kv_offload_disk", config.kv_offload_disk, page_bytes, least)
    try:
        file = PageFile(config.kv_offload_dir, owner, num_slots=num_slots, page_bytes=page_bytes, block_size=BLOCK_SIZE)
    except (OSError, PageFileInUseError) as error:
        problem = f"kv_offload_dir is {config.kv_offload_dir}"
        raise ConfigError(f"{problem}; it must be a folder of this process alone: {error}") from error
    return DiskPages(file)


def _num_slots(name: str, num_bytes: int, page_bytes: int, least: int) -> int:
    if num_bytes < least:
        what = "one KV block" if least == page_bytes else "one KV block and the states after it"
        raise ConfigError(f"{name} is {num_bytes} bytes; it must be at least {least}, {what}")
    return min(num_bytes // page_bytes, _MOST_PAGES)
