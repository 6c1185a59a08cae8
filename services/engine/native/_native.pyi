"""The compiled module: devices, the decoder, and the sampler (sources in `native/`)."""

from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

BLOCK_SIZE: int
"""Positions per KV block, and per attention chunk."""
BUILD_ID: str
"""Hash of the native sources, the compiler and its flags: part of the fingerprint."""
NOISE_VERSION: int
"""Version of the layout of the sampling noise and of its known answers."""

def isas() -> list[str]:
    """The instruction sets that this machine and this build can run, best first, e.g. ["amx", "portable"]."""

def philox4x32(counter: Sequence[int], key: Sequence[int]) -> tuple[int, int, int, int]:
    """One call of Philox4x32-10 (Salmon et al., SC'11): counter of four words, key of two."""

def gumbel(words: NDArray[np.uint32]) -> NDArray[np.float32]:
    """The noise that random words stand for.  # as many as words"""

def gumbel_noise(seed: int, position: int, stream: int, count: int) -> NDArray[np.float32]:
    """The noise of token ids 0 … count-1 at one position.  # [count]"""

def derive_seed(seed: int, sample: int) -> int:
    """The seed of the n-th sample of one prompt; sample 0 keeps the seed itself."""

@final
class Device:
    """Where tensors live and operations run: one instruction set and its own pool of threads."""

    @staticmethod
    def cpu(isa: str, threads: int) -> Device:
        """Raises ValueError for an ISA that this machine cannot run, or threads < 1."""

    @property
    def name(self) -> str: ...
    @property
    def threads(self) -> int: ...

@final
class DecoderConfig:
    """Every flag of the transformer; architectures differ only in these."""

    def __init__(
        self,
        *,
        num_layers: int,
        hidden_size: int,
        intermediate_size: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        vocab_size: int,
        max_position: int,
        norm_eps: float,
        activation: str,  # "silu" | "gelu_tanh"
        query_scale: float,
        attention_softcap: float,  # 0: none
        logit_softcap: float,  # 0: none
        embedding_scale: float,
        windows: Sequence[int],  # [layers], 0: the whole context
        rope_frequencies: Sequence[NDArray[np.float32]],  # tables of [rotary_dim / 2]
        rope_scales: Sequence[float],  # [tables], multiplies cos and sin
        rope_of_layer: Sequence[int],  # [layers], index of a table
        qk_norm: str,  # "none" | "head" (per head of head_dim) | "full" (over all heads together)
        pre_norm: bool,
        post_norm: bool,
        attention_bias: bool,
        tied_embeddings: bool,
    ) -> None: ...

@final
class Batch:
    """The rows of one pass: a set of flat arrays, allocated once and refilled each step."""

    def __init__(self, *, max_rows: int, max_sequences: int, max_blocks: int) -> None: ...

    token_ids: NDArray[np.int32]  # [max_rows]
    positions: NDArray[np.int32]  # [max_rows]
    sequences: NDArray[np.int32]  # [max_rows], row of block_tables that the token belongs to
    block_tables: NDArray[np.int32]  # [max_sequences, max_blocks]
    logit_rows: NDArray[np.int32]  # [max_rows], the rows whose logits are asked
    num_rows: int
    num_sequences: int
    num_logits: int

@final
class Logits:
    """The asked rows' logits, on the device; valid until the decoder's next forward."""

    @property
    def num_rows(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    def numpy(self) -> NDArray[np.float32]:
        """A copy on the host.  # [rows, vocab]"""
    @staticmethod
    def from_numpy(device: Device, values: NDArray[np.float32]) -> Logits:
        """Logits with given values, for tests of the sampler.  # [rows, vocab]"""

@final
class Decoder:
    """The transformer with its weights and its paged KV cache."""

    def __init__(self, device: Device, config: DecoderConfig, *, weights: str, kv: str, num_blocks: int) -> None:
        """`weights` and `kv` are "bf16" or "f32"."""

    def load(self, name: str, values: NDArray[np.generic]) -> None:
        """Pack one weight under its canonical name.

        Values are float32, float16, or bfloat16 passed as uint16 bits. Raises ValueError for an unknown name or a
        wrong shape.
        """

    def missing_weights(self) -> list[str]:
        """Canonical names not loaded yet; forward raises RuntimeError while there are any."""

    def forward(self, batch: Batch) -> Logits:
        """One pass over the batch's rows: writes their keys and values, returns the asked logits."""

    def poison(self, blocks: Sequence[int]) -> None:
        """Fill the given KV blocks with NaN (a check that nothing reads a free block)."""

    @property
    def num_blocks(self) -> int: ...
    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that one pass must read."""
    @property
    def kv_bytes_per_token(self) -> int: ...

@final
class SamplingState:
    """One sequence's sampling parameters with the token history that they act on."""

    def __init__(
        self,
        *,
        prompt: NDArray[np.int32],
        seed: int,
        temperature: float,
        top_k: int,  # 0: off
        top_p: float,
        min_p: float,
        repetition_penalty: float,
        frequency_penalty: float,
        presence_penalty: float,
        logit_bias: Sequence[tuple[int, float]],
        min_tokens: int,
        stop_ids: Sequence[int],  # masked while fewer than min_tokens are generated
        logprobs: bool,
        num_candidates: int,
    ) -> None: ...
    def commit(self, token_ids: Sequence[int]) -> None:
        """Append generated tokens to the history."""

    @property
    def num_generated(self) -> int: ...

@final
class Samples:
    """What the sampler drew, one entry per row of logits."""

    token_ids: NDArray[np.int32]  # [rows]
    status: NDArray[np.uint8]  # [rows], 0: drawn, 1: no candidate left, 2: NaN in the logits
    raw_logprobs: NDArray[np.float32]  # [rows], of the model's logits at T = 1; NaN where not asked
    logprobs: NDArray[np.float32]  # [rows], of the distribution that was drawn from; NaN where not asked
    def candidates(self, row: int) -> list[tuple[int, float, float]]:
        """(token id, raw logprob, processed logprob) of the best processed candidates, best first."""

@final
class Sampler:
    """Draws each row's token by coupled Gumbel noise, with penalties, bias and truncation."""

    def __init__(self, device: Device) -> None: ...
    def sample(
        self, logits: Logits, states: Sequence[SamplingState], predictions: Sequence[Sequence[int]]
    ) -> Samples:
        """Row j of a state (it has 1 + len(its predictions) rows, in order) sees its first j predictions as history."""
