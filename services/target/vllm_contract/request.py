"""Requests: converts the contract's GenerateRequest for the generation service; unsupported fields are errors."""

from collections.abc import Mapping

from smg_grpc_proto.generated import vllm_engine_pb2

from outrider.v1 import common_pb2, generation_pb2
from services.engine.range import Range
from services.engine.sampling_params import SAMPLING_NUMBERS
from services.service.errors import InvalidRequestError
from services.service.validation import Violations
from services.target.contracts.field_names import ContractRequestError, check_fields, in_contract
from services.target.models.served_model import ServedModel
from services.target.vllm_contract.sampling import read_output, read_sampling, read_stops

_READ = {"request_id", "tokenized", "text", "sampling_params", "stream", "data_parallel_rank"}
_READ_OF_EMBEDDING = {"request_id", "tokenized"}
_READ_OF_SAMPLING = {
    *(number.name for number in SAMPLING_NUMBERS),
    "max_tokens",
    "min_tokens",
    "stop",
    "stop_token_ids",
    "skip_special_tokens",  # these two are for decoding, which the caller does in this contract
    "spaces_between_special_tokens",
    "ignore_eos",
    "n",
    "logprobs",
    "prompt_logprobs",
    "seed",
    "include_stop_str_in_output",
    "logit_bias",
    "grammar_from_first_token",  # grammars hold from there in any case
    "json_schema",
    "regex",
    "grammar",
    "structural_tag",
    "json_object",
    "choice",
}
_NAMES: Mapping[str, str] = {
    "prompt": "input",
    "prompt.text": "text",
    "prompt.token_ids.ids": "tokenized.input_ids",
    "inputs[0].token_ids.ids": "tokenized.input_ids",
    "sampling": "sampling_params",
    "stop": "sampling_params",
    "stop.strings": "sampling_params.stop",
    "stop.token_ids": "sampling_params.stop_token_ids",
    "grammar": "sampling_params",
    "grammar.lark": "sampling_params.grammar",
    "grammar.choice.texts": "sampling_params.choice.choices",
    "num_samples": "sampling_params.n",
}
_WITHOUT_PLACES = ["sampling_params.logit_bias"]  # which is a map
_PROMPT = "tokenized.input_ids"
_ANY_OBJECT = '{"type": "object"}'


def read_request(message: vllm_engine_pb2.GenerateRequest, model: ServedModel) -> generation_pb2.StreamGenerateRequest:
    """The request for the generation service, which checks the rest; raises InvalidRequestError."""
    found, params = Violations(), message.sampling_params
    check_fields(message, "", _READ, found)
    check_fields(params, "sampling_params.", _READ_OF_SAMPLING, found)
    found.check_number("data_parallel_rank", message.data_parallel_rank, Range(minimum=0, maximum=0))
    request = generation_pb2.StreamGenerateRequest(
        prompt=_read_prompt(message, model, found),
        sampling=read_sampling(params, found),
        stop=read_stops(params, found),
        output=read_output(params, found),
        grammar=_read_constraint(params, found),
        num_samples=_read_num_samples(params, model, found),
        request_id=message.request_id or None,
    )
    found.raise_if_any()
    return request


def read_embed_request(message: vllm_engine_pb2.EmbedRequest, model: ServedModel) -> generation_pb2.EmbedRequest:
    """The request for the generation service, which checks the rest; raises InvalidRequestError."""
    found = Violations()
    check_fields(message, "", _READ_OF_EMBEDDING, found)
    ids, most = message.tokenized.input_ids, model.context_length
    if not 0 < len(ids) <= most:  # before they are walked
        found.add(_PROMPT, f"is {len(ids)} tokens long", f"1 to {most}")
    found.raise_if_any()
    text = generation_pb2.TextToEmbed(token_ids=common_pb2.TokenIds(ids=ids))
    return generation_pb2.EmbedRequest(inputs=[text], request_id=message.request_id or None)


def in_words(error: InvalidRequestError) -> ContractRequestError:
    """The same violations under the contract's names."""
    return in_contract(error, _NAMES, _WITHOUT_PLACES)


def _read_prompt(
    message: vllm_engine_pb2.GenerateRequest, model: ServedModel, found: Violations
) -> common_pb2.Prompt | None:
    match message.WhichOneof("input"):
        case "text":
            return common_pb2.Prompt(text=message.text)
        case "tokenized":
            ids, most = message.tokenized.input_ids, model.context_length - 1
            if len(ids) > most:  # before they are walked
                found.add(_PROMPT, f"is {len(ids)} tokens long", f"at most {most}, so that there is room for one more")
                return None
            return common_pb2.Prompt(token_ids=common_pb2.TokenIds(ids=ids))
    found.add("input", "is not set", "tokenized or text")
    return None


def _read_num_samples(params: vllm_engine_pb2.SamplingParams, model: ServedModel, found: Violations) -> int:
    found.check_number("sampling_params.n", params.n or 1, Range(minimum=1, maximum=model.max_samples))
    return min(params.n or 1, model.max_samples)


def _read_constraint(message: vllm_engine_pb2.SamplingParams, found: Violations) -> common_pb2.Grammar | None:
    """The grammar of a constraint, if there is one that is supported; `grammar` is converted later (see GbnfReader)."""
    match message.WhichOneof("constraint"):
        case "json_schema":
            return common_pb2.Grammar(json_schema=message.json_schema)
        case "regex":
            return common_pb2.Grammar(regex=message.regex)
        case "grammar":
            return common_pb2.Grammar(lark=message.grammar)
        case "choice":
            return common_pb2.Grammar(choice=common_pb2.Choice(texts=message.choice.choices))
        case "json_object" if message.json_object:
            return common_pb2.Grammar(json_schema=_ANY_OBJECT)
        case "json_object":
            found.add("sampling_params.json_object", "is false", "true, or another constraint, or none")
        case "structural_tag":
            allowed = "json_schema, regex, grammar, choice or json_object"
            found.add("sampling_params.structural_tag", "is set", allowed)
    return None
