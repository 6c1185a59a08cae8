"""DraftLinks: a snapshot of the links to drafts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.target.speculation.link.remote_predictor import RemotePredictor


@dataclass(frozen=True, slots=True)
class DraftLinks:
    """The links to all configured drafts, up or down; none by default."""

    by_address: Mapping[str, RemotePredictor] = field(default_factory=dict)
    useless_tokens: int = 0
    """Predicted tokens that came too late or did not fit, of all drafts ever, including removed ones."""
