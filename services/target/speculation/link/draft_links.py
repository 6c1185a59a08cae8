"""DraftLinks: the links to the drafts at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.target.speculation.link.remote_predictor import RemotePredictor


@dataclass(frozen=True, slots=True)
class DraftLinks:
    """Those that are looked for, linked or not; none by default."""

    by_address: Mapping[str, RemotePredictor] = field(default_factory=dict)
    useless_tokens: int = 0
    """Predicted tokens that came too late or did not fit, of all drafts that there ever were."""
