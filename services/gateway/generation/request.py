"""GenerationRequest: the fields that the requests of all APIs share, and their conversion to options of the RPC."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Annotated, Any, ClassVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationInfo, create_model, field_validator
from pydantic_core import CoreSchema

from outrider import GenerateOptions, Prompt
from services.gateway.generation.field_names import COMMON_NAMES, api_name

# Options that each API has in its own form, that only conversations have, or that its answers cannot report.
_OWN_FORM = {"max_tokens", "num_samples", "seed", "stop"}
_OF_CONVERSATIONS = {"tools", "tool_choice", "parallel_tool_calls", "template_variables", "message_deltas"}
_OF_CONVERSATIONS |= {"add_generation_prompt", "continue_final_message"}
_OF_TOKENS = {"logprobs", "top_candidates", "prompt_logprobs"}
GRAMMARS = ("json_schema", "regex", "lark", "choice")
_OF_ENTRIES = ("list", "tuple", "set", "frozenset")  # kinds of pydantic schemas
_NOT_REPORTED = {"token_records", "pass_reports", "rank", "entropy", "logits", "logits_token_ids"}


def _fail_fast(schema: object) -> None:
    if isinstance(schema, dict):
        if schema.get("type") in _OF_ENTRIES:
            schema["fail_fast"] = True
        for part in schema.values():
            _fail_fast(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            _fail_fast(part)


class Part(BaseModel):
    """A part of a request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return pydantic's schema, changed so that a list fails at its first bad entry instead of listing all."""
        schema = handler(source)
        _fail_fast(schema)
        return schema


_TYPES = get_type_hints(GenerateOptions)
_NAMES = tuple(name for name in _TYPES if name not in _OWN_FORM | _OF_CONVERSATIONS | _OF_TOKENS | _NOT_REPORTED)
_FIELDS: dict[str, Any] = {name: (_TYPES[name], None) for name in _NAMES}
_Options: Any = create_model("Options", __base__=Part, **_FIELDS)


def only_grammar(grammar: object, info: ValidationInfo) -> object:
    """Return a field's grammar; raises ValueError if another field has given a grammar already."""
    if others := [name for name in GRAMMARS if name != info.field_name and info.data.get(name) is not None]:
        raise ValueError(f"is given beside {others[0]}; only one grammar is allowed")
    return grammar


class GenerationRequest(_Options, ABC):  # type: ignore[misc]
    """A request for text. Its fields are the options of the RPC, with the names and types of the Python client.

    The target checks ranges. `rpc_names` maps the field names in its errors to the names here.
    """

    rpc_names: ClassVar[Mapping[str, str]] = COMMON_NAMES
    reads_messages: ClassVar[bool] = False

    model: str | None = Field(None, description="The model's name. By default the first model.")
    stream: bool | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] | None = Field(None, description="By default a random seed.")

    @field_validator(*GRAMMARS)
    @classmethod
    def _is_the_only_one(cls, grammar: object, info: ValidationInfo) -> object:
        return grammar if grammar is None else only_grammar(grammar, info)

    @abstractmethod
    def prompts(self) -> Seq[Prompt]:
        """Return the prompts, which are continued independently."""

    @property
    def samples(self) -> int:
        """The number of answers to each prompt."""
        return 1

    def name_of(self, path: str) -> str:
        """Return the API's name of a field of the RPC's request."""
        given = next((name for name in GRAMMARS if getattr(self, name) is not None), None)
        ours = {} if given is None else {"grammar": given, f"grammar.{given}": given}
        return api_name(path, {**self.rpc_names, **ours})

    def options(self) -> GenerateOptions:
        """Return the client's options; the target decides those that are absent or None."""
        options = GenerateOptions()
        for name in _NAMES:
            if (value := getattr(self, name)) is not None:
                options[name] = value  # type: ignore[literal-required]
        if self.samples != 1:
            options["num_samples"] = self.samples
        return options
