"""WayFigures: the figures of one contender's answers in one way."""

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np

from outrider import PassReport, Result
from services.bench.answer import Answer
from services.bench.spread import Spread


@dataclass(frozen=True, slots=True)
class PassFigures:
    """The target's passes after the first tokens; times are in seconds."""

    acceptance: float | None  # share of predictions accepted; None: there were no predictions
    by_position: tuple[float, ...]  # how often the first i + 1 predictions were accepted, of passes with as many
    waiting: Spread  # time spent waiting for predictions
    verifying: Spread
    host: Spread | None  # work between two passes; None: no pass directly followed another

    @classmethod
    def of(cls, results: Seq[Result]) -> "PassFigures":
        """Return the figures of all passes except the first of each answer."""
        reports = [report for result in results for report in result.pass_reports[1:]]
        predicted = sum(result.speculation.predicted for result in results)
        accepted = sum(result.speculation.accepted for result in results)
        hosts = [report.host for report in reports if report.host is not None]
        return cls(
            acceptance=accepted / predicted if predicted else None,
            by_position=_by_position(reports),
            waiting=Spread.of([report.waiting for report in reports]),
            verifying=Spread.of([report.verifying for report in reports]),
            host=Spread.of(hosts) if hosts else None,
        )


@dataclass(frozen=True, slots=True)
class WayFigures:
    """Times are in seconds, rates in tokens per second; the speed-up is over the plain answer to the same prompt."""

    rate: Spread
    speed_up: Spread
    first_token: Spread
    num_equal: int  # answers that equal the plain answers
    num_answers: int
    tokens_per_pass: float | None
    oracle_fraction: float | None  # share of the possible speed-up: speed-up / tokens per pass; None: plain
    gap: Spread | None  # time between two arrivals of tokens
    gap_p99: float | None
    passes: PassFigures | None

    @classmethod
    def of(cls, answers: Seq[Answer], plain: Seq[Answer]) -> "WayFigures":
        """Return the figures of answers, each compared with the plain answer to the same prompt.

        `answers` may be `plain` itself: the plain answers have figures too.
        """
        pairs = [*zip(answers, plain, strict=True)]
        gaps = [gap for answer in answers for gap in answer.gaps]
        results = [answer.result for answer in answers if answer.result is not None]
        speed_up = Spread.of([answer.rate / other.rate for answer, other in pairs])
        tokens_per_pass = _mean(answer.tokens_per_pass for answer in answers)
        return cls(
            rate=Spread.of([answer.rate for answer in answers]),
            speed_up=speed_up,
            first_token=Spread.of([answer.first_token for answer in answers]),
            num_equal=sum(answer.token_ids == other.token_ids for answer, other in pairs),
            num_answers=len(answers),
            tokens_per_pass=tokens_per_pass,
            oracle_fraction=speed_up.median / tokens_per_pass if tokens_per_pass and answers is not plain else None,
            gap=Spread.of(gaps) if gaps else None,
            gap_p99=float(np.percentile(gaps, 99)) if gaps else None,
            passes=PassFigures.of(results) if results else None,
        )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _by_position(reports: Seq[PassReport]) -> tuple[float, ...]:
    longest = max((report.predicted for report in reports), default=0)
    fractions = []
    for position in range(longest):
        offered = [report for report in reports if report.predicted > position]
        fractions.append(sum(report.accepted > position for report in offered) / len(offered))
    return tuple(fractions)
