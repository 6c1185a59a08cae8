"""ModelSetup: all that is set for one model of a target."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path

from services.engine.config import EngineConfig, check_range
from services.service.access.credential_files import CredentialFiles
from services.target.message.syntax import AUTO
from services.target.speculation.predictors.predictor import Predictor

_MOST_RUN_AHEAD = 64  # as far as drafts go
_MOST_ALTERNATES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSetup:
    """How it is computed, what it is called, and what predicts its texts; raises ConfigError for what cannot be.

    `drafts` are addresses of draft services, which share the sequences unless there is another predictor, and are
    shown what the `draft_credentials` hold; `run_ahead`, `num_alternates`: see DraftClient. `loras` are folders of
    adapters, by the names that clients ask for, and `lora_dir` has those that may be loaded later. With `lookup`, what
    a text repeats is predicted too. The parsers: see MessageSyntax.
    """

    engine: EngineConfig
    name: str = ""  # what clients call it; by default as its folder is called, or as on the hub
    predictor: Predictor | None = None
    drafts: Seq[str] = ()
    loras: Mapping[str, Path] = field(default_factory=dict)
    lora_dir: Path | None = None
    run_ahead: int | None = None
    num_alternates: int = 0
    draft_credentials: CredentialFiles = field(default_factory=CredentialFiles)
    lookup: bool = True
    tool_parser: str = AUTO
    reasoning_parser: str = AUTO

    def __post_init__(self) -> None:
        check_range("run_ahead", self.run_ahead or 0, 0, _MOST_RUN_AHEAD)
        check_range("alternates", self.num_alternates, 0, _MOST_ALTERNATES)
