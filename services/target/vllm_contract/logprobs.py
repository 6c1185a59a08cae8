"""Logprobs: writes token records as the contract's lists."""

from collections.abc import Iterable

from smg_grpc_proto.generated import vllm_engine_pb2

from outrider.v1 import common_pb2

Records = Iterable[common_pb2.TokenRecord]


def write_output_logprobs(records: Records, num_top: int) -> vllm_engine_pb2.OutputLogProbs:
    """The model's own log-probabilities of generated tokens, and `num_top` candidates for each."""
    logprobs = vllm_engine_pb2.OutputLogProbs()
    for record in records:
        logprobs.token_ids.append(record.id)
        logprobs.token_logprobs.append(record.raw_logprob)
        if num_top:
            logprobs.top_logprobs.append(_write_top(record, num_top))
    return logprobs


def write_input_logprobs(records: Records, num_top: int) -> vllm_engine_pb2.InputLogProbs:
    """The log-probabilities of the prompt's tokens; the first token has none."""
    logprobs = vllm_engine_pb2.InputLogProbs()
    for record in records:
        value = record.raw_logprob if record.HasField("raw_logprob") else None
        logprobs.token_ids.append(record.id)
        logprobs.token_logprobs.add(value=value)
        if num_top:
            logprobs.top_logprobs.append(_write_top(record, num_top))
    return logprobs


def _write_top(record: common_pb2.TokenRecord, num_top: int) -> vllm_engine_pb2.TopLogProbs:
    candidates = record.candidates[:num_top]
    return vllm_engine_pb2.TopLogProbs(
        values=[candidate.raw_logprob for candidate in candidates],
        token_ids=[candidate.id for candidate in candidates],
    )
