"""Tokenization: writes token ids as messages, and decodes them to bytes and text."""

from collections.abc import Sequence as Seq

from outrider.v1 import generation_pb2
from services.engine.text.tokenizer import Tokenizer
from services.service.validation import Violations
from services.target.models.served_model import ServedModel

_TOKENS_AT_ONCE = 1 << 13  # added to a message before other threads get a turn


def write_tokens(token_ids: Seq[int], tokenizer: Tokenizer) -> generation_pb2.TokenizeResponse:
    """The message of encoded text: ids and each token's bytes."""
    response = generation_pb2.TokenizeResponse()
    for start in range(0, len(token_ids), _TOKENS_AT_ONCE):
        piece = token_ids[start : start + _TOKENS_AT_ONCE]
        response.token_ids.extend(piece)
        response.token_bytes.extend([tokenizer.token_bytes(token_id) for token_id in piece])
    return response


def detokenize(message: generation_pb2.DetokenizeRequest, model: ServedModel) -> generation_pb2.DetokenizeResponse:
    """Decode ids, at most as many as the context holds, which may take long; raises InvalidRequestError."""
    found = Violations()
    token_ids = found.within("token_ids", message.token_ids, model.context_length)
    found.check_token_ids("token_ids", token_ids, model.config.vocab_size)
    found.raise_if_any()
    tokenizer, show_special = model.tokenizer, message.show_special_tokens
    visible = (token_id for token_id in token_ids if show_special or not tokenizer.is_special(token_id))
    data = b"".join(map(tokenizer.token_bytes, visible))
    return generation_pb2.DetokenizeResponse(text=data.decode(errors="replace"), bytes=data)
