"""Output options: what a request wants beside the text and the token ids."""

from collections.abc import Sequence as Seq

from outrider.v1 import common_pb2
from services.engine.range import Range
from services.engine.request import OutputOptions
from services.service.limits import LIMITS, MAX_RECORDS_BYTES
from services.service.validation import Violations
from services.target.api.chat import read_tools
from services.target.models.served_model import ServedModel


def read_output(
    message: common_pb2.OutputOptions, model: ServedModel, found: Violations, *, is_whole: bool
) -> OutputOptions:
    """The output options of a request; errors are added to `found`.

    Candidates imply log-probabilities, and every field of a record implies records. `is_whole` is whether the whole
    answer goes into one message.
    """
    most = Range(minimum=0, maximum=LIMITS.max_top_candidates)
    found.check_number("output.top_candidates", message.top_candidates, most)
    token_ids = found.within("output.logits_token_ids", message.logits_token_ids, LIMITS.max_logits_token_ids)
    _check_logits(message, token_ids, model, found, is_whole=is_whole)
    read_tools(message.tools, "output.tools", model, found)
    return OutputOptions(
        records=asks_records(message),
        logprobs=asks_logprobs(message),
        num_candidates=message.top_candidates,
        show_special_tokens=message.show_special_tokens,
        pass_reports=message.pass_reports,
        rank=message.rank,
        entropy=message.entropy,
        logits=message.logits,
        logits_token_ids=tuple(token_ids),
        prompt_logprobs=message.prompt_logprobs,
    )


def asks_logprobs(message: common_pb2.OutputOptions) -> bool:
    """Whether the request wants the log-probability of each token of the answer."""
    return message.logprobs or message.top_candidates > 0


def asks_records(message: common_pb2.OutputOptions) -> bool:
    """Whether the request wants a record for each token of the answer."""
    return asks_logprobs(message) or any([message.token_records, message.rank, message.entropy, message.logits])


def _check_logits(
    message: common_pb2.OutputOptions,
    token_ids: Seq[int],
    model: ServedModel,
    found: Violations,
    *,
    is_whole: bool,
) -> None:
    """Logits of the whole vocabulary are many: one token's must fit a message, and a whole answer cannot have them."""
    field = "output.logits_token_ids"
    found.check_token_ids(field, token_ids, model.config.vocab_size)
    if token_ids and not message.logits:
        found.add(field, f"has {len(token_ids)} entries", "only with output.logits")
    if message.logits and not token_ids:
        if is_whole:
            found.add("output.logits", "is true", "in Generate only with logits_token_ids, else in StreamGenerate")
        elif 4 * model.config.vocab_size > MAX_RECORDS_BYTES:
            found.add("output.logits", "is true", f"with {model.config.vocab_size} tokens, only with logits_token_ids")
