"""Constraint: converts the contract's constraint on an answer into a grammar of the generation service."""

from smg_grpc_proto.generated import vllm_engine_pb2

from outrider.v1 import common_pb2
from services.service.validation import Violations

_ANY_OBJECT = '{"type": "object"}'


def read_constraint(message: vllm_engine_pb2.SamplingParams, found: Violations) -> common_pb2.Grammar | None:
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
