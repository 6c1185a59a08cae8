"""Verification: whether an answer is what the model gives, one pass over many of its tokens."""

from dataclasses import dataclass

from outrider.proof import Proof
from outrider.types import Chunk, FinishReason, Result
from outrider.v1 import common_pb2, generation_pb2

_OF_TIME = (FinishReason.TIME_LIMIT, FinishReason.DEADLINE)


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
    """Of the model, until the end of an equal answer."""


class Verification:
    """Compares an answer with what a server gives. It does no input or output itself."""

    def __init__(self, proof: Proof) -> None:
        self.request = generation_pb2.StreamGenerateRequest()
        self.request.CopyFrom(proof.request)
        self.request.speculation.mode = common_pb2.SPECULATION_MODE_ALWAYS
        self.request.speculation.expected.ids[:] = proof.token_ids
        self._proof = proof
        self._num_equal = 0
        self._verdict: Verdict | None = None  # until it is certain

    def take(self, chunk: Chunk) -> bool:
        """Take in what follows; returns whether the verdict is certain."""
        for token_id in chunk.token_ids:
            own = self._proof.token_ids[self._num_equal : self._num_equal + 1]
            if own != (token_id,):
                if own or not self._is_cut:
                    self._differ(self._num_equal, own, (token_id,))
                break
            self._num_equal += 1
        if self._is_cut and self._verdict is None and self._num_equal == len(self._proof.token_ids):
            self._verdict = Verdict(is_equal=True)
        return self._verdict is not None

    def end(self, result: Result | None = None) -> Verdict:
        """Return the verdict; `result` is the server's whole answer, if it was needed."""
        if self._verdict is not None or result is None:
            assert self._verdict is not None
            return self._verdict
        proof = self._proof
        own = proof.token_ids[self._num_equal : self._num_equal + 1]
        if own:
            return self._differ(self._num_equal, own, ())
        different = [
            f"the {name} is {found!r} instead of {right!r}"
            for name, found, right in (
                ("text", proof.text, result.text),
                ("reason of the end", str(proof.finish_reason), str(result.finish_reason)),
                ("digest of the request", proof.request_digest, result.proof.request_digest if result.proof else ""),
            )
            if found != right
        ]
        passes = result.speculation.passes
        return Verdict(is_equal=not different, reason="; ".join(different), passes=passes)

    @property
    def _is_cut(self) -> bool:
        """Whether the answer was ended by time, so that the model would go on."""
        return self._proof.finish_reason in _OF_TIME

    def _differ(self, position: int, own: tuple[int, ...], right: tuple[int, ...]) -> Verdict:
        names = [f"token {each[0]}" if each else "the end" for each in (own, right)]
        self._verdict = Verdict(
            is_equal=False,
            position=position,
            token_id=own[0] if own else None,
            right_token_id=right[0] if right else None,
            reason=f"the answer has {names[0]} at position {position}, where the model gives {names[1]}",
        )
        return self._verdict
