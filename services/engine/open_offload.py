"""open_offload: opens the configured KV offload, the store for blocks that the prefix cache evicts."""

import logging

from services.engine.cache.disk_pages import DiskPages
from services.engine.cache.kv_offload import KvOffload
from services.engine.cache.memory_pages import MemoryPages
from services.engine.cache.page_file import PageFile, PageFileInUseError
from services.engine.cache.page_store import PageStore
from services.engine.cache.state_pages import StatePages
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.config import ConfigError, EngineConfig, state_bytes
from services.engine.decoder.native import BLOCK_SIZE, Decoder
from services.engine.loaded_model import LoadedModel

logger = logging.getLogger(__name__)

_MOST_PAGES = 1 << 20  # each page has an entry of about 1 KiB in memory


def open_offload(config: EngineConfig, model: LoadedModel, owner: str) -> KvOffload | None:
    """Open the configured offload of a model, None if there is none.

    `owner` describes everything but the tokens that a page's bytes depend on. Raises ConfigError if the store cannot be
    opened, or would hold no page.
    """
    page_bytes, shape = model.decoder.block_bytes, model.checkpoint.config
    state_pages = -(-state_bytes(shape) // page_bytes) if shape.has_states else 0
    if len(config.devices) > 1:
        owner = f"{owner} on {len(config.devices)} devices"  # whose parts follow each other in a page
    store = _open_store(config, page_bytes, owner, state_pages=state_pages)
    if store is None:
        return None
    text = "KV offload: %s pages of %s bytes, %s of them already filled"
    logger.info(text, store.num_slots, page_bytes, store.num_pages)
    return offload_to(store, model.decoder, shape)


def offload_to(store: PageStore, decoder: Decoder, shape: ModelConfig) -> KvOffload:
    """Return the offload of a decoder's blocks, and of its states if it has any, to a store with pages of a block."""
    states = None
    if shape.has_states:
        read, write = decoder.read_state, decoder.write_state
        states = StatePages(store, state_bytes=state_bytes(shape), read_state=read, write_state=write)
    return KvOffload(store, read_block=decoder.read_block, write_block=decoder.write_block, states=states)


def _open_store(config: EngineConfig, page_bytes: int, owner: str, *, state_pages: int) -> PageStore | None:
    if config.kv_offload_memory is not None:
        num_slots = _num_slots("kv_offload_memory", config.kv_offload_memory, page_bytes, state_pages)
        try:
            return MemoryPages(num_slots=num_slots, page_bytes=page_bytes)
        except MemoryError as error:
            problem = f"kv_offload_memory is {config.kv_offload_memory} bytes"
            raise ConfigError(f"{problem}; it must be what the system can give") from error
    if config.kv_offload_dir is None or config.kv_offload_disk is None:
        return None
    num_slots = _num_slots("kv_offload_disk", config.kv_offload_disk, page_bytes, state_pages)
    try:
        file = PageFile(config.kv_offload_dir, owner, num_slots=num_slots, page_bytes=page_bytes, block_size=BLOCK_SIZE)
    except (OSError, PageFileInUseError) as error:
        problem = f"kv_offload_dir is {config.kv_offload_dir}"
        raise ConfigError(f"{problem}; it must be a folder of this process alone: {error}") from error
    return DiskPages(file)


def _num_slots(name: str, num_bytes: int, page_bytes: int, state_pages: int) -> int:
    if num_bytes < (least := (1 + state_pages) * page_bytes):
        what = "one KV block and the states after it" if state_pages else "one KV block"
        raise ConfigError(f"{name} is {num_bytes} bytes; it must be at least {least}, {what}")
    return min(num_bytes // page_bytes, _MOST_PAGES)
