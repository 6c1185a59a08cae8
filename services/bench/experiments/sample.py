"""Sample: what one contender did in one way with prompts that it was asked at once."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.bench.answer import Answer, rate_together

OURS = "Outrider"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Samples of one run were measured in turn, so those with the same prompts can be compared; times in seconds."""

    run: str
    engine: str
    weights: str
    way: str
    kind: str  # of the prompts
    turn: int  # of the prompts among those of the kind and the number of streams
    streams: int  # at once
    prompt_tokens: int  # of the longest
    first_token: float  # the last stream's
    rate: float | None  # tokens per second of all together, while all of them decode
    equal: int  # answers that are the plain ones
    tokens_per_pass: float | None = None

    @classmethod
    def of(cls, answers: Seq[Answer], plain: Seq[Answer], **others: object) -> "Sample":
        """The figures of answers beside the same contender's plain ones, with what is known of them otherwise."""
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
