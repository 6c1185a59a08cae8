"""LoadedModel: a checkpoint's weights on a device, with adapters, KV cache, tokenizer and grammar compiler."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from services.engine.cache.block_manager import BlockManager
from services.engine.cache.kv_offload import KvOffload
from services.engine.cache.state_checkpoints import StateCheckpoints
from services.engine.checkpoint.checkpoint import Checkpoint, load_checkpoint
from services.engine.config import EngineConfig, ring_rows
from services.engine.decoder.background_digest import BackgroundDigest
from services.engine.decoder.cache_memory import in_idle_time, take_cache_memory
from services.engine.decoder.digest_record import DigestRecord
from services.engine.decoder.loading_progress import LoadingProgress
from services.engine.decoder.model_loader import fill_decoder, find_blocks, new_decoder
from services.engine.decoder.native import BLOCK_SIZE, Decoder, Device, Sampler
from services.engine.decoder.warm_up import record_passes, warm_up
from services.engine.decoder.weights_cache import WeightsCache
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.grammar.compiler import GrammarCompiler
from services.engine.grammar.process import GrammarProcess
from services.engine.hub.fetch import fetch
from services.engine.loaded_drafter import LoadedDrafter, attach, check_host, find_drafter
from services.engine.lora.adapter import Adapter
from services.engine.lora.adapter_loader import AdapterLoader
from services.engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """The parts that the engines of both services share."""

    checkpoint: Checkpoint
    tokenizer: Tokenizer
    grammars: GrammarCompiler
    device: Device  # the first, if there are several
    decoder: Decoder
    drafter: LoadedDrafter | None  # attached to it
    adapter_loader: AdapterLoader
    adapters: Mapping[str, Adapter]  # those that were loaded with it, by their names
    sampler: Sampler
    blocks: BlockManager
    weights: str  # their format in memory
    digest: BackgroundDigest
    context_length: int  # tokens of prompt and answer; one sequence alone always fits in the KV cache

    @classmethod
    def load(
        cls,
        config: EngineConfig,
        progress: LoadingProgress | None = None,
        try_out: Callable[[], None] = lambda: None,
        loras: Mapping[str, Path] | None = None,
        *,
        needs_digest: bool = True,
    ) -> "LoadedModel":
        """Load the configured checkpoint, and run a first pass.

        The weights load in the background while all else is checked; `progress` is advanced, and `try_out` makes the
        caller's own checks. `loras` are folders of LoRA adapters by their names. Without `needs_digest` it is computed
        when asked for. Raises their errors, CheckpointError, and DeviceError and ConfigError if memory is too small.
        """
        checkpoint = load_checkpoint(fetch(config.model).path, context_length=config.context_length)
        attached = find_drafter(config, checkpoint)
        device = (devices := config.open_devices())[0]  # which has the logits
        weights = config.resolve_weights(checkpoint.config, is_grouped=bool(find_blocks(checkpoint)))
        if device.memory is None:
            attached = check_host(config, checkpoint.config, weights, attached)
        decoder, sampler = new_decoder(checkpoint, devices, weights=weights, kv=config.kv), Sampler(device)
        (digest, cache), progress = _new_digest(config, checkpoint, needs_digest), progress or LoadingProgress()
        with digest, ThreadPoolExecutor(2, "load") as threads, _cancelled_by_errors(progress):
            filled = threads.submit(fill_decoder, checkpoint, decoder, device, weights, cache, progress)
            tried = threads.submit(try_out)
            tokenizer, grammars = _read_vocabulary(checkpoint)
            tried.result()
            is_packed_now = filled.result()
            adapter_loader = AdapterLoader(checkpoint, decoder)
            adapters = adapter_loader.load_all(loras or {})  # before the KV cache takes a GPU's memory
            drafter = attach(config, attached, checkpoint, decoder, device, weights, tokenizer.special_ids)
            num_blocks = _allocate_cache(config, checkpoint, decoder, sampler, devices, drafter)
            warm_up(checkpoint, decoder)
        _leave_for_idle_time(decoder, device, weights, cache if is_packed_now else None)
        return cls(
            checkpoint=checkpoint,
            tokenizer=tokenizer,
            grammars=grammars,
            device=device,
            decoder=decoder,
            drafter=drafter,
            adapter_loader=adapter_loader,
            adapters=adapters,
            sampler=sampler,
            weights=weights,
            blocks=_make_blocks(config, checkpoint, decoder, drafter),
            digest=digest,
            context_length=config.resolve_context_length(checkpoint.config, num_blocks),
        )

    def weights_digest(self) -> str:
        """Return the checkpoint's digest, which may still be computed."""
        return self.digest.value()

    def new_grammar_process(self) -> GrammarProcess:
        """Return a new process that tries grammars for this model."""
        return GrammarProcess(self.tokenizer, vocab_size=self.checkpoint.config.vocab_size)

    def renewed(self, config: EngineConfig) -> "LoadedModel":
        """Return the same weights with an empty KV cache, after an engine has failed.

        Raises CheckpointError or DeviceError if the device cannot compute any more.
        """
        warm_up(self.checkpoint, self.decoder)
        return replace(self, blocks=_make_blocks(config, self.checkpoint, self.decoder, self.drafter))

    def with_offload(self, config: EngineConfig, offload: KvOffload) -> "LoadedModel":
        """Return the same model with an empty KV cache that offloads evicted blocks."""
        return replace(self, blocks=_make_blocks(config, self.checkpoint, self.decoder, self.drafter, offload))

    @property
    def max_blocks(self) -> int:
        """The most KV blocks of one sequence."""
        return self.blocks.blocks_for(self.context_length)


def _make_blocks(
    config: EngineConfig,
    checkpoint: Checkpoint,
    decoder: Decoder,
    drafter: LoadedDrafter | None,
    offload: KvOffload | None = None,
) -> BlockManager:
    model = checkpoint.config

    def copy_block(source: int, target: int) -> None:
        decoder.copy_block(source, target)
        if drafter is not None:
            drafter.decoder.copy_block(source, target)

    return BlockManager(
        num_blocks=decoder.num_blocks,
        block_size=BLOCK_SIZE,
        copy_block=copy_block,
        keeps_prefixes=config.prefix_cache,
        offload=offload,
        num_slots=config.max_sequences if model.has_states else 0,
        checkpoints=StateCheckpoints(
            range(config.max_sequences, config.num_slots(model)),
            decoder.copy_state,
            offload.save_state if offload else None,
        ),
    )


def _read_vocabulary(checkpoint: Checkpoint) -> tuple[Tokenizer, GrammarCompiler]:
    tokenizer = Tokenizer.from_model(checkpoint.path)
    checkpoint.check_vocabulary(tokenizer)
    try:
        return tokenizer, GrammarCompiler(tokenizer, vocab_size=checkpoint.config.vocab_size)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library panics on vocabularies that it does not expect
        raise CheckpointError(f"{tokenizer.where}: grammars cannot use this vocabulary: {str(error)[:300]}") from error


def _new_digest(
    config: EngineConfig, checkpoint: Checkpoint, is_needed: bool
) -> tuple[BackgroundDigest, WeightsCache | None]:
    folder = config.weights_cache
    digest = BackgroundDigest(checkpoint, DigestRecord(folder, checkpoint) if folder else None)
    if is_needed:
        digest.begin()
    return digest, WeightsCache(folder, digest, threads=config.threads) if folder else None


@contextmanager
def _cancelled_by_errors(progress: LoadingProgress) -> Iterator[None]:
    try:
        yield
    except BaseException:
        progress.cancel()
        raise


def _leave_for_idle_time(decoder: Decoder, device: Device, weights: str, cache: WeightsCache | None) -> None:
    """Start background work: committing the KV cache's memory, and saving the weights if there is a cache for them."""
    in_idle_time(take_cache_memory(decoder))
    if cache is not None:
        in_idle_time(cache.save(decoder, device, weights))


def _allocate_cache(
    config: EngineConfig,
    checkpoint: Checkpoint,
    decoder: Decoder,
    sampler: Sampler,
    devices: Seq[Device],
    drafter: LoadedDrafter | None,
) -> int:
    """Allocate the KV cache and return its number of blocks.

    On a GPU it takes the memory that is left after states and all buffers of passes and sampling are allocated.
    """
    model, device = checkpoint.config, devices[0]
    max_rows, max_blocks = config.max_rows, config.blocks_each(model)
    if model.has_states:
        config.check_states(model, config.memory_left(devices))
        decoder.allocate_states(num_slots=config.num_slots(model), ring_rows=ring_rows(model))
    if device.memory is not None:
        decoder.reserve(
            max_rows=max_rows,
            max_logits=max_rows,
            max_sequences=max_rows,  # a draft may have a sequence for each row
            max_blocks=max_blocks,
        )
        sampler.reserve(model.vocab_size)
        # Graphs are lost when the cache is allocated; recording them first finds out how much memory they take.
        record_passes(decoder, device, max_rows=max_rows, max_blocks=max_blocks)
        if drafter is not None:
            drafter.reserve(max_rows=max_rows, max_sequences=config.max_sequences, max_blocks=max_blocks)
            record_passes(drafter.decoder, device, max_rows=config.max_sequences, max_blocks=max_blocks)
    num_blocks = config.num_blocks(model, config.memory_left(devices), drafter.config if drafter is not None else None)
    decoder.allocate_cache(num_blocks)
    if drafter is not None:
        drafter.decoder.allocate_cache(num_blocks)
        record_passes(drafter.decoder, device, max_rows=config.max_sequences, max_blocks=max_blocks)
    record_passes(decoder, device, max_rows=max_rows, max_blocks=max_blocks)
    return num_blocks
