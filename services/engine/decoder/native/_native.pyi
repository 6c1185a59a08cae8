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

def block_types() -> list[str]:
    """Return llama.cpp's names of the GGUF block types that `load_blocks` accepts, e.g. ["Q4_K"]."""

def isas() -> list[str]:
    """Return the instruction sets that this machine and this build can run, best first, e.g. ["amx", "portable"]."""

def cuda_devices() -> list[str]:
    """Return the names of the usable CUDA devices, in the order of their indices, e.g. ["cuda-sm_90"]."""

def cuda_problem() -> str:
    """Return why there are no CUDA devices; "" if there are."""

def derive_seed(seed: int, sample: int) -> int:
    """Return the seed of the n-th sample of one prompt; for sample 0 it is the seed itself."""

class DeviceError(RuntimeError):
    """A device does not exist, has too little memory, or has failed."""

@final
class Device:
    """Holds tensors and runs operations: a CPU with one instruction set, or a GPU, with its own pool of threads."""

    @staticmethod
    def cpu(isa: str, threads: int, *, many_rows: int | None = None) -> Device:
        """Open the CPU.

        `many_rows` takes the place of what `Decoder.measure_many_rows` finds. Raises ValueError for an ISA that this
        machine cannot run, for threads < 1 or unreasonably many, and for many_rows < 1, DeviceError if the system
        cannot start that many threads.
        """

    @staticmethod
    def cuda(index: int, threads: int) -> Device:
        """Open a GPU, with host threads for the work on the host (sampling).

        Raises DeviceError if there is no such GPU or this build has no CUDA, ValueError for threads as `cpu` does.
        """

    def synchronize(self) -> None:
        """Wait until everything that was enqueued is done."""

    def multiply_registers(self, weights: str, rounds: int) -> int:
        """Run the arithmetic of products with weights of that format on registers, on all threads.

        Returns the number of operations; 0 if the device cannot do it. Raises ValueError for more than 2**20 rounds.
        """

    @property
    def memory(self) -> tuple[int, int] | None:
        """The free and the total bytes of a GPU's memory, over all processes; None for the CPU."""

    @property
    def name(self) -> str: ...
    @property
    def threads(self) -> int: ...

@final
class DecoderConfig:
    """Every flag of the transformer; architectures differ only in these."""

    def __init__(self, config: ModelConfig) -> None:
        """Read each field from the attribute of its name; raises ValueError or TypeError naming a bad one."""

    def position_bytes(self, kv: str, ranks: int = 1) -> int:
        """Return the bytes that all layers keep of one, in a KV cache of that format, on one of `ranks` devices.

        Raises ValueError for less than one rank or more than 8.
        """

    def state_bytes(self, ring_rows: int, ranks: int = 1) -> int:
        """Return the bytes of one sequence's states in all layers, with rings of so many rows, likewise."""

@final
class Batch:
    """The rows of one pass: flat arrays, allocated once and refilled in each step (continuous batching).

    The counts can be set too; ValueError for more than the arrays hold.
    """

    def __init__(self, *, max_rows: int, max_sequences: int, max_blocks: int) -> None: ...
    def clear(self) -> None:
        """Remove all rows, to begin a new pass."""
    def append(
        self,
        token_ids: Seq[int],
        *,
        position: int,
        blocks: Seq[int],
        num_logits: int,
        adapter: int = -1,
        slot: int | None = None,
        state_position: int = 0,
        certain: int | None = None,
        kept: tuple[int, int] | None = None,
    ) -> None:
        """Add a run of a sequence's tokens that begins at `position`.

        Logits are computed for its last `num_logits` rows. `adapter` is the number of the LoRA adapter for these rows,
        -1 for none. Where layers carry states, `slot` is the sequence's, `state_position` is the number of tokens that
        the stored state has seen, and no verdict can reject rows before the position `certain`, by default all; `kept`
        is a slot that gets a copy of the state, and the position of that state, at most `certain`. Raises ValueError,
        without adding anything, for more rows than there is room for, and for positions beyond the blocks.
        """

    token_ids: NDArray[np.int32]  # [max_rows]
    positions: NDArray[np.int32]  # [max_rows]
    sequences: NDArray[np.int32]  # [max_rows], the row of block_tables of each token's sequence
    block_tables: NDArray[np.int32]  # [max_sequences, max_blocks]
    logit_rows: NDArray[np.int32]  # [max_rows], the rows whose logits are computed
    adapters: NDArray[np.int32]  # [max_sequences], the number of each sequence's LoRA adapter, or -1
    states: NDArray[np.int32]  # [max_sequences, 5]: slot, position, certain, kept slot and position
    num_rows: int
    num_sequences: int
    num_logits: int

@final
class Logits:
    """The requested rows' logits, on the device; valid until the decoder's next pass or `reserve`."""

    @property
    def num_rows(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    def numpy(self) -> NDArray[np.float32]:
        """Return a copy on the host.  # [rows, vocab]"""
    def row(self, row: int) -> NDArray[np.float32]:
        """Return a copy of one row on the host.  # [vocab]"""

@final
class Pass:
    """The results of one pass, on the device; valid until the decoder's next pass or `reserve`."""

    @property
    def logits(self) -> Logits:
        """The requested rows' logits; that they are still valid is not checked."""
    def hidden_states(self, first_row: int, num_rows: int) -> NDArray[np.float32]:
        """Return the final norm's output for some rows, unrounded.  # [num_rows, hidden_size]

        Raises ValueError for rows that the pass did not have, RuntimeError if the results are gone.
        """

@final
class Decoder:
    """The transformer with its weights and its paged KV cache, on one device or divided among several."""

    def __init__(
        self,
        device: Device | Seq[Device],
        config: DecoderConfig,
        *,
        weights: str,
        kv: str,
        num_blocks: int | None = None,
        blocks: Mapping[str, str] = {},
        target: Decoder | None = None,
    ) -> None:
        """`weights` is "bf16", "f32", "int8", "int4" or, on a GPU, "fp8"; `kv` is one of these but "int4".

        `blocks` are matrices that are held as blocks of the given type instead. `target` is that of an attached
        drafter, and shares its tables with it. If `num_blocks` is None, the KV cache is allocated by `allocate_cache`.
        Several GPUs compute the bytes of one: each holds a part of the matrices and of the heads, and logits are on the
        first. Raises DeviceError if a device has too little memory, ValueError for sizes by which so many devices
        cannot divide the model, and for devices that differ or cannot reach each other's memory.
        """

    def reserve(self, *, max_rows: int, max_logits: int, max_sequences: int, max_blocks: int) -> None:
        """Allocate buffers for passes up to these sizes, so that passes allocate no memory.

        Raises ValueError for sizes below 1 (of logits: 0) or unreasonably large ones, DeviceError.
        """

    def record_passes(self, *, max_rows: int, max_blocks: int, seconds: float) -> int:
        """Record graphs of decode passes on a GPU, for at most `seconds`; returns their number, 0 on a CPU.

        Graphs are lost when buffers are reallocated, when the KV cache is allocated, and when the head is shortened to
        another length; recording them again takes no more memory. Raises RuntimeError while weights are missing,
        ValueError as `reserve` does.
        """

    def allocate_cache(self, num_blocks: int) -> None:
        """Allocate the KV cache, once; raises ValueError for less than a block or unreasonably many, DeviceError.

        On a host the system may commit the memory only when it is first written, see `commit_cache`.
        """

    def allocate_states(self, *, num_slots: int, ring_rows: int) -> None:
        """Allocate the states of as many sequences, once, where layers carry states; no pass can run before.

        A state's ring keeps the last rows: those that a convolution reads, and those that a verdict may reject. Raises
        ValueError for counts out of range, and if no layer carries a state; DeviceError.
        """

    def commit_cache(self, first_block: int, num_blocks: int) -> None:
        """Commit the memory of some blocks, on the calling thread; passes may run meanwhile.

        Raises ValueError for blocks that do not exist.
        """

    def load(self, name: str, values: NDArray[np.generic]) -> None:
        """Pack one weight under its canonical name.

        Values are float32, float16, or bfloat16 passed as uint16 bits. Raises ValueError for an unknown name or a
        wrong shape.
        """

    def load_rows(self, name: str, first_row: int, values: NDArray[np.generic]) -> None:
        """Pack some rows of one weight, so that its source need not be in memory all at once.

        Rows come in order; first_row 0 starts again. Raises ValueError as `load` does, and for rows out of order.
        """

    def load_blocks(self, name: str, first_row: int, type: str, rows: NDArray[np.uint8]) -> None:
        """Pack some rows of a matrix as `load_rows` does, from blocks as a GGUF file holds them.  # [rows, bytes]

        Raises ValueError as it does, and for a type that is not in `block_types` or is not the matrix's own.
        """

    def packed_weights(self) -> dict[str, NDArray[np.uint8]]:
        """Return views of all packed weights, to save them, or to fill them with saved bytes before `mark_loaded`.

        The bytes depend on the device and on the build; a fused weight has the name of its first part. Raises
        ValueError for a device with memory of its own (a GPU).
        """

    def mark_loaded(self) -> None:
        """Declare that all of `packed_weights` were filled."""

    def measure_many_rows(self) -> dict[str, int]:
        """Time the two ways that some products have, and let the device take the faster one at each number of rows.

        No result changes. Returns, by the kind of weight, the number of rows from which the way for many is taken;
        kinds with one way, or with small matrices only, are not there. A device measures each kind once.
        """

    def missing_weights(self) -> list[str]:
        """Return the canonical names that are not loaded yet; forward raises RuntimeError while there are any."""

    def add_adapter(self, scale: float, updates: Mapping[str, tuple[NDArray[np.generic], NDArray[np.generic]]]) -> int:
        """Add a LoRA adapter and return its number: scale * B A is added to each weight of these canonical names.

        Values are of the types of `load`.  # A: [rank, in], B: [out, rank]
        Raises ValueError, without adding it, for a weight other than a layer's q, k, v, o, conv_in, conv_out, gate, up
        and down, for wrong shapes, and for values that are not finite; DeviceError if a GPU has too little memory.
        Any thread may add and remove adapters while passes run.
        """

    def remove_adapter(self, number: int) -> None:
        """Remove an adapter; another one may get its number. Raises ValueError if there is none of this number."""

    def shorten_head(self, token_ids: NDArray[np.int32]) -> None:
        """Compute the logits of these tokens only, from the next pass on; those of others are minus infinity.

        An empty list means all tokens. For a list of the same length as the last one only rows that differ are copied.
        Raises ValueError for a token outside of the vocabulary or too many, RuntimeError while weights are missing,
        DeviceError.
        """

    def forward(self, batch: Batch) -> Pass:
        """Run one pass over the batch's rows: write their keys and values, and compute the requested logits."""

    def keep_features(self, boundaries: Seq[int]) -> None:
        """Let the following passes keep the residual stream after so many layers, for an attached drafter.

        Raises ValueError for a number out of range, or for too many.
        """

    def set_head_tokens(self, token_ids: Seq[int]) -> None:
        """Set the token of each row of an attached drafter's lm_head that has fewer rows than the vocabulary.

        Raises ValueError for another number of tokens, and for a token outside the vocabulary.
        """

    def read_features(self, results: Pass, rows: Seq[int]) -> None:
        """Compute the hidden vectors of an attached drafter's next batch, whose rows follow these of its target's pass.

        Raises ValueError for rows that the pass did not have and for another target, RuntimeError if the results are
        gone.
        """

    def store_context(self, batch: Batch) -> None:
        """Store the keys and values of a batch's rows, for a drafter with a context; `extend` does it, too.

        Raises ValueError for rows without hidden vectors, and for another decoder.
        """

    def padded_rows(self, num_rows: int) -> int:
        """Return the rows that the device computes for a pass of so many: no fewer."""

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
        """Run one pass over the batch, then up to max(counts) - 1 passes of one row per sequence; sample after each.

        State i samples from the batch's i-th row with logits. chains[i] are the tokens after its history that lead to
        that row (predictions not yet decided), and counts[i] >= 1 is the most tokens to sample; there are fewer if
        sampling fails (no candidate, invalid logits). The states do not change. The tokens are exactly those of as many
        calls of `forward` and `Sampler.sample`. A state with a mask, of one row as for `Sampler.sample`, samples once.
        On CPUs a state that may sample more than once ends after the token with which the estimated chance that a
        larger model samples all the same tokens, by their margins, falls below least_chances[i].

        A drafter that predicts blocks computes all rows of a state in one pass. With a context, a state must use its
        sequence's last row, and keys and values of one row more are written, or two. With a confidence, a state ends by
        that, on GPUs too.

        Keys and values are written up to the last token but one, and the block tables must hold those positions. A
        state that samples more than once must use its sequence's last row, and be the only one of the sequence. Raises
        ValueError, before anything is written, if these rules are broken.
        """

    def copy_block(self, source: int, target: int) -> None:
        """Copy all layers' keys and values of a KV block to another, in order with the passes before and after."""

    def read_block(self, block: int, page: NDArray[np.uint8]) -> None:
        """Copy the contents of a KV block, of all layers and as stored, to a page.  # [block_bytes]"""

    def write_block(self, block: int, page: NDArray[np.uint8]) -> None:
        """Copy a page of `read_block`, of any decoder of the same shape and device, to a KV block.  # [block_bytes]"""

    def copy_state(self, source: int, target: int) -> None:
        """Copy a slot's states, of all layers, to another slot."""

    def read_state(self, slot: int, page: NDArray[np.uint8]) -> None:
        """Copy a slot's states, of all layers, to a page.  # [state_bytes]"""

    def write_state(self, slot: int, page: NDArray[np.uint8]) -> None:
        """Copy a page of `read_state`, of any decoder of the same shape and device, to a slot.  # [state_bytes]"""

    @property
    def block_bytes(self) -> int:
        """The bytes of a page, the contents of one KV block."""
    @property
    def num_ranks(self) -> int:
        """The devices that hold the model together."""
    @property
    def num_blocks(self) -> int: ...
    @property
    def weight_bytes(self) -> int:
        """The bytes of weights that a pass over one row must read, on each of several devices."""
    @property
    def kv_bytes_per_token(self) -> int:
        """Likewise."""

@final
class NoiseIds:
    """For each token of a vocabulary the token of another one whose noise it uses; -1: never sampled.  # [vocab]"""

    def __init__(self, ids: NDArray[np.int32]) -> None: ...

@final
class SamplingState:
    """One sequence's sampling parameters with the token history that they act on."""

    def __init__(
        self,
        *,
        prompt: NDArray[np.int32],
        seed: int,
        samplers: Seq[str],  # in this order; empty: all, in the default order
        logit_bias: Seq[tuple[int, float]],
        min_tokens: int,
        stop_ids: Seq[int],  # masked while fewer than min_tokens are generated
        suppressed_ids: Seq[int],
        begin_suppressed_ids: Seq[int],  # masked for the first generated token
        bad_words: Seq[Seq[int]],  # none of these runs may be completed
        dry_breaker_ids: Seq[int],  # DRY's repetitions end at these
        logprobs: bool,
        num_candidates: int,
        rank: bool,
        entropy: bool,
        guidance_scale: float,  # 1: off; else each row also needs logits after the negative prompt
        forced: bool,  # rows report on the predictions, one each, and sample nothing
        **numbers: float,  # all SamplingNumbers in sampling_params.h, by name
    ) -> None:
        """Raises ValueError for a value out of range, and TypeError for an unknown or missing number."""

    def commit(self, token_ids: Seq[int], levels: Seq[float] = ()) -> None:
        """Append generated tokens to the history, with the levels after them for samplers that feed back.

        Without `levels` the level does not change. Raises ValueError for another number of levels than of tokens.
        """

    def truncate(self, num_generated: int) -> None:
        """Remove the generated tokens after the first `num_generated`; raises ValueError if there are fewer."""

    def forbid(self, token_ids: Seq[int]) -> None:
        """Mask token ids at the next position only: `commit` and `truncate` remove the mask."""

    def translate(self, noise_ids: NoiseIds, position: int) -> None:
        """Sample with the noise of another vocabulary, in which the next token is at `position`; on CPUs only."""

    @property
    def num_generated(self) -> int: ...
    @property
    def feeds_back(self) -> bool:
        """Whether a sampler depends on the probabilities of the tokens that were sampled before (Mirostat)."""

@final
class Samples:
    """The sampled tokens, one entry per row of logits."""

    token_ids: NDArray[np.int32]  # [rows]
    status: NDArray[np.uint8]  # [rows], 0: drawn, 1: no candidate left, 2: NaN in the logits
    raw_logprobs: NDArray[np.float32]  # [rows], of the model's logits at T = 1; NaN if not requested
    logprobs: NDArray[np.float32]  # [rows], of the distribution that was sampled from; NaN if not requested
    ranks: NDArray[np.int32]  # [rows], among the model's logits, from 1, ties by lowest id; 0 if not requested
    entropies: NDArray[np.float32]  # [rows], in nats, of the softmax of the model's logits; NaN if not requested
    levels: NDArray[np.float64]  # [rows], after the tokens, for `commit`; NaN if no sampler feeds back
    def candidates(self, row: int) -> list[tuple[int, float, float]]:
        """Return (token id, raw logprob, processed logprob) of the best processed candidates, best first."""

@final
class Sampler:
    """Samples each row's token by coupled Gumbel noise, with penalties, logit_bias and truncation."""

    def __init__(self, device: Device) -> None: ...
    def reserve(self, vocab_size: int) -> None:
        """Allocate buffers for rows of this many logits, so that sampling allocates no memory; raises DeviceError."""

    def sample(
        self,
        logits: Logits,
        states: Seq[SamplingState],
        predictions: Seq[Seq[int]],
        masks: Seq[NDArray[np.uint32] | None] = (),
    ) -> Samples:
        """Sample a token for each row. A state has 1 + len(its predictions) rows, in order.

        Row j of a state has its first j predictions as history. A forced state has len(its predictions) rows; row j
        reports on prediction j. After the rows of all states come, in the same order, the rows of guided states with
        their negative prompts, which give no samples of their own.

        With masks, one for each state, only tokens whose bit is set may be sampled: bit i % 32 of word i / 32 of a row
        is token i's. [rows of the state, words enough for the vocabulary]; None: all tokens may be.
        """

@final
class ReadProbe:
    """Memory of a device, to measure how fast it can be read."""

    def __init__(self, device: Device, bytes: int) -> None: ...
    @property
    def bytes(self) -> int:
        """The size of the memory: the requested size, rounded up."""

    def read(self, in_stripes: bool) -> None:
        """Load every byte once, in small stripes or in one contiguous range for each thread."""
