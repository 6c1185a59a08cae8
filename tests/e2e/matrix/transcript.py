"""Transcript: all of an answer that must be the same to the byte."""

import hashlib
import struct
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from outrider import FinishReason, Result, Token
from services.engine.events import Chunk, Event, Finished, Progress, TokenRecord


@dataclass(frozen=True, slots=True)
class Transcript:
    """Token ids, the bits of all records of them and of the prompt, the whole text, and why it ended."""

    token_ids: tuple[int, ...]
    records: tuple[str, ...]  # for each token the bits of its record, in hexadecimal
    text: str
    reason: str
    stop: str | None
    prompt: tuple[str, ...] = ()  # the same for each token of the prompt
    suppressed: tuple[tuple[str, str, int, int], ...] = ()  # the fields of each text that was taken back
    further_samples: "tuple[Transcript, ...]" = ()

    @classmethod
    def of(cls, result: Result) -> "Transcript":
        """The answer that a client received, over however many connections."""
        if len(result.tokens) != len(result.token_ids):
            raise ValueError(f"{len(result.token_ids)} tokens came with {len(result.tokens)} records")
        _require_logprobs(token.raw_logprob for token in (*result.tokens, *result.prompt_records[1:]))
        records = tuple(_bits_of_token(token) for token in result.tokens)
        prompt = tuple(_bits_of_token(token) for token in result.prompt_records)
        suppressed = tuple(astuple(one) for one in result.suppressed)
        reason = str(result.finish_reason)
        further = tuple(map(cls.of, result.further_samples))
        return cls(result.token_ids, records, result.text, reason, result.stop_string, prompt, suppressed, further)

    @classmethod
    def of_part(cls, tokens: Seq[Token], text: str) -> "Transcript":
        """The part of an answer that a client received without its end."""
        return cls(tuple(token.id for token in tokens), tuple(map(_bits_of_token, tokens)), text, "", None)

    @classmethod
    def of_events(cls, events: Seq[Event]) -> "Transcript":
        """What the engine sent a consumer, from any point to the end."""
        chunks = [event for event in events if isinstance(event, Chunk)]
        records = [record for chunk in chunks for record in chunk.records]
        end = events[-1]
        if not isinstance(end, Finished):
            raise ValueError(f"the generation did not end, but: {end}")
        text = "".join(chunk.text for chunk in chunks) + end.text
        reason = str(FinishReason[end.reason.name])
        bits = tuple(_bits_of_record(record) for record in records)
        told = [record for event in events if isinstance(event, Progress) for record in event.records]
        _require_logprobs(record.raw_logprob for record in (*records, *told[1:]))
        prompt = tuple(map(_bits_of_record, told))
        suppressed = tuple(astuple(one) for chunk in chunks for one in chunk.suppressed)
        ids = tuple(record.token_id for record in records)
        return cls(ids, bits, text, reason, end.stop_string, prompt, suppressed)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Transcript":
        """The inverse of `to_json`."""
        token_ids, records = tuple(fields["token_ids"]), tuple(fields["records"])
        prompt, suppressed = tuple(fields["prompt"]), tuple(map(tuple, fields["suppressed"]))
        further = tuple(map(cls.from_json, fields["further_samples"]))
        return cls(token_ids, records, fields["text"], fields["reason"], fields["stop"], prompt, suppressed, further)

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return asdict(self)

    def cut(self, num_tokens: int, num_characters: int) -> "Transcript":
        """The beginning of the answer, without an end."""
        return Transcript(self.token_ids[:num_tokens], self.records[:num_tokens], self.text[:num_characters], "", None)

    @property
    def samples(self) -> "tuple[Transcript, ...]":
        """The answer and its further samples, each by itself."""
        return (replace(self, further_samples=()), *self.further_samples)

    def difference(self, other: "Transcript") -> str | None:
        """The first difference in words; None if there is none."""
        if len(self.samples) != len(other.samples):
            return f"{len(self.samples)} samples instead of {len(other.samples)}"
        pairs = enumerate(zip(self.samples, other.samples, strict=True))
        differences = (f"sample {n}: {found}" for n, (mine, its) in pairs if (found := mine._difference(its)))
        return next(differences, None)

    def _difference(self, other: "Transcript") -> str | None:
        for name in ("prompt", "token_ids", "records", "text", "suppressed"):
            mine, others = getattr(self, name), getattr(other, name)
            if mine != others:
                at = next((i for i, (a, b) in enumerate(zip(mine, others, strict=False)) if a != b), None)
                if at is None:
                    return f"{name}: {len(mine)} instead of {len(others)}"
                return f"{name}: {mine[at]!r} instead of {others[at]!r} at {at}"
        if (self.reason, self.stop) != (other.reason, other.stop):
            return f"ended by {self.reason} {self.stop!r} instead of {other.reason} {other.stop!r}"
        return None


def _require_logprobs(logprobs: Iterable[float | None]) -> None:
    if None in logprobs:
        raise ValueError("a token came without log-probabilities")


def _bits_of_token(token: Token) -> str:
    candidates = [(other.id, other.raw_logprob, other.processed_logprob) for other in token.candidates]
    figures = (token.raw_logprob, token.processed_logprob, token.entropy)
    return _bits(token.id, figures, token.rank, candidates, token.logits.data if token.logits else None)


def _bits_of_record(record: TokenRecord) -> str:
    candidates = [(other.token_id, other.raw_logprob, other.logprob) for other in record.candidates]
    figures = (record.raw_logprob, record.logprob, record.entropy)
    return _bits(record.token_id, figures, record.rank, candidates, record.logits)


def _bits(
    token_id: int,
    figures: Iterable[float | None],
    rank: int | None,
    candidates: Iterable[tuple[int, float, float]],
    logits: bytes | None,
) -> str:
    """The figures as they are in memory, "-" for what is not there; candidates with theirs; of logits a digest."""
    parts = ["-" if figure is None else struct.pack("<f", figure).hex() for figure in figures]
    rows = b"".join(struct.pack("<Iff", *row) for row in candidates)
    digest = "-" if logits is None else hashlib.blake2b(logits, digest_size=16).hexdigest()
    return f"{token_id} {rank or '-'} {' '.join(parts)} {rows.hex()} {digest}"
