"""Verification: whether an answer is what the model gives, one pass over many of its tokens."""

from dataclasses import dataclass

from outrider.errors import DeadlineExceeded, InvalidArgument
from outrider.proof import Proof
from outrider.types import Chunk, FinishReason, Result, Started
from outrider.v1 import common_pb2

_BY_TIME = (FinishReason.TIME_LIMIT, FinishReason.DEADLINE)
_INCOMPLETE = "\ufffd"  # in place of a character that an end by time has cut off
_EXPECTED = "speculation.expected"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is what the model gives."""

    is_equal: bool
    position: int | None = None
    """Of the first token that differs, from 0 on; None if all are equal."""
    token_id: int | None = None
    """What the answer has there; None if it has ended."""
    right_token_id: int | None = None
    """What the model gives there; None if it ends."""
    reason: str = ""
    """What differs, for people; empty if nothing does."""
    passes: int = 0
    """Of the model, until the end of an equal answer; 0 for one that time has ended."""


class Verification:
    """Compares an answer with what a server gives. It does no input or output itself."""

    def __init__(self, proof: Proof) -> None:
        self.request = proof.question()
        self.request.speculation.mode = common_pb2.SPECULATION_MODE_ALWAYS
        self.request.speculation.expected.ids[:] = proof.token_ids
        self._proof = proof
        self._is_cut = proof.finish_reason in _BY_TIME  # so that the model would go on
        self._token_ids: list[int] = []
        self._text = ""

    def take(self, chunk: Chunk, started: Started | None) -> Verdict | None:
        """Take in what follows; returns the verdict once it is certain."""
        if started is not None and started.request_digest != self._proof.request_digest:
            return self._differ("digest of the request", self._proof.request_digest, started.request_digest)
        num_before, own = len(self._token_ids), self._proof.token_ids
        self._token_ids += chunk.token_ids
        self._text += chunk.text
        for position in range(num_before, len(self._token_ids)):
            if position >= len(own) and self._is_cut:
                break
            if own[position : position + 1] != (self._token_ids[position],):
                return self._differ_at(position)
        return self._verdict_of_cut() if self._is_cut else None

    def end(self, result: Result) -> Verdict:
        """Return the verdict after the end of the server's answer; raises DeadlineExceeded if time has ended that."""
        proof = self._proof
        if result.finish_reason in _BY_TIME:
            raise DeadlineExceeded("the time given ran out before the answer was verified")
        if (verdict := self.take(Chunk("", (), (), ()), result.started)) is not None:
            return verdict
        if len(self._token_ids) < len(proof.token_ids):
            return self._differ_at(len(self._token_ids))
        if proof.text != result.text:
            return self._differ_in_text(proof.text, result.text)
        if proof.finish_reason != result.finish_reason:
            return self._differ("reason of the end", str(proof.finish_reason), str(result.finish_reason))
        return Verdict(is_equal=True, passes=result.speculation.passes)

    def refused(self, error: InvalidArgument) -> Verdict:
        """Return the verdict on an answer that no model can give; raises the error if the request is not valid."""
        refusal = next((each for each in error.violations if each.field.startswith(_EXPECTED)), None)
        if refusal is None:
            raise error
        return Verdict(is_equal=False, reason=f"no answer has these tokens: {refusal.description}")

    def _verdict_of_cut(self) -> Verdict | None:
        """Return the verdict on an answer that was ended by time, as soon as there is as much text."""
        text = self._proof.text.rstrip(_INCOMPLETE)
        if len(self._token_ids) < len(self._proof.token_ids) or len(self._text) < len(text):
            return None
        return Verdict(is_equal=True) if self._text.startswith(text) else self._differ_in_text(text, self._text)

    def _differ(self, name: str, own: str, right: str) -> Verdict:
        return Verdict(is_equal=False, reason=f"the {name} is {own!r} instead of {right!r}")

    def _differ_in_text(self, own: str, right: str) -> Verdict:
        pairs = enumerate(zip(own, right, strict=False))
        place = next((place for place, (one, other) in pairs if one != other), min(len(own), len(right)))
        return Verdict(is_equal=False, reason=f"the text differs from character {place} on")

    def _differ_at(self, position: int) -> Verdict:
        own, right = self._proof.token_ids[position : position + 1], self._token_ids[position : position + 1]
        names = [f"token {each[0]}" if each else "the end" for each in (own, right)]
        return Verdict(
            is_equal=False,
            position=position,
            token_id=own[0] if own else None,
            right_token_id=right[0] if right else None,
            reason=f"the answer has {names[0]} at position {position}, where the model gives {names[1]}",
        )
