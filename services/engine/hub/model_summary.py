"""ModelSummary: the properties of a model, read from its files without the values of the weights."""

from dataclasses import dataclass
from pathlib import Path

from services.engine.checkpoint.checkpoint import load_checkpoint
from services.engine.checkpoint.weight_shapes import count_parameters
from services.engine.files.checkpoint_error import CheckpointError
from services.engine.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """A model that can be served, or the reason why it cannot."""

    architecture: str | None = None
    parameters: int | None = None
    bits_per_weight: float | None = None  # in the files
    context_length: int | None = None  # the model's own, in tokens
    problem: str | None = None  # why it cannot be served

    @classmethod
    def of(cls, path: Path) -> "ModelSummary":
        """Read a folder or GGUF file, with the checks that a service makes before it loads the weights."""
        try:
            checkpoint = load_checkpoint(path)
            checkpoint.check_vocabulary(Tokenizer.from_model(path))
        except CheckpointError as error:
            return cls(problem=str(error).replace(f"{path}/", ""))
        parameters = count_parameters(checkpoint.config)
        return cls(
            architecture=checkpoint.config.architecture,
            parameters=parameters,
            bits_per_weight=8 * sum(state.size for state in checkpoint.file_states()) / parameters,
            context_length=checkpoint.config.max_position,
        )
