"""EngineConfig: the settings of an engine, resolved once at start-up; only this module reads the environment."""

import logging
import math
import os
from collections.abc import Collection, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from services.engine.checkpoint.model_config import GatedDelta, ModelConfig
from services.engine.checkpoint.weight_shapes import count_parameters
from services.engine.decoder.host_memory import free_memory, host_memory
from services.engine.decoder.native import BLOCK_SIZE, DecoderConfig, Device, cuda_devices, cuda_problem, isas
from services.engine.decoder.weight_choice import AUTO, STORED, choose_stored, choose_weights
from services.engine.hub.hub_name import ModelSource

logger = logging.getLogger(__name__)

CPU_WEIGHT_FORMATS = ("bf16", "f32", "int8", "int4")
WEIGHT_FORMATS = (*CPU_WEIGHT_FORMATS, "fp8")
WEIGHT_CHOICES = (STORED, *WEIGHT_FORMATS, AUTO)
CPU_KV_FORMATS = ("bf16", "f32", "int8")
KV_FORMATS = (*CPU_KV_FORMATS, "fp8")
ISA_VARIABLE = "OUTRIDER_ISA"
WEIGHTS_CACHE_VARIABLE = "OUTRIDER_WEIGHTS_CACHE"
TOKEN_VARIABLE = "OUTRIDER_TOKEN"
OFF = "off"
MODULE_LOADING_VARIABLE = "CUDA_MODULE_LOADING"
CPU_OPTIONS = {
    "weights_cache": "packed weights kept for the next start",
    "memory_budget": "models unloaded to keep within a memory budget",
    "target_tokenizer": "a draft for targets with another vocabulary",
}
"""The options that only a CPU supports, and what they are for."""
CPU = "cpu"
CUDA = "cuda"  # prefix of the names of all GPUs
_SESSIONS_PART = 4  # sessions may hold one of so many KV blocks, unless an option says otherwise
HOST_KV_MEMORY = 2 << 30
"""Bytes of the KV cache on a host, by default."""
MOST_RANKS = 8
"""The most GPUs that hold a model together."""
MOST_PREDICTIONS = 15
"""The most predictions of a sequence in a pass; with the row before them, one read of the weights serves them."""
MOST_EXPECTED = 256
"""The most tokens of a sequence in a pass that its request expects."""
_RING_UNIT = 8
_CHECKPOINT_MEMORY = 1 << 30
_CHECKPOINTS_EACH = 4
PROMPT_SLOWDOWN = 2.0
_PREFILL_CHUNK = 256
_LARGEST_PORT = 65535
_BITS = {"f32": 32, "bf16": 16, "fp8": 8, "int8": 8, "int4": 4, STORED: 4}  # bits of each weight, without scales
_LARGEST = {  # the largest value of each count; memory is also bounded by the machine
    "threads": max(64, 4 * (os.cpu_count() or 1)),  # more threads than cores only wait for each other
    "kv_memory": 1 << 50,
    "kv_offload_memory": 1 << 50,
    "kv_offload_disk": 1 << 50,
    "kv_blocks": 2**31 - 1,
    "context_length": 2**31 - 1,
    "max_rows": 1 << 16,
    "prefill_chunk": 1 << 16,
    "max_sequences": 1 << 12,
    "stream_capacity": 1 << 20,
}


class ConfigError(ValueError):
    """A setting that cannot be served; the message names it and the allowed values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The settings of one engine; sizes are in tokens unless they say otherwise."""

    model: ModelSource
    head: ModelSource | None = None  # an attached drafter for it
    uses_mtp: bool = False  # if there is no head: whether the model's own layer for multi-token prediction predicts
    isa: str
    threads: int
    device: str = CPU  # or "cuda:0", "cuda:1", …, or several GPUs that hold a target's model: "cuda:0,cuda:1"
    weights: str = STORED  # or AUTO, or a format
    weights_cache: Path | None = None  # a folder for packed weights
    kv: str = "bf16"
    kv_memory: int | None = None  # bytes, an upper bound; default: 2 GiB on a host, or the memory left on a GPU
    gpu_memory_fraction: float = 0.9  # the most of a GPU's memory that is in use, by all processes together
    kv_blocks: int | None = None  # instead of kv_memory
    prefix_cache: bool = True  # whether full blocks are kept for later sequences with the same prefix
    kv_offload_memory: int | None = None  # bytes of host memory for blocks that the prefix cache evicts
    kv_offload_dir: Path | None = None  # or a folder for these blocks,
    kv_offload_disk: int | None = None  # and the bytes of disk to use
    kv_events: bool = False  # whether others may follow what the prefix cache holds, with its token ids
    session_blocks: int | None = None  # the most that sessions hold; default: a quarter, if a full context fits beside
    context_length: int | None = None  # default: the model's, as far as the KV cache holds it
    max_rows: int = 512
    prefill_chunk: int | None = None  # default: 256, or what max_rows holds
    prompt_slowdown: float = PROMPT_SLOWDOWN  # of a target: how many times longer a token may take beside prompts
    max_sequences: int = 64
    stream_capacity: int = 256

    def __post_init__(self) -> None:
        check_choice("isa", self.isa, isas())
        _check_device(self.device)
        on_cpu = self.device == CPU
        check_choice("weights", self.weights, (STORED, *(CPU_WEIGHT_FORMATS if on_cpu else WEIGHT_FORMATS), AUTO))
        check_choice("kv", self.kv, CPU_KV_FORMATS if on_cpu else KV_FORMATS)
        check_cpu_option("weights_cache", self.weights_cache, self.device)
        for name, largest in _LARGEST.items():
            if (value := getattr(self, name)) is not None:
                check_range(name, value, 1, largest)
        if on_cpu and (self.kv_memory or 0) > (most := host_memory()):
            raise ConfigError(f"kv_memory is {self.kv_memory} bytes; it must be from 1 to {most}, what this host has")
        self._check_offload()
        if self.session_blocks is not None:
            check_range("session_blocks", self.session_blocks, 0, _LARGEST["kv_blocks"] if self.prefix_cache else 0)
        if not 0 < self.gpu_memory_fraction <= 1:
            raise ConfigError(f"gpu_memory_fraction is {self.gpu_memory_fraction}; it must be above 0 and at most 1")
        if not self.prompt_slowdown > 1:
            raise ConfigError(f"prompt_slowdown is {self.prompt_slowdown}; it must be above 1, inf for no limit")
        if self.max_rows < self.max_sequences:
            raise ConfigError(f"max_rows is {self.max_rows}; it must be at least max_sequences ({self.max_sequences})")
        if self.max_rows < (self.prefill_chunk or 1):
            raise ConfigError(f"max_rows is {self.max_rows}; it must be at least prefill_chunk ({self.prefill_chunk})")

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that hold the model together, mostly one."""
        return tuple(self.device.split(","))

    def open_devices(self) -> list[Device]:
        """Open the devices; raises DeviceError if a GPU cannot be used after all."""
        if self.device == CPU:
            return [Device.cpu(self.isa, self.threads)]
        gpus, (first, *others) = _gpus(), self.devices
        return [Device.cuda(gpus.index(first), self.threads), *(Device.cuda(gpus.index(each), 1) for each in others)]

    def resolve_weights(self, model: ModelConfig, *, is_grouped: bool) -> str:
        """Return the format of this model's weights in memory, which is never AUTO.

        `is_grouped` says whether the files hold integers in groups.
        """
        if self.weights not in (AUTO, STORED):
            return self.weights
        on_cpu = self.device == CPU
        if self.weights == AUTO:
            choice = choose_weights(model, is_grouped=is_grouped, on_cpu=on_cpu)
        else:
            choice = choose_stored(is_grouped=is_grouped, on_cpu=on_cpu)
        logger.info("weights are held as %s: %s", choice.weights, choice.reason)
        return choice.weights

    def memory_left(self, devices: Seq[Device]) -> int | None:
        """Return the bytes that may still be allocated on each GPU, possibly negative; None if it is the host."""
        left = [
            int(self.gpu_memory_fraction * total) - (total - free)
            for free, total in (device.memory for device in devices if device.memory is not None)
        ]
        return min(left, default=None)

    def num_blocks(self, model: ModelConfig, left: int | None = None, drafter: ModelConfig | None = None) -> int:
        """Return how many KV blocks to allocate: as many as all sequences could fill, within the allowed memory.

        `left` is the result of `memory_left`; several devices have a part of each block. A `drafter` has as many
        blocks: on a GPU both share the memory that is left; on a host its own come on top, so that no answer ends
        earlier for it. Raises ConfigError if the memory does not hold one block, or on a host not the configured number
        of blocks; on a GPU the allocator finds out.
        """
        block_bytes = self.block_bytes(model, len(self.devices))
        if self.kv_blocks is not None:
            if left is None and self.kv_blocks > (most := host_memory() // block_bytes):
                problem = f"kv_blocks is {self.kv_blocks}, of {block_bytes} bytes each"
                raise ConfigError(f"{problem}; it must be from 1 to {most}, for which this host has memory")
            return self.kv_blocks
        wanted = self.max_sequences * self.blocks_each(model)
        both = block_bytes + (self.block_bytes(drafter) if drafter is not None else 0)
        if left is not None and left < both:
            raise ConfigError(
                f"gpu_memory_fraction is {self.gpu_memory_fraction}; beside the weights and what else is on the GPU "
                f"{max(left, 0)} bytes are left, but one KV block takes {both}"
            )
        memory = self.kv_memory or (HOST_KV_MEMORY if left is None else left)
        if memory < block_bytes:
            raise ConfigError(f"kv_memory is {memory} bytes; it must be at least {block_bytes}, one KV block")
        most = memory // block_bytes
        return min(wanted, most if left is None else min(most, left // both))

    def check_host_memory(self, model: ModelConfig, weights: str, drafter: ModelConfig | None = None) -> None:
        """Raise ConfigError, before anything is loaded, if weights and KV cache cannot fit in the host's memory."""
        kv = self.cache_memory(model)
        least = count_parameters(model) * _BITS[weights] // 8
        if drafter is not None:
            kv += self.num_blocks(model) * self.block_bytes(drafter)
            least += count_parameters(drafter) * _BITS[weights] // 8
        for memory, whose in ((host_memory(), "what this host has"), (free_memory(), "what this host has left")):
            if least + kv > memory:
                raise ConfigError(
                    f"weights are {weights}, of {least} bytes at least, beside {kv} bytes of KV cache and offload; "
                    f"together they must take at most {memory}, {whose}"
                )

    def cache_memory(self, model: ModelConfig) -> int:
        """Return the bytes of KV cache, states and offload on a host; raises ConfigError as `num_blocks` does."""
        return self.num_blocks(model) * self.block_bytes(model) + self.other_memory(model)

    def other_memory(self, model: ModelConfig) -> int:
        """Return the bytes of the offload and of the states of all sequences."""
        return self.num_slots(model) * state_bytes(model) + (self.kv_offload_memory or 0)

    def num_slots(self, model: ModelConfig) -> int:
        """Return how many states there is memory for: those of running sequences, and those kept for later prompts."""
        return self.max_sequences + self.num_checkpoints(model) if model.has_states else 0

    def check_states(self, model: ModelConfig, left: int | None) -> None:
        """Raise ConfigError if the states need more than the memory left on a GPU."""
        needed = self.num_slots(model) * state_bytes(model, len(self.devices))
        if left is not None and needed > left:
            raise ConfigError(
                f"max_sequences is {self.max_sequences}; the states of so many sequences and of cached prompts take "
                f"{needed} bytes, but beside the weights and what else is on the GPU {max(left, 0)} bytes are left"
            )

    def num_checkpoints(self, model: ModelConfig) -> int:
        """Return how many states are kept for later prompts."""
        if not (model.has_states and self.prefix_cache):
            return 0
        return max(1, min(_CHECKPOINTS_EACH * self.max_sequences, _CHECKPOINT_MEMORY // state_bytes(model)))

    def resolve_context_length(self, model: ModelConfig, num_blocks: int) -> int:
        """Return the most tokens of prompt and answer together.

        One sequence alone always fits in the KV cache, beside the blocks that are configured for sessions. Raises
        ConfigError if those are all blocks.
        """
        if self.session_blocks:
            check_range("session_blocks", self.session_blocks, 0, num_blocks - 1)
        return min(self._longest_context(model), (num_blocks - (self.session_blocks or 0)) * BLOCK_SIZE)

    def resolve_session_blocks(self, num_blocks: int, context_length: int) -> int:
        """Return the most KV blocks that sessions may hold; the longest sequence always fits beside them."""
        if self.session_blocks is not None:
            return self.session_blocks
        beside = num_blocks - -(-context_length // BLOCK_SIZE)
        return min(num_blocks // _SESSIONS_PART, beside) if self.prefix_cache else 0

    def most_sessions(self, model: ModelConfig) -> float:
        """Return the most sessions: where layers carry states, each may pin one of those that are kept."""
        return self.num_checkpoints(model) // _SESSIONS_PART if model.has_states else math.inf

    def resolve_prefill_chunk(self) -> int:
        """Return the most tokens of one prompt in one pass."""
        return self.prefill_chunk or min(_PREFILL_CHUNK, self.max_rows)

    def blocks_each(self, model: ModelConfig) -> int:
        """Return the KV blocks that the longest sequence fills."""
        return -(-self._longest_context(model) // BLOCK_SIZE)

    def _check_offload(self) -> None:
        if (self.kv_offload_memory or 0) > (most := host_memory()):
            problem = f"kv_offload_memory is {self.kv_offload_memory} bytes"
            raise ConfigError(f"{problem}; it must be from 1 to {most}, what this host has")
        if (self.kv_offload_dir is None) != (self.kv_offload_disk is None):
            problem = f"kv_offload_dir is {self.kv_offload_dir} and kv_offload_disk {self.kv_offload_disk}"
            raise ConfigError(f"{problem}; both must be set, or neither")
        if self.kv_offload_dir is not None and self.kv_offload_memory is not None:
            raise ConfigError(f"kv_offload_dir is {self.kv_offload_dir}; it must not be set with kv_offload_memory")
        if not self.prefix_cache and (self.kv_offload_dir or self.kv_offload_memory):
            raise ConfigError("kv_offload_memory and kv_offload_dir must not be set without the prefix cache")
        if self.kv_events and not self.prefix_cache:
            raise ConfigError("kv_events must not be set without the prefix cache")

    def block_bytes(self, model: ModelConfig, ranks: int = 1) -> int:
        """Return the bytes of one KV block, of all layers, on each of `ranks` devices."""
        return DecoderConfig(model).position_bytes(self.kv, ranks) * BLOCK_SIZE

    def _longest_context(self, model: ModelConfig) -> int:
        return min(self.context_length or model.max_position, model.max_position)


def state_bytes(model: ModelConfig, ranks: int = 1) -> int:
    """Return the bytes of one sequence's states, in all layers, on each of `ranks` devices."""
    return DecoderConfig(model).state_bytes(ring_rows(model), ranks)


def ring_rows(model: ModelConfig) -> int:
    """Return how many rows a state's ring keeps: those that a convolution reads, and those that may be rejected."""
    taps = max((layer.taps for layer in model.layers if isinstance(layer, GatedDelta)), default=0)
    return -(-(taps + MOST_PREDICTIONS) // _RING_UNIT) * _RING_UNIT


def resolve_isa(environment: Mapping[str, str] = os.environ) -> str:
    """Return the instruction set in OUTRIDER_ISA, or else the best one of this machine."""
    return environment.get(ISA_VARIABLE) or isas()[0]


def resolve_weights_cache(folder: Path | None = None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the given folder, or else that in OUTRIDER_WEIGHTS_CACHE; None without one, and for `off`."""
    chosen = folder or environment.get(WEIGHTS_CACHE_VARIABLE)
    return Path(chosen) if chosen and str(chosen) != OFF else None


def resolve_cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for what this user's commands keep and can make again."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "outrider"


def resolve_token(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the token in OUTRIDER_TOKEN, which commands send to services; None if it is not set."""
    return environment.get(TOKEN_VARIABLE) or None


def resolve_threads(threads: int | None = None) -> int:
    """Return the given number of threads, or else one for each core that this process may use."""
    return threads if threads is not None else len(os.sched_getaffinity(0))


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raise ConfigError for a setting outside of its range, and for NaN."""
    if not least <= value <= most:
        raise ConfigError(f"{name} is {value}; it must be from {least} to {most}")


def check_choice(name: str, value: str, allowed: Collection[str]) -> None:
    """Raise ConfigError for a setting that is not one of the allowed values."""
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")


def check_cpu_option(name: str, value: object, device: str) -> None:
    """Raise ConfigError for one of CPU_OPTIONS that is set, not None, with another device."""
    assert name in CPU_OPTIONS
    if value is not None and device != CPU:
        raise ConfigError(f"{name} is {value}; it must not be set with device {device}, only with {CPU}")


def split_address(name: str, address: str, *, other: str = "") -> tuple[str, int]:
    """Return host and port of HOST:PORT or [HOST]:PORT; raises ConfigError, with `other` at the end of its message."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= _LARGEST_PORT):
        raise ConfigError(f"{name} is {address!r}; it must be HOST:PORT, with a port from 0 to {_LARGEST_PORT}{other}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _gpus() -> list[str]:
    return [f"cuda:{index}" for index in range(len(cuda_devices()))]


def _check_device(device: str) -> None:
    names = device.split(",")
    if len(names) > 1 and (CPU in names or len(set(names)) < len(names) or len(names) > MOST_RANKS):
        raise ConfigError(f"device is {device!r}; several must be different GPUs, at most {MOST_RANKS}")
    if len(names) > 1:  # before CUDA is looked at: no kernel must be loaded while one of a GPU waits for another GPU
        os.environ.setdefault(MODULE_LOADING_VARIABLE, "EAGER")
    allowed = [CPU, *_gpus()]
    if not set(names) <= set(allowed):
        reason = f" (no GPU: {problem})" if (problem := cuda_problem()) else ""
        raise ConfigError(f"device is {device!r}; it must be one of {', '.join(allowed)}{reason}")
