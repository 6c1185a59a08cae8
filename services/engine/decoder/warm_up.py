"""The first passes of a loaded model: one reads all weights and finds those that are not finite; on a GPU, passes are
recorded as graphs before a request waits for them.
"""

import numpy as np

from services.engine.checkpoint.checkpoint import Checkpoint
from services.engine.decoder.native import Batch, Decoder, Device
from services.engine.files.checkpoint_error import CheckpointError

_MOST_TOKENS = 8
_MOST_SECONDS = 10.0  # graphs that are not recorded by then are when the pass runs for the second time


def warm_up(checkpoint: Checkpoint, decoder: Decoder) -> None:
    """Run tokens from all over the vocabulary, using the first KV block and slot, which no sequence owns yet.

    Raises CheckpointError if a logit is not finite, naming the tensor at fault if there is one.
    """
    config = checkpoint.config
    num_tokens = min(_MOST_TOKENS, config.max_position)
    batch = Batch(max_rows=num_tokens, max_sequences=1, max_blocks=1)
    token_ids = np.linspace(0, config.vocab_size - 1, num_tokens, dtype=np.int32).tolist()
    batch.append(token_ids, position=0, blocks=[0], num_logits=num_tokens, slot=0 if config.has_states else None)
    if np.isfinite(decoder.forward(batch).logits.numpy()).all():
        return
    problem = "the model's logits are not finite"
    if (culprit := checkpoint.find_not_finite()) is None:
        raise CheckpointError(f"{checkpoint.path}: {problem}, though its weights are: see its configuration")
    raise CheckpointError(f"{culprit}, so {problem}; all weights must be finite")


def record_passes(decoder: Decoder, device: Device, *, max_rows: int, max_blocks: int) -> None:
    """Record graphs of decode passes on a GPU; do nothing on a CPU."""
    if device.memory is not None:
        decoder.record_passes(max_rows=max_rows, max_blocks=max_blocks, seconds=_MOST_SECONDS)
