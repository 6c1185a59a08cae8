"""A decoder whose layers carry states, with sequences some of whose rows may be rejected."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.model_config import GatedDelta, ModelConfig
from services.engine.decoder.native import BLOCK_SIZE, Batch, Decoder, DecoderConfig, Device, Sampler
from services.engine.decoder.native.testing import poison, poison_states
from tests.native.harness.random_models import random_weights
from tests.native.harness.sampling_reference import Settings

_MAX_ROWS = 256
_MAX_POSITIONS = 256


@dataclass
class _Sequence:
    slot: int
    blocks: list[int]
    computed: int = 0  # rows whose tokens are settled
    state: int = 0  # rows that the stored state has seen


class StatefulDecoder:
    """Sequences with slots in a shuffled order; free slots and blocks are poisoned with NaN."""

    def __init__(
        self,
        config: ModelConfig,
        device: Device | Seq[Device],
        weight_format: str = "f32",
        *,
        num_sequences: int = 1,
        ring_rows: int = 16,
        seed: int = 0,
    ) -> None:
        self.config, self.ring_rows = config, ring_rows
        self._device = device if isinstance(device, Device) else device[0]
        blocks_each = _MAX_POSITIONS // BLOCK_SIZE
        num_blocks, num_slots = num_sequences * blocks_each + 1, num_sequences + 1
        self.decoder = Decoder(device, DecoderConfig(config), weights=weight_format, kv="f32", num_blocks=num_blocks)
        self.decoder.allocate_states(num_slots=num_slots, ring_rows=ring_rows)
        for name, values in random_weights(config).items():
            self.decoder.load(name, values)
        poison(self.decoder, range(num_blocks))
        poison_states(self.decoder, range(num_slots))
        self._batch = Batch(max_rows=_MAX_ROWS, max_sequences=num_sequences, max_blocks=blocks_each)
        rng = np.random.default_rng(seed)
        slots, blocks = rng.permutation(num_slots), rng.permutation(num_blocks)
        self.sequences = [
            _Sequence(int(slots[index]), blocks[index * blocks_each : (index + 1) * blocks_each].tolist())
            for index in range(num_sequences)
        ]

    def forward(
        self, runs: Mapping[int, tuple[list[int], int]], kept: tuple[int, int] | None = None, adapter: int = -1
    ) -> dict[int, NDArray[np.float32]]:
        """Run one pass over the next tokens of sequences; of each the first rows, as many as the number beside, are
        certain. The logits of all rows.  # [rows, vocab] for each sequence
        """
        self._batch.clear()
        for index, (token_ids, num_certain) in runs.items():
            self._append(index, token_ids, num_certain, num_logits=len(token_ids), kept=kept, adapter=adapter)
        logits = self.decoder.forward(self._batch).logits.numpy()
        ends = np.cumsum([len(token_ids) for token_ids, _ in runs.values()])
        for index, (_, num_certain) in runs.items():
            sequence = self.sequences[index]
            sequence.state = sequence.computed + num_certain
            sequence.computed += num_certain
        return dict(zip(runs, np.split(logits, ends[:-1]), strict=True))

    def extend(self, runs: Mapping[int, tuple[list[int], int, int]]) -> list[list[int]]:
        """Run ahead from the next tokens of sequences, the first so many of them certain (it may be negative, for rows
        before), and draw the number of tokens beside, the most likely ones.
        """
        self._batch.clear()
        for index, (token_ids, num_certain, _) in runs.items():
            self._append(index, token_ids, num_certain, num_logits=1)
        ends = [self.sequences[index].computed + len(token_ids) for index, (token_ids, _, _) in runs.items()]
        drawn = self.decoder.extend(
            self._batch,
            Sampler(self._device),
            [Settings(temperature=0.0).state(prompt=[0] * end) for end in ends],
            [[] for _ in runs],
            [count for _, _, count in runs.values()],
        )
        for index, (token_ids, num_certain, count) in runs.items():
            sequence = self.sequences[index]
            sequence.state = sequence.computed + num_certain
            sequence.computed += len(token_ids) + count - 1
        return drawn

    def _append(
        self,
        index: int,
        token_ids: list[int],
        num_certain: int,
        *,
        num_logits: int,
        kept: tuple[int, int] | None = None,
        adapter: int = -1,
    ) -> None:
        sequence = self.sequences[index]
        self._batch.append(
            token_ids,
            position=sequence.computed,
            blocks=sequence.blocks,
            num_logits=num_logits,
            adapter=adapter,
            slot=sequence.slot,
            state_position=sequence.state,
            certain=sequence.computed + num_certain,
            kept=kept,
        )

    def accept(self, index: int, num_rows: int) -> None:
        """Settle the next rows of the last pass, which were not certain."""
        self.sequences[index].computed += num_rows

    def states(self, index: int = 0) -> list[NDArray[np.float32]]:
        """Each layer's state, and then the rows of its ring that a convolution reads next."""
        sequence = self.sequences[index]
        page = np.zeros(DecoderConfig(self.config).state_bytes(self.ring_rows), np.uint8)
        self.decoder.read_state(sequence.slot, page)
        found, at = [], page.view(np.float32)
        for layer in self.config.layers:
            if isinstance(layer, GatedDelta):
                size = layer.value_heads * layer.key_dim * layer.value_dim
                width = layer.num_channels + 2 * layer.value_heads
                ring = at[size : size + self.ring_rows * width].reshape(self.ring_rows, width)
                window = range(max(0, sequence.state - layer.taps + 1), sequence.state)
                found += [at[:size], ring[[position % self.ring_rows for position in window]]]
                at = at[size + self.ring_rows * width :]
        return found
