"""DrafterKind: how an attached drafter predicts, by its config.json."""

from enum import StrEnum
from pathlib import Path

from services.engine.files.json_fields import JsonFields, shown


class DrafterKind(StrEnum):
    """The kinds that are served."""

    EAGLE3 = "EAGLE-3"  # token by token
    P_EAGLE = "P-EAGLE"  # likewise, but all of a step at once
    DFLASH = "DFlash"  # a block at once, after a context
    DSPARK = "DSpark"  # likewise, where each token also depends on the one before it
    ASSISTANT = "Gemma 4 assistant"  # token by token, with the keys and values of its target

    @property
    def has_context(self) -> bool:
        """Whether features are a context: its layers compute their keys and values, and nothing else."""
        return self in (DrafterKind.DFLASH, DrafterKind.DSPARK)


_OF_SPECULATORS = {
    "dflash": DrafterKind.DFLASH,
    "dspark": DrafterKind.DSPARK,
    "eagle3": DrafterKind.EAGLE3,
    "peagle": DrafterKind.P_EAGLE,
}
SPECULATORS = "speculators_model_type"
"""The field by which folders of the speculators library are known."""
MASK_TOKENS = ("mask_token_id", "pard_token", "ptd_token_id")
"""The fields that may say which token masks are."""
_OF_EAGLE = ("draft_vocab_size", "eagle_config")


def read_kind(config: JsonFields) -> DrafterKind:
    """Return the kind of a drafter; raises CheckpointError for one that is not served."""
    if SPECULATORS in config:
        return _OF_SPECULATORS[config.choice(SPECULATORS, _OF_SPECULATORS)]
    said = _architectures(config)
    if (kind := _find_kind(config)) is None or "dflash2" in said:
        kinds = ", ".join(DrafterKind)
        problem = f"{shown(config.raw('architectures'))} is no drafter of a kind that is served: {kinds}"
        raise config.error("architectures", problem)
    return kind


def is_drafter(config: JsonFields) -> bool:
    """Whether a config.json describes an attached drafter, not a model."""
    return SPECULATORS in config or _find_kind(config) is not None


def is_assistant_folder(folder: Path) -> bool:
    """Whether a folder with an attached drafter is of that kind; raises CheckpointError."""
    return read_kind(JsonFields.from_file(folder / "config.json")) is DrafterKind.ASSISTANT


def is_drafter_folder(folder: Path) -> bool:
    """Whether a path is a folder with an attached drafter, not a model; raises CheckpointError."""
    path = folder / "config.json"
    return path.is_file() and is_drafter(JsonFields.from_file(path))


def _find_kind(config: JsonFields) -> DrafterKind | None:
    """The kind of a folder that is not of the speculators library."""
    said = _architectures(config)
    if "gemma4" in said and "assistant" in said:
        return DrafterKind.ASSISTANT
    if "dspark" in said:
        return DrafterKind.DSPARK
    if "dflash" in said or "dflash_config" in config:
        return DrafterKind.DFLASH
    if "peagle" in said:
        return DrafterKind.P_EAGLE
    if "eagle3" in said or any(name in config for name in _OF_EAGLE):
        return DrafterKind.P_EAGLE if any(name in config for name in MASK_TOKENS) else DrafterKind.EAGLE3
    return None


def _architectures(config: JsonFields) -> str:
    names = config.raw("architectures")
    return " ".join(map(str, names)).lower() if isinstance(names, list) else ""
