"""Transcript: all of an answer that must be the same to the byte."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

from outrider import FinishReason, Result, Token
from services.engine.events import Chunk, Event, Finished, TokenRecord


@dataclass(frozen=True, slots=True)
class Transcript:
    """Token ids, the bits of every log-probability, the whole text, and why it ended."""

    token_ids: tuple[int, ...]
    records: tuple[str, ...]  # for each token the bits of its record, in hexadecimal
    text: str
    reason: str
    stop: str | None
    suppressed: tuple[tuple[str, str, int, int], ...] = ()  # the fields of each text that was taken back

    @classmethod
    def of(cls, result: Result) -> "Transcript":
        """What a client was given, over however many connections."""
        if len(result.tokens) != len(result.token_ids):
            raise ValueError(f"{len(result.token_ids)} tokens came with {len(result.tokens)} records")
        records = tuple(_bits_of_token(token) for token in result.tokens)
        suppressed = tuple(astuple(one) for one in result.suppressed)
        return cls(result.token_ids, records, result.text, str(result.finish_reason), result.stop_string, suppressed)

    @classmethod
    def of_part(cls, tokens: Sequence[Token], text: str) -> "Transcript":
        """What a client was given that has not seen the end."""
        return cls(tuple(token.id for token in tokens), tuple(map(_bits_of_token, tokens)), text, "", None)

    @classmethod
    def of_events(cls, events: Sequence[Event]) -> "Transcript":
        """What the engine told a consumer, from any point to the end."""
        chunks = [event for event in events if isinstance(event, Chunk)]
        records = [record for chunk in chunks for record in chunk.records]
        end = events[-1]
        if not isinstance(end, Finished):
            raise ValueError(f"the generation did not end, but: {end}")
        text = "".join(chunk.text for chunk in chunks) + end.text
        reason = str(FinishReason[end.reason.name])
        bits = tuple(_bits_of_record(record) for record in records)
        suppressed = tuple(astuple(one) for chunk in chunks for one in chunk.suppressed)
        ids = tuple(record.token_id for record in records)
        return cls(ids, bits, text, reason, end.stop_string, suppressed)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Transcript":
        """The inverse of `to_json`."""
        token_ids, records = tuple(fields["token_ids"]), tuple(fields["records"])
        suppressed = tuple(map(tuple, fields["suppressed"]))
        return cls(token_ids, records, fields["text"], fields["reason"], fields["stop"], suppressed)

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self)

    def cut(self, num_tokens: int, num_characters: int) -> "Transcript":
        """The beginning of it, without an end."""
        return Transcript(self.token_ids[:num_tokens], self.records[:num_tokens], self.text[:num_characters], "", None)

    def difference(self, other: "Transcript") -> str | None:
        """The first difference in words; None if there is none."""
        for name in ("token_ids", "records", "text", "suppressed"):
            mine, others = getattr(self, name), getattr(other, name)
            if mine != others:
                at = next((i for i, (a, b) in enumerate(zip(mine, others, strict=False)) if a != b), None)
                if at is None:
                    return f"{name}: {len(mine)} instead of {len(others)}"
                return f"{name}: {mine[at]!r} instead of {others[at]!r} at {at}"
        if (self.reason, self.stop) != (other.reason, other.stop):
            return f"ended by {self.reason} {self.stop!r} instead of {other.reason} {other.stop!r}"
        return None


def _bits_of_token(token: Token) -> str:
    candidates = [(other.id, other.raw_logprob, other.processed_logprob) for other in token.candidates]
    return _bits(token.id, token.raw_logprob, token.processed_logprob, candidates)


def _bits_of_record(record: TokenRecord) -> str:
    candidates = [(other.token_id, other.raw_logprob, other.logprob) for other in record.candidates]
    return _bits(record.token_id, record.raw_logprob, record.logprob, candidates)


def _bits(
    token_id: int, raw: float | None, processed: float | None, candidates: Iterable[tuple[int, float, float]]
) -> str:
    """Both log-probabilities, and the candidates with theirs, as they are in memory."""
    if raw is None or processed is None:
        raise ValueError(f"token {token_id} came without log-probabilities")
    rows = [(token_id, raw, processed), *candidates]
    return b"".join(struct.pack("<Iff", *row) for row in rows).hex()
