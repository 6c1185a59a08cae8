"""Tally: the results of a soak."""

from collections import Counter
from dataclasses import dataclass, field

from outrider.types import Speculation
from tests.e2e.soak.soak_request import Answer

_REQUIRED_ENDS = (
    "whole",
    "left by its client",
    "whose time was over",
    "refused as bad",
    "refused for load",
    "refused by a drained target",
    "ended by the administrator",
)


@dataclass(slots=True)
class Tally:
    """Answers by how they ended, and what was done to the services meanwhile."""

    figures: list[Speculation] = field(default_factory=list)  # of every answer whose end was seen
    ends: Counter[str] = field(default_factory=Counter)
    deeds: Counter[str] = field(default_factory=Counter)
    num_tokens: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, answer: Answer) -> None:
        """Count one answer."""
        self.num_tokens += len(answer.tokens)
        self.ends[answer.end] += 1
        if answer.result is not None:
            self.figures.append(answer.result.speculation)

    def complain(self, problem: str) -> None:
        """Note a problem, and print it at once."""
        self.problems.append(problem)
        print(f"soak: {problem}", flush=True)

    def sum(self, figure: str) -> int:
        """One of the figures, over all answers."""
        return sum(getattr(figures, figure) for figures in self.figures)

    def missing_evidence(self) -> list[str]:
        """What must have happened for the rest to mean something."""
        predicted, accepted = self.sum("predicted"), self.sum("accepted")
        happened = {f"answers {end}": self.ends[end] for end in _REQUIRED_ENDS} | {
            "kills of the draft": self.deeds["kills of the draft"],
            "losses in a stream": self.sum("draft_losses"),
            "returns in a stream": self.sum("draft_returns"),
            "accepted predictions": accepted,
            "rejected predictions": predicted - accepted,
        }
        return [f"there were no {name}" for name, count in happened.items() if count == 0]

    def lines(self) -> list[str]:
        """All of it, to be read."""
        predicted, accepted = self.sum("predicted"), self.sum("accepted")
        return [
            *(f"{count} answers {end}" for end, count in self.ends.most_common()),
            f"{self.num_tokens} tokens, {predicted} predictions verified, {accepted} accepted",
            f"{self.sum('draft_losses')} losses and {self.sum('draft_returns')} returns of the draft within streams",
            *(f"{count} {deed}" for deed, count in self.deeds.most_common()),
        ]
