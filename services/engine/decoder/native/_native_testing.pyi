"""The compiled module for tests: single operations, the noise, given logits (sources in `native/testing`)."""

from collections.abc import Sequence as Seq
from typing import final

import numpy as np
from numpy.typing import NDArray

from services.engine.decoder.native import Decoder, Device, Logits

def philox4x32(counter: Seq[int], key: Seq[int]) -> tuple[int, int, int, int]:
    """Return one block of Philox4x32-10 (Salmon et al., SC'11); the counter has four words, the key two."""

def gumbel(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Convert random words to Gumbel noise.  # [words] -> [words]"""

def gumbel_noise(seed: int, position: int, stream: int, count: int) -> NDArray[np.float32]:
    """Return the noise of token ids 0 … count-1 at one position.  # [count]"""

def make_logits(device: Device, values: NDArray[np.float32]) -> Logits:
    """Make logits of given values.  # [rows, vocab]"""

def poison(decoder: Decoder, blocks: Seq[int]) -> None:
    """Fill the given KV blocks with NaN (a check that nothing reads a free block)."""

def poison_states(decoder: Decoder, slots: Seq[int]) -> None:
    """Fill the given slots of states with NaN."""

# Single operations, compared bit by bit. Arrays go to the device and come back; `format` is that of
# the activations that an operation writes, "bf16" or "f32". A wrong shape or an index out of range is a ValueError.
# Timings are of one pass over data on the device, recorded as a graph and replayed if the device can; with 0 runs it is
# enqueued once without a graph, for a profiler.

@final
class PackedWeight:
    """One matrix in the order in which the device's product reads it."""

    def __init__(
        self,
        device: Device,
        format: str,
        out_features: int,
        in_features: int,
        groups: tuple[int, int, bool] | None = None,
    ) -> None:
        """`groups`: how many inputs share a scale, how many share the unit of their scales, and whether there are
        offsets.
        """

    def store(self, first_row: int, values: NDArray[np.generic]) -> None:
        """Pack a range of output features.  # [rows, in_features]"""

    def store_groups(
        self,
        first_row: int,
        *,
        numbers: NDArray[np.int8],
        scales: NDArray[np.float16],
        offsets: NDArray[np.float16] | None = None,
        steps: NDArray[np.int8] | None = None,
        offset_steps: NDArray[np.int8] | None = None,
    ) -> None:
        """Pack a range of a grouped weight's output features: a value is scale * number + offset. If a block has
        several groups, scale and offset are the block's times the group's step.
        """

    def store_blocks(self, first_row: int, type: str, rows: NDArray[np.uint8]) -> None:
        """Pack a range of output features, as Decoder.load_blocks does."""

    def embed(self, token_ids: NDArray[np.int32], scale: float) -> NDArray[np.float32]:
        """Return rows of the matrix, scaled.  # [rows, in_features]"""

    def multiply(self, input: NDArray[np.float32], bias: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return input, rounded to the weight's format, times the transposed weight, plus bias.

        # [rows, in_features] -> [rows, out_features]
        """

    def multiply_gated(
        self, input: NDArray[np.float32], activation: str, bias: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return what the activation makes of the products, gates and then as many ups.

        # [rows, in_features] -> [rows, out_features / 2]
        """

    @staticmethod
    def multiply_experts(
        weights: Seq[PackedWeight],
        input: NDArray[np.float32],
        first_rows: NDArray[np.int32],
        biases: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """Return each weight's product with its rows, from its first row to that of the next weight.

        # first_rows: [weights + 1], ascending; biases: [weights, out_features] -> [rows, out_features]
        """

    @staticmethod
    def time_products(weights: Seq[PackedWeight], input: NDArray[np.float32], runs: int) -> list[float]:
        """Return the seconds of each run of a product with every weight in turn."""

@final
class KvLayer:
    """One layer's paged keys and values, NaN wherever nothing has been stored."""

    def __init__(
        self, device: Device, format: str, *, num_blocks: int, num_kv_heads: int, head_dim: int, latent_rank: int = 0
    ) -> None:
        """`latent_rank`: the first numbers of the only head's keys are its values, and there are no others."""

    def rotate_and_store(
        self,
        qkv: NDArray[np.float32],  # [rows, (num_heads + 2 * num_kv_heads) * head_dim]
        positions: NDArray[np.int32],  # [rows]
        sequences: NDArray[np.int32],  # [rows]
        block_tables: NDArray[np.int32],  # [sequences, max_blocks]
        *,
        angles: NDArray[np.float32],  # [rows, 2, rotary_dim / 2]
        qk_norm: str,
        q_norm: NDArray[np.float32] | None,
        k_norm: NDArray[np.float32] | None,
        eps: float,
        query_scale: float,
        norm_kind: str = "rms",
    ) -> NDArray[np.float32]:
        """Normalise, rotate and scale; store keys and values; return the new qkv, of the same shape."""

    def store_latents(
        self,
        compressed: NDArray[np.float32],  # [rows, head_dim]
        queries: NDArray[np.float32],  # [rows, num_heads, query_dim]
        latent_queries: NDArray[np.float32],  # [rows, num_heads * head_dim]
        positions: NDArray[np.int32],
        sequences: NDArray[np.int32],
        block_tables: NDArray[np.int32],
        *,
        angles: NDArray[np.float32],  # [rows, 2, (head_dim - latent_rank) / 2]
        norm: NDArray[np.float32],  # [latent_rank]
        eps: float,
        query_scale: float,
    ) -> NDArray[np.float32]:
        """Normalise and store latent vectors with the rotated part of the key; return the completed latent queries."""

    def attention(
        self,
        qkv: NDArray[np.float32],  # of latent vectors: queries only
        positions: NDArray[np.int32],
        sequences: NDArray[np.int32],
        block_tables: NDArray[np.int32],
        *,
        window: int,
        softcap: float,
        format: str,
        sinks: NDArray[np.float32] | None = None,  # [num_heads]
        ends: NDArray[np.int32] | None = None,  # [rows]
    ) -> NDArray[np.float32]:
        """Return the attention of each row over its sequence's stored values, up to its position or its end.

        # [rows, num_heads * head_dim], or [rows, num_heads * latent_rank]
        """

    def time_rotate_and_store(
        self,
        qkv: NDArray[np.float32],
        positions: NDArray[np.int32],
        sequences: NDArray[np.int32],
        block_tables: NDArray[np.int32],
        *,
        angles: NDArray[np.float32],
        q_norm: NDArray[np.float32] | None,  # [head_dim]
        k_norm: NDArray[np.float32] | None,  # [head_dim]
        times: int,
        runs: int,
    ) -> list[float]:
        """Return the seconds of each run of storing the same rows this many times."""

    @staticmethod
    def time_attention(
        layers: Seq[KvLayer],
        qkv: NDArray[np.float32],
        positions: NDArray[np.int32],
        sequences: NDArray[np.int32],
        block_tables: NDArray[np.int32],
        runs: int,
    ) -> list[float]:
        """Return the seconds of each run of attention over every layer in turn."""

@final
class Operations:
    """The operations that need neither a weight nor a cache."""

    @staticmethod
    def residual_norm(
        device: Device,
        residual: NDArray[np.float32],  # [rows, width]
        delta: NDArray[np.float32] | None,  # [rows, width]
        delta_norm: NDArray[np.float32] | None,  # [width]
        norm: NDArray[np.float32] | None,  # [width]
        *,
        eps: float,
        format: str,
        kind: str = "rms",
        norm_bias: NDArray[np.float32] | None = None,  # [width]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the new residual, and its norm.  # [rows, width] each"""

    @staticmethod
    def time_residual_norm(
        device: Device,
        residual: NDArray[np.float32],
        delta: NDArray[np.float32],
        norm: NDArray[np.float32],
        times: int,
        runs: int,
    ) -> list[float]:
        """Return the seconds of each run of this many additions and norms, as between the products of layers."""

    @staticmethod
    def time_activate(device: Device, gate_up: NDArray[np.float32], times: int, runs: int) -> list[float]:
        """Return the seconds of each run of this many activations."""

    @staticmethod
    def activate(
        device: Device, gate_up: NDArray[np.float32], activation: str, *, format: str, is_gated: bool = True
    ) -> NDArray[np.float32]:
        """Return activation(gate) * up, or activation(up) without gates.

        # [rows, 2 * width or width] -> [rows, width]
        """

    @staticmethod
    def rotary_angles(
        device: Device, positions: NDArray[np.int32], frequencies: NDArray[np.float32], scale: float
    ) -> NDArray[np.float32]:
        """Return scaled cosines and sines of position * frequency.  # [rows, 2, rotary_dim / 2]"""

    @staticmethod
    def route(
        device: Device,
        logits: NDArray[np.float32],
        per_token: int,
        *,
        are_normalised: bool,
        scores: str = "softmax",
        choice_bias: NDArray[np.float32] | None = None,
        sum_offset: float = 0.0,
        weight_scale: float = 1.0,
        groups: int = 1,
        groups_per_token: int = 1,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the experts of each row, by ascending ids, and their weights; see Route in expert_operations.h.

        Raises RuntimeError if the device does not support experts.  # [rows, experts] -> [rows, per_token] both
        """

    @staticmethod
    def soft_cap(device: Device, values: NDArray[np.float32], cap: float) -> NDArray[np.float32]:
        """Return cap * tanh(values / cap), element by element."""
