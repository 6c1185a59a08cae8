"""SequenceTraces: a span for each sequence that a draft follows, as part of its request's trace."""

from typing import TYPE_CHECKING

from services.draft.drafted_sequence import DraftedSequence

if TYPE_CHECKING:
    from services.telemetry.tracing import TracedSpan, Tracing


class SequenceTraces:
    """Records the sequences whose targets sent a traceparent, without their tokens."""

    def __init__(self, tracing: "Tracing") -> None:
        self._tracing = tracing
        self._spans: dict[DraftedSequence, TracedSpan] = {}

    def begin(self, sequence: DraftedSequence) -> None:
        """Begin the span of a sequence."""
        if sequence.traceparent:
            self._spans[sequence] = self._tracing.begin("draft", sequence.traceparent, {})

    def end(self, sequence: DraftedSequence, reason: str = "") -> None:
        """End the span of a sequence, with the reason if the draft dropped it."""
        if (span := self._spans.pop(sequence, None)) is not None:
            counts = {
                "outrider.committed_tokens": sequence.num_committed,
                "outrider.predicted_tokens": sequence.num_predicted,
                "outrider.epochs": sequence.epoch,
            }
            span.end({**counts, **({"outrider.release_reason": reason} if reason else {})})
