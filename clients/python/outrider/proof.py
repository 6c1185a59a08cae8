"""Proof: an answer with everything that its bytes depend on, which any server of the fingerprint can verify."""

import json
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from outrider.v1 import generation_pb2

_ASKED = ("prompt", "sampling", "stop", "grammar", "guidance", "model", "lora")
_KEYS = ("request", "request_digest", "token_ids", "text", "finish_reason")


@dataclass(frozen=True, slots=True)
class Proof:
    """An answer, and the request that gives it wherever the fingerprint is the same."""

    request: generation_pb2.StreamGenerateRequest
    """It has the prompt's token ids, the seed and the fingerprint."""
    request_digest: str
    """As in `AnswerProof` of `outrider/v1/generation.proto`."""
    token_ids: tuple[int, ...]
    text: str
    finish_reason: str

    def question(self) -> generation_pb2.StreamGenerateRequest:
        """Return the request with nothing that changes no token; raises ValueError if the seed, the fingerprint or the
        prompt's token ids are missing.
        """
        question, asked = generation_pb2.StreamGenerateRequest(), self.request
        question.CopyFrom(asked)
        for field in question.DESCRIPTOR.fields:
            if field.name not in _ASKED:
                question.ClearField(field.name)  # type: ignore[arg-type]
        question.stop.ClearField("time_limit")
        if asked.output.show_special_tokens:
            question.output.show_special_tokens = True
        question.continue_from.fingerprint = asked.continue_from.fingerprint
        for name, is_there in (
            ("sampling.seed", asked.sampling.HasField("seed")),
            ("continue_from.fingerprint", bool(asked.continue_from.fingerprint)),
            ("prompt.token_ids", asked.prompt.HasField("token_ids")),
        ):
            if not is_there:
                raise ValueError(f"the request of a proof has no {name}")
        return question

    def to_json(self) -> str:
        """Return it as a JSON object, which `from_json` reads."""
        return json.dumps(
            {
                "request": json_format.MessageToDict(self.request, preserving_proto_field_name=True),
                "request_digest": self.request_digest,
                "token_ids": self.token_ids,
                "text": self.text,
                "finish_reason": self.finish_reason,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> "Proof":
        """Read what `to_json` has written; raises ValueError."""
        found: Any = json.loads(text)
        if not isinstance(found, dict) or not found.keys() >= {*_KEYS} or not isinstance(found["request"], dict):
            raise ValueError(f"a proof is a JSON object with {', '.join(_KEYS)}, the first of them an object, too")
        try:
            request = json_format.ParseDict(found["request"], generation_pb2.StreamGenerateRequest())
        except json_format.ParseError as error:
            raise ValueError(f"request: {error}") from error
        ids = found["token_ids"]
        if not isinstance(ids, list) or not all(type(each) is int and 0 <= each < 1 << 32 for each in ids):
            raise ValueError("token_ids must be a list of numbers from 0 to 4294967295")
        others = {key: str(found[key]) for key in ("request_digest", "text", "finish_reason")}
        proof = cls(request=request, token_ids=tuple(ids), **others)
        proof.question()
        return proof
