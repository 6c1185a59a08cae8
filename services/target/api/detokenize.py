"""Detokenize: ids to the bytes and the text that they stand for."""

from outrider.v1 import generation_pb2
from services.service.validation import Violations
from services.target.api.served_model import ServedModel


def detokenize(message: generation_pb2.DetokenizeRequest, model: ServedModel) -> generation_pb2.DetokenizeResponse:
    """Decode as many ids as the context holds; takes long for many. Raises InvalidRequestError."""
    found = Violations()
    token_ids = found.within("token_ids", message.token_ids, model.context_length)
    found.check_token_ids("token_ids", token_ids, model.config.vocab_size)
    found.raise_if_any()
    tokenizer, show_special = model.tokenizer, message.show_special_tokens
    visible = (token_id for token_id in token_ids if show_special or not tokenizer.is_special(token_id))
    data = b"".join(map(tokenizer.token_bytes, visible))
    return generation_pb2.DetokenizeResponse(text=data.decode(errors="replace"), bytes=data)
