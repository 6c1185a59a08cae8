"""ExpectedSequence: stands for a Sequence at a draft link, with the state that is expected there."""

from dataclasses import dataclass, field

from services.engine.config import MOST_PREDICTIONS
from services.engine.events import SpeculationStats
from services.engine.request import Request


@dataclass(eq=False, repr=False)
class ExpectedSequence:
    """Stands for a Sequence, with the state that is expected of it."""

    request: Request
    tokens: list[int]
    speculation: SpeculationStats = field(default_factory=SpeculationStats)
    num_losses: int = 0
    sequence_id: int = 0  # on this link, once it is open there
    is_released: bool = False
    window: int | None = 0  # that the draft must have once all is sent; None where it is 0 and the draft may not know
    is_rewound: bool = False  # and nothing has come in the place of what was taken back
    was_rewound: bool = False  # on this link: what was under way then goes on from other tokens
    is_strict: bool = True  # whether no garbage and no rewound and repeated tokens are between it and the draft
    has_answered: bool = False
    is_awaited: bool | None = False  # with a draft that works between passes only; None where that is not known
    was_awaited: bool | None = False  # at the last commit
    is_overdue: bool | None = False  # what comes may be the answer to an older one; None as above

    def __repr__(self) -> str:
        return f"sequence {self.request.stops.min_tokens}"

    def ask(self, told: list[int], *, run_ahead: int) -> None:
        """It has credit again, and no predictions."""
        self.is_overdue = False if run_ahead else self.was_awaited
        self.is_awaited = None if self.is_rewound else True
        if len(self.tokens) - len(told) > MOST_PREDICTIONS + 1:
            self.has_answered = False  # it has to catch up first

    def answer(self) -> None:
        """A useful prediction has come."""
        self.has_answered, self.is_awaited, self.is_overdue = True, False, False

    def grow(self, told: list[int], *, run_ahead: int, is_predicted: bool) -> None:
        """Tokens were committed, in the place of those that were taken back if there are any."""
        self.was_awaited, self.is_awaited, self.is_overdue = self.is_awaited, False, False
        if run_ahead and self.window and not is_predicted:
            self.is_awaited, self.is_overdue = None if self.was_awaited is None else True, self.was_awaited
        if (self.window and not run_ahead) or (self.is_rewound and not self.window):
            self.window = None
        if self.is_rewound and all(ours == theirs for ours, theirs in zip(self.tokens, told, strict=False)):
            self.is_strict = False  # the draft continues what the target has thrown away
        self.is_rewound = False

    def rewind(self) -> None:
        """Tokens were taken back."""
        self.is_rewound = self.was_rewound = True
        self.forget_question()

    def release(self) -> None:
        """The draft has released the sequence."""
        self.is_released, self.num_losses = True, self.num_losses + 1
        self.forget_question()

    def lose_link(self) -> None:
        """The link has ended."""
        self.num_losses += self.sequence_id > 0 and not self.is_released
        self.sequence_id, self.is_strict = 0, True
        self.is_released = self.is_rewound = self.was_rewound = self.has_answered = False
        self.forget_question()

    def forget_question(self) -> None:
        """Nothing is awaited any more."""
        self.is_awaited = self.was_awaited = self.is_overdue = False
