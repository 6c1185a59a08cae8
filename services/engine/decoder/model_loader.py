"""Loading: a checkpoint's weights packed into a native decoder."""

import logging
import time
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

from numpy.typing import NDArray

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.checkpoint.model_config import ModelConfig
from services.engine.checkpoint.weight_shapes import count_parameters
from services.engine.decoder.loading_progress import LoadingProgress
from services.engine.decoder.native import Decoder, DecoderConfig, Device, DeviceError
from services.engine.decoder.weight_choice import STORED
from services.engine.decoder.weights_cache import WeightsCache
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.gguf.grouped_rows import GroupedRows

logger = logging.getLogger(__name__)


def load_decoder(
    checkpoint: Checkpoint,
    device: Device,
    *,
    weights: str,
    kv: str,
    num_blocks: int | None = None,
    cache: WeightsCache | None = None,
    progress: LoadingProgress | None = None,
) -> Decoder:
    """Build a decoder with all of its weights, packed now or, as the cache has it, by an earlier start.

    `weights` and `kv` are formats that the configuration allows; without `num_blocks` the cache is still to be
    allocated; `progress` is told how much is loaded. Raises DeviceError where the device has too little memory, and
    CheckpointError for a configuration or weight that the decoder refuses, and for a weight that it misses.
    """
    kinds = checkpoint.grouped() if weights == STORED else {}
    others = "f32" if weights == STORED else weights  # exact, as the integers are
    try:
        config = DecoderConfig(checkpoint.config)
        decoder = Decoder(device, config, weights=others, kv=kv, num_blocks=num_blocks, kinds=kinds)
    except ValueError as error:
        raise CheckpointError(f"{checkpoint.path}: {error}") from error
    except DeviceError as error:
        raise DeviceError(f"{checkpoint.path}, {_parameters(checkpoint.config)} in {weights}: {error}") from error
    progress = progress or LoadingProgress()
    if cache is None or not cache.restore(decoder, device, weights):
        _pack(checkpoint, decoder, kinds, progress)
        if cache is not None:
            cache.save(decoder, device, weights)
    progress.advance(1.0)
    return decoder


def _pack(checkpoint: Checkpoint, decoder: Decoder, grouped: Collection[str], progress: LoadingProgress) -> None:
    begin, num_packed, num_parameters = time.perf_counter(), 0, count_parameters(checkpoint.config)
    pieces: Iterator[tuple[str, int, NDArray[Any] | GroupedRows]]
    pieces = chain(checkpoint.pieces(but=grouped), checkpoint.grouped_pieces(grouped))
    for name, first_row, values in pieces:
        try:
            if isinstance(values, GroupedRows):
                decoder.load_groups(name, first_row, **values.arrays())
            else:
                decoder.load_rows(name, first_row, values)
        except ValueError as error:
            raise CheckpointError(f"{checkpoint.path}: weight {name!r}: {error}") from error
        num_packed += values.size
        progress.advance(num_packed / num_parameters)
    if missing := decoder.missing_weights():
        raise CheckpointError(f"{checkpoint.path}: weights are missing: {', '.join(missing)}")
    logger.info("weights of %s packed in %.1f s", checkpoint.path, time.perf_counter() - begin)


def _parameters(config: ModelConfig) -> str:
    return f"{count_parameters(config) / 1e9:.2f} billion parameters"
