"""Sample: the figures of one contender in one way, for prompts that were sent at once."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.bench.answer import Answer, rate_together

OURS = "Outrider"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Samples of one run were measured in turn, so those of the same prompts can be compared; times are in seconds."""

    run: str
    engine: str
    weights: str
    way: str
    kind: str  # of the prompts
    turn: int  # index of the prompts among those of the same kind and number of streams
    streams: int  # concurrent answers
    prompt_tokens: int  # of the longest prompt
    first_token: float  # of the stream that got it last
    rate: float | None  # tokens per second of all streams together, while all of them decode
    equal: int  # answers that equal the plain answers
    tokens_per_pass: float | None = None

    @classmethod
    def of(cls, answers: Seq[Answer], plain: Seq[Answer], **others: object) -> "Sample":
        """Return the figures of answers compared with the contender's plain ones; `others` are the remaining fields."""
        [one, *more] = answers
        passes = [answer.tokens_per_pass for answer in answers if answer.tokens_per_pass is not None]
        return cls(
            **others,  # type: ignore[arg-type]
            streams=len(answers),
            first_token=max(answer.first_token for answer in answers),
            rate=rate_together(answers) if more else one.rate,
            equal=sum(answer.token_ids == other.token_ids for answer, other in zip(answers, plain, strict=True)),
            tokens_per_pass=sum(passes) / len(passes) if passes else None,
        )
