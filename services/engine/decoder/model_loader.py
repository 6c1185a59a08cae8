"""Loading: packs a checkpoint's weights into a native decoder."""

import logging
import math
import time
from collections.abc import Mapping
from collections.abc import Sequence as Seq

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.checkpoint.weight_shapes import count_parameters, weight_shapes
from services.engine.decoder.loading_progress import LoadingProgress
from services.engine.decoder.native import Decoder, DecoderConfig, Device, DeviceError, block_types
from services.engine.decoder.weight_choice import STORED
from services.engine.decoder.weights_cache import WeightsCache
from services.engine.files.checkpoint_error import CheckpointError

logger = logging.getLogger(__name__)

_NAMES_OF_TARGET = {"feature_norm": "final_norm"}  # of what a drafter needs under another name


def load_decoder(
    checkpoint: Checkpoint,
    device: Device,
    *,
    weights: str,
    kv: str,
    num_blocks: int | None = None,
    cache: WeightsCache | None = None,
) -> Decoder:
    """Return a new decoder with all weights, and save them in the cache; see `new_decoder` and `fill_decoder`."""
    decoder = new_decoder(checkpoint, device, weights=weights, kv=kv, num_blocks=num_blocks)
    if fill_decoder(checkpoint, decoder, device, weights, cache) and cache is not None:
        for _ in cache.save(decoder, device, weights):
            pass
    return decoder


def new_decoder(
    checkpoint: Checkpoint,
    device: Device | Seq[Device],
    *,
    weights: str,
    kv: str,
    num_blocks: int | None = None,
    target: Decoder | None = None,
) -> Decoder:
    """Build a decoder without loading its weights; no weight file is read.

    `weights` and `kv` are formats that the configuration allows. Without `num_blocks` the KV cache must be allocated
    later. `target` is that of an attached drafter. Raises DeviceError if the device has too little memory,
    CheckpointError for a configuration that the decoder refuses.
    """
    is_stored = weights == STORED
    held = find_blocks(checkpoint) if is_stored else {}
    others = "f32" if is_stored else weights  # exact, as the integers are
    try:
        config = DecoderConfig(checkpoint.config)
        return Decoder(device, config, weights=others, kv=kv, num_blocks=num_blocks, blocks=held, target=target)
    except ValueError as error:
        raise CheckpointError(f"{checkpoint.path}: {error}") from error
    except DeviceError as error:
        raise DeviceError(f"{checkpoint.path}, {_parameters(checkpoint.config)} in {weights}: {error}") from error


def fill_decoder(
    checkpoint: Checkpoint,
    decoder: Decoder,
    device: Device,
    weights: str,
    cache: WeightsCache | None = None,
    progress: LoadingProgress | None = None,
) -> bool:
    """Load a new decoder's weights, from the cache or by packing them; returns whether they were packed now.

    `progress` is advanced meanwhile, and may be cancelled. Raises CheckpointError for a weight that the decoder refuses
    or misses, and CancelledError.
    """
    progress = progress or LoadingProgress()
    is_cached = cache is not None and cache.restore(decoder, device, weights)
    if not is_cached:
        _pack(checkpoint, decoder, find_blocks(checkpoint), progress)
    for kind, rows in decoder.measure_many_rows().items():
        logger.info("products with weights of %s take the way for many rows from %s rows on", kind, rows)
    progress.advance(1.0)
    return not is_cached


def fill_shared(checkpoint: Checkpoint, drafter: Checkpoint, decoder: Decoder) -> None:
    """Load what an attached drafter's new decoder needs of its target's checkpoint, since no device has all of it."""
    shared = {*decoder.missing_weights()} - {*weight_shapes(drafter.config)}
    theirs = {_NAMES_OF_TARGET.get(name, name): name for name in shared}
    for name, first_row, rows in checkpoint.pieces(names={*theirs}):
        decoder.load_rows(theirs[name], first_row, rows)


def find_blocks(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the matrices that are stored in blocks of integers, with their types: a CPU uses them unchanged."""
    known = block_types()
    return {name: kind for name, kind in checkpoint.matrices().items() if kind in known}


def _pack(checkpoint: Checkpoint, decoder: Decoder, blocks: Mapping[str, str], progress: LoadingProgress) -> None:
    begin, num_packed, num_parameters = time.perf_counter(), 0, count_parameters(checkpoint.config)
    shapes = weight_shapes(checkpoint.config)
    for name, first_row, rows in checkpoint.pieces(stored=blocks):
        try:
            if name in blocks:
                decoder.load_blocks(name, first_row, blocks[name], rows)
            else:
                decoder.load_rows(name, first_row, rows)
        except ValueError as error:
            raise CheckpointError(f"{checkpoint.path}: weight {name!r}: {error}") from error
        num_packed += len(rows) * math.prod(shapes[name][1:])
        progress.advance(num_packed / num_parameters)
    if missing := decoder.missing_weights():
        raise CheckpointError(f"{checkpoint.path}: weights are missing: {', '.join(missing)}")
    logger.info("weights of %s packed in %.1f s", checkpoint.path, time.perf_counter() - begin)


def _parameters(config: ModelConfig) -> str:
    return f"{count_parameters(config) / 1e9:.2f} billion parameters"
