"""EngineFacts: what stays the same about an engine while it is loaded."""

from dataclasses import dataclass

from services.engine.config import EngineConfig
from services.engine.loaded_model import LoadedModel
from services.engine.request import OutputOptions
from services.target.generation.fingerprint import Fingerprint

_MAX_WAITING_LOGITS = 16 << 20  # bytes per stream, not counting those of its last pass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """The configuration of an engine, and what came of it."""

    config: EngineConfig
    fingerprint: Fingerprint
    """Of answers to token ids; conversations add their own part, see `ServedModel`."""
    device: str
    weights: str  # their format in memory
    context_length: int  # tokens
    num_blocks: int  # of the KV cache
    block_size: int  # tokens
    vocab_size: int
    session_blocks: int  # the most that sequences may pin
    most_sessions: float  # for which there is memory; infinity where only their blocks count
    head: str  # the name of the drafter that is attached to the model; empty if none is

    @classmethod
    def of(cls, model: LoadedModel, config: EngineConfig, fingerprint: Fingerprint) -> "EngineFacts":
        """The facts about an engine with a loaded model."""
        num_blocks = model.blocks.num_blocks
        return cls(
            config=config,
            fingerprint=fingerprint,
            device=model.device.name,
            weights=model.weights,
            context_length=model.context_length,
            num_blocks=num_blocks,
            block_size=model.blocks.block_size,
            vocab_size=model.checkpoint.config.vocab_size,
            session_blocks=config.resolve_session_blocks(num_blocks, model.context_length),
            most_sessions=config.most_sessions(model.checkpoint.config),
            head=model.drafter.name if model.drafter is not None else "",
        )

    def capacity(self, output: OutputOptions) -> int:
        """How many tokens may wait for a reader; fewer if each of them has many logits."""
        if not output.logits:
            return self.config.stream_capacity
        logits_bytes = 4 * (len(output.logits_token_ids) or self.vocab_size)
        return max(1, min(self.config.stream_capacity, _MAX_WAITING_LOGITS // logits_bytes))
