"""DraftLinks: a snapshot of the links to drafts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.target.speculation.link.link_counts import LinkCounts


@dataclass(frozen=True, slots=True)
class LinkState:
    """The state of the link to one draft, and its counts so far."""

    absence: str  # why it is not linked; empty if it is
    num_arrivals: int  # times that the link was opened
    granted: int  # tokens that the draft may predict ahead now
    counts: LinkCounts


@dataclass(frozen=True, slots=True)
class DraftLinks:
    """The links to all configured drafts, up or down; none by default."""

    by_address: Mapping[str, LinkState] = field(default_factory=dict)
    useless_tokens: int = 0
    """Predicted tokens that came too late or did not fit, of all drafts ever, including removed ones."""
