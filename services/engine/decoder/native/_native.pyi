"""The compiled module: devices, the decoder, and the sampler (sources in `native/`)."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import final

import numpy as np
from numpy.typing import NDArray

from services.engine.checkpoint.model_config import ModelConfig

BLOCK_SIZE: int
"""Positions per KV block, and per attention chunk."""
BUILD_ID: str
"""Hash of the native sources, the compiler and its flags: part of the fingerprint."""
NOISE_VERSION: int
"""Version of the layout of the sampling noise and of its known answers."""

def kv_bytes(format: str, head_dim: int) -> int:
    """Bytes of one head's key or value, its scale included."""

def conv_bytes(format: str, width: int) -> int:
    """Bytes of the input of a short convolution at one position, in a cache of that format of keys and values."""

def block_types() -> list[str]:
    """The types of a GGUF file's blocks that matrices can be given in, as llama.cpp names them, e.g. ["Q4_K"]."""

def isas() -> list[str]:
    """The instruction sets that this machine and this build can run, best first, e.g. ["amx", "portable"]."""

def cuda_devices() -> list[str]:
    """The names of the CUDA devices that this process can use, in the order of their indices, e.g. ["cuda-sm_90"]."""

def cuda_problem() -> str:
    """Why there are no CUDA devices; empty where there are."""

def derive_seed(seed: int, sample: int) -> int:
    """The seed of the n-th sample of one prompt; sample 0 keeps the seed itself."""

class DeviceError(RuntimeError):
    """A device that is not there, has too little memory, or has failed."""

@final
class Device:
    """Where tensors live and operations run: one instruction set or GPU, and its own pool of threads."""

    @staticmethod
    def cpu(isa: str, threads: int) -> Device:
        """Raises ValueError for an ISA that this machine cannot run, or threads < 1 or out of reason, DeviceError where
        the system has not as many.
        """

    @staticmethod
    def cuda(index: int, threads: int) -> Device:
        """A GPU, with host threads for what is done there (sampling).

        Raises DeviceError where there is no such GPU or this build has no CUDA, ValueError for threads as `cpu` does.
        """

    def synchronize(self) -> None:
        """Return once everything that was enqueued is done."""

    def multiply_registers(self, weights: str, rounds: int) -> int:
        """Multiply numbers in registers, as products with weights in that format do, so often on all threads.

        Returns how many operations that were; 0 where the device cannot. Raises ValueError for more than 2**20 rounds.
        """

    @property
    def memory(self) -> tuple[int, int] | None:
        """Bytes that are free and that there are, whoever uses them; None where it is the host's."""

    @property
    def name(self) -> str: ...
    @property
    def threads(self) -> int: ...

@final
class DecoderConfig:
    """Every flag of the transformer; architectures differ only in these."""

    def __init__(self, config: ModelConfig) -> None:
        """Take each field from the attribute of its name; raises ValueError or TypeError, naming it."""

@final
class Batch:
    """The rows of one pass: a set of flat arrays, allocated once and refilled each step.

    Its counts can be set too; ValueError for more than the arrays hold.
    """

    def __init__(self, *, max_rows: int, max_sequences: int, max_blocks: int) -> None: ...
    def clear(self) -> None:
        """Begin a new pass."""
    def append(
        self, token_ids: Seq[int], *, position: int, blocks: Seq[int], num_logits: int, adapter: int = -1
    ) -> None:
        """Add a sequence's run of tokens that begins at `position`; the logits of its last `num_logits` rows are asked,
        and the adapter of that number, if it is one, changes the weights for it.

        Raises ValueError, and adds nothing, for more than there is room for, and for positions that no block reaches.
        """

    token_ids: NDArray[np.int32]  # [max_rows]
    positions: NDArray[np.int32]  # [max_rows]
    sequences: NDArray[np.int32]  # [max_rows], row of block_tables that the token belongs to
    block_tables: NDArray[np.int32]  # [max_sequences, max_blocks]
    logit_rows: NDArray[np.int32]  # [max_rows], the rows whose logits are asked
    adapters: NDArray[np.int32]  # [max_sequences], each one's number, or -1
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
    def row(self, row: int) -> NDArray[np.float32]:
        """A copy of one row on the host.  # [vocab]"""

@final
class Decoder:
    """The transformer with its weights and its paged KV cache."""

    def __init__(
        self,
        device: Device,
        config: DecoderConfig,
        *,
        weights: str,
        kv: str,
        num_blocks: int | None = None,
        blocks: Mapping[str, str] = {},
    ) -> None:
        """`weights` is "bf16", "f32", "int8", "int4" or, on a GPU, "fp8", and `kv` all of these but "int4".

        `blocks` are matrices that are not held in `weights`, but as blocks of such a type hold them. With None for
        `num_blocks` the cache waits for `allocate_cache`. Raises DeviceError where the device has too little memory for
        the weights, or for the cache.
        """

    def reserve(self, *, max_rows: int, max_logits: int, max_sequences: int, max_blocks: int) -> None:
        """Make room for passes of such sizes, so that none of them allocates memory.

        Raises ValueError for sizes below 1 (of logits: 0) or out of reason, DeviceError.
        """

    def record_passes(self, *, max_rows: int, max_blocks: int, seconds: float) -> int:
        """Have the device record the passes of sequences under way, in no more than so many seconds, and return how
        many that are; none on a CPU.

        They are lost when memory moves, when the cache gets its memory, and when the head gets another length; the
        second time they take no more memory. Raises RuntimeError while weights are missing, ValueError as `reserve`.
        """

    def allocate_cache(self, num_blocks: int) -> None:
        """Give the cache its memory, once; raises ValueError for less than a block or out of reason, DeviceError.

        The host's system may put off giving it until it is written, see `commit_cache`.
        """

    def commit_cache(self, first_block: int, num_blocks: int) -> None:
        """Take the memory of some blocks, on the calling thread; passes may run meanwhile.

        Raises ValueError for blocks that are not there.
        """

    def load(self, name: str, values: NDArray[np.generic]) -> None:
        """Pack one weight under its canonical name.

        Values are float32, float16, or bfloat16 passed as uint16 bits. Raises ValueError for an unknown name or a
        wrong shape.
        """

    def load_rows(self, name: str, first_row: int, values: NDArray[np.generic]) -> None:
        """Pack some rows of one weight, so that its source need not be in memory all at once.

        Parts come in order, and first_row 0 begins anew. Raises ValueError as `load` does, and for rows out of order.
        """

    def load_blocks(self, name: str, first_row: int, type: str, rows: NDArray[np.uint8]) -> None:
        """Pack some rows of a matrix as `load_rows` does, from blocks as a GGUF file holds them.  # [rows, bytes]

        Raises ValueError as it does, and for a type that is none of `block_types`, or not the matrix's own.
        """

    def packed_weights(self) -> dict[str, NDArray[np.uint8]]:
        """The memory of all weights as packed, to be kept, or filled with what was kept before `mark_loaded`.

        The bytes depend on the device and on the build; a fused weight has the name of its first part. Raises
        ValueError for a device that holds weights in memory of its own.
        """

    def mark_loaded(self) -> None:
        """Say that all of `packed_weights` has been filled."""

    def missing_weights(self) -> list[str]:
        """Canonical names not loaded yet; forward raises RuntimeError while there are any."""

    def add_adapter(self, scale: float, updates: Mapping[str, tuple[NDArray[np.generic], NDArray[np.generic]]]) -> int:
        """Take an adapter over and return its number: scale * B A is added to each weight of these canonical names.

        Values are as `load` takes them.  # A: [rank, in], B: [out, rank]
        Raises ValueError, and takes nothing, for a device that computes none (a GPU), a weight that is none of a
        layer's q, k, v, o, conv_in, conv_out, gate, up and down, shapes that do not fit it, and numbers that are not
        finite. Any thread may add and remove adapters beside passes.
        """

    def remove_adapter(self, number: int) -> None:
        """Forget an adapter, whose number another one may get; raises ValueError where it is not there."""

    def shorten_head(self, token_ids: NDArray[np.int32]) -> None:
        """From now on compute the logits of these tokens only, or of all for an empty list; others are minus infinity.

        Of a list as long as the last one only the rows that differ are taken anew. Raises ValueError for a token
        outside the vocabulary or too many, RuntimeError while weights are missing, DeviceError.
        """

    def forward(self, batch: Batch) -> Logits:
        """One pass over the batch's rows: writes their keys and values, returns the asked logits."""

    def hidden_states(self, first_row: int, num_rows: int) -> NDArray[np.float32]:
        """What the final norm gave of rows of the last pass, unrounded.  # [num_rows, hidden_size]

        Raises ValueError for rows that it did not have.
        """

    def extend(
        self,
        batch: Batch,
        sampler: Sampler,
        states: Seq[SamplingState],
        chains: Seq[Seq[int]],
        counts: Seq[int],
        masks: Seq[NDArray[np.uint32] | None] = (),
        least_chances: Seq[float] = (),
    ) -> list[list[int]]:
        """One pass over the batch, then up to max(counts) - 1 passes of one row per sequence; a draw after each.

        State i draws from the batch's i-th asked row; chains[i] are the tokens behind its history that lead to that
        row (predictions not yet decided), and counts[i] >= 1 is how many tokens it draws at most. Fewer come where a
        draw fails (no candidate, invalid logits). The states do not change. The tokens are those of as many calls of
        `forward` and `Sampler.sample`, to the bit. A state with a mask, of one row as for `Sampler.sample`, draws once.
        On CPUs a state that may draw more than once ends behind the draw with which the chance that a larger model
        draws the same all along, as its margins tell it, falls below least_chances[i].

        Keys and values are written up to the last draw but one, and the block tables must hold those positions. A
        state that draws more than once does so from its sequence's last row, and alone. Raises ValueError, before
        anything is written, for what breaks these rules.
        """

    def copy_block(self, source: int, target: int) -> None:
        """Copy all layers' keys and values of a KV block onto another; passes before and after see it in order."""

    def read_block(self, block: int, page: NDArray[np.uint8]) -> None:
        """Copy what a KV block holds, of all layers and as it is stored, into a page of `block_bytes`."""

    def write_block(self, block: int, page: NDArray[np.uint8]) -> None:
        """Give a KV block what `read_block` has read, of any block and decoder of the same shape and device."""

    @property
    def block_bytes(self) -> int:
        """Bytes that `read_block` reads."""
    @property
    def num_blocks(self) -> int: ...
    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that a pass over one row must read."""
    @property
    def kv_bytes_per_token(self) -> int: ...

@final
class NoiseIds:
    """For each token of a vocabulary, as which token of another one it is drawn; -1 for one that never is."""

    def __init__(self, ids: NDArray[np.int32]) -> None: ...

@final
class SamplingState:
    """One sequence's sampling parameters with the token history that they act on."""

    def __init__(
        self,
        *,
        prompt: NDArray[np.int32],
        seed: int,
        samplers: Seq[str],  # in this order; none: all, in the usual one
        logit_bias: Seq[tuple[int, float]],
        min_tokens: int,
        stop_ids: Seq[int],  # masked while fewer than min_tokens are generated
        suppressed_ids: Seq[int],
        begin_suppressed_ids: Seq[int],  # masked where nothing is generated yet
        bad_words: Seq[Seq[int]],  # of which none may be completed
        dry_breaker_ids: Seq[int],  # that no repetition goes across
        logprobs: bool,
        num_candidates: int,
        rank: bool,
        entropy: bool,
        guidance_scale: float,  # 1: off; else a row has logits behind a negative prompt too
        forced: bool,  # rows tell of the predictions, one each, and draw nothing
        **numbers: float,  # all those of SamplingNumbers in sampling_params.h, by name
    ) -> None:
        """Raises ValueError for what is out of its range, and TypeError for a number too many or too few."""

    def commit(self, token_ids: Seq[int], levels: Seq[float] = ()) -> None:
        """Append generated tokens to the history, with the levels behind them where samplers feed back; without these
        it stays as it is. Raises ValueError for another number of them.
        """

    def truncate(self, num_generated: int) -> None:
        """Take back the generated tokens behind the first so many; raises ValueError where there are not as many."""

    def forbid(self, token_ids: Seq[int]) -> None:
        """Mask token ids at the next position, and there only: `commit` and `truncate` forget them."""

    def translate(self, noise_ids: NoiseIds, position: int) -> None:
        """Draw for another vocabulary, in whose words the next token is at `position`; on CPUs only."""

    @property
    def num_generated(self) -> int: ...
    @property
    def feeds_back(self) -> bool:
        """Whether a sampler is steered by the tokens that were drawn before."""

@final
class Samples:
    """What the sampler drew, one entry per row of logits."""

    token_ids: NDArray[np.int32]  # [rows]
    status: NDArray[np.uint8]  # [rows], 0: drawn, 1: no candidate left, 2: NaN in the logits
    raw_logprobs: NDArray[np.float32]  # [rows], of the model's logits at T = 1; NaN where not asked
    logprobs: NDArray[np.float32]  # [rows], of the distribution that was drawn from; NaN where not asked
    ranks: NDArray[np.int32]  # [rows], among the model's logits, from 1, ties by lowest id; 0 where not asked
    entropies: NDArray[np.float32]  # [rows], in nats, of the softmax of the model's logits; NaN where not asked
    levels: NDArray[np.float64]  # [rows], behind the tokens, for `commit`; NaN where no sampler feeds back
    def candidates(self, row: int) -> list[tuple[int, float, float]]:
        """(token id, raw logprob, processed logprob) of the best processed candidates, best first."""

@final
class Sampler:
    """Draws each row's token by coupled Gumbel noise, with penalties, bias and truncation."""

    def __init__(self, device: Device) -> None: ...
    def reserve(self, vocab_size: int) -> None:
        """Make room for rows of so many logits, so that no draw allocates memory of the device; raises DeviceError."""

    def sample(
        self,
        logits: Logits,
        states: Seq[SamplingState],
        predictions: Seq[Seq[int]],
        masks: Seq[NDArray[np.uint32] | None] = (),
    ) -> Samples:
        """Row j of a state (it has 1 + len(its predictions) rows, in order) sees its first j predictions as history.

        Row j of a forced state (it has len(its predictions) rows) tells of prediction j. Behind the rows of all states
        come, in the same order, those of guided ones behind their negative prompts: they give no further samples.

        With masks, one for each state, only tokens whose bit is set may be drawn: bit i % 32 of word i / 32 of a row is
        token i's. [rows of the state, words enough for the vocabulary]; None where all may.
        """

@final
class ReadProbe:
    """Memory of a device, to be read as fast as it goes."""

    def __init__(self, device: Device, bytes: int) -> None: ...
    @property
    def bytes(self) -> int:
        """As asked, rounded up."""

    def read(self, in_stripes: bool) -> None:
        """Load every byte once, by small stripes or by one stretch for each thread."""
