"""Proof: an answer with everything that its bytes depend on, which any server of the fingerprint can verify."""

import json
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format

from outrider.v1 import generation_pb2

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
        return cls(request=request, token_ids=tuple(ids), **others)
