"""SequenceTraces: the sequences that a draft follows as spans, each part of its request's trace."""

from typing import TYPE_CHECKING

from services.draft.drafted_sequence import DraftedSequence

if TYPE_CHECKING:
    from services.telemetry.tracing import TracedSpan, Tracing


class SequenceTraces:
    """Tells of those whose target has said what trace they belong to, and nothing of their tokens."""

    def __init__(self, tracing: "Tracing") -> None:
        self._tracing = tracing
        self._spans: dict[DraftedSequence, TracedSpan] = {}

    def begin(self, sequence: DraftedSequence) -> None:
        """A sequence is followed."""
        if sequence.traceparent:
            self._spans[sequence] = self._tracing.begin("draft", sequence.traceparent, {})

    def end(self, sequence: DraftedSequence, reason: str = "") -> None:
        """It has ended, or was dropped for a reason."""
        if (span := self._spans.pop(sequence, None)) is not None:
            counts = {
                "outrider.committed_tokens": sequence.num_committed,
                "outrider.predicted_tokens": sequence.num_predicted,
                "outrider.epochs": sequence.epoch,
            }
            span.end({**counts, **({"outrider.release_reason": reason} if reason else {})})
