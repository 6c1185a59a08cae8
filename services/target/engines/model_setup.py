"""ModelSetup: the configuration of one model of a target."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path

from services.engine.config import ConfigError, EngineConfig, check_range
from services.service.access.credential_files import CredentialFiles
from services.target.message.syntax import AUTO
from services.target.speculation.predictors.predictor import Predictor

_MOST_RUN_AHEAD = 64  # the drafts' own limit
_MOST_ALTERNATES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSetup:
    """How a model is computed, its name, and its predictors; raises ConfigError for values out of range.

    `drafts` are addresses of draft services, which share the sequences unless there is another `predictor`; they are
    sent the `draft_credentials`. For `run_ahead` and `num_alternates` see DraftClient. `loras` are folders of adapters
    by the names that clients use, and `lora_dir` has those that may be loaded later. `lookup` adds prompt lookup. For
    the parsers see MessageSyntax. With `own_process` the engine computes in a process of its own.
    """

    engine: EngineConfig
    name: str = ""  # for clients; by default that of its folder, or on the hub
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
    own_process: bool = False

    def __post_init__(self) -> None:
        check_range("run_ahead", self.run_ahead or 0, 0, _MOST_RUN_AHEAD)
        check_range("alternates", self.num_alternates, 0, _MOST_ALTERNATES)
        if self.own_process and self.predictor is not None:
            raise ConfigError("own_process is set with a predictor, which cannot be sent to another process")
