"""GenerationRequest: the fields that the requests of all APIs share, and what they say to the RPC."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Annotated, Any, ClassVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationInfo, create_model, field_validator
from pydantic_core import CoreSchema

from outrider import GenerateOptions, Prompt
from services.gateway.generation.field_names import COMMON_NAMES, api_name

# What each API asks for in its own way, or conversations have, or what its objects have no place for.
_ASKED_OTHERWISE = {"max_tokens", "num_samples", "seed", "stop"}
_OF_CONVERSATIONS = {"tools", "tool_choice", "parallel_tool_calls", "template_variables", "message_deltas"}
_OF_CONVERSATIONS |= {"add_generation_prompt", "continue_final_message"}
_OF_TOKENS = {"logprobs", "top_candidates", "prompt_logprobs"}
GRAMMARS = ("json_schema", "regex", "lark", "choice")
_OF_ENTRIES = ("list", "tuple", "set", "frozenset")  # the kinds of schemas
_UNTOLD = {"token_records", "pass_reports", "rank", "entropy", "logits", "logits_token_ids"}


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
    """A part of a request: what it does not name is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler) -> CoreSchema:
        """As pydantic has it, but a list is at fault with the first of its entries that is, not once for each."""
        schema = handler(source)
        _fail_fast(schema)
        return schema


_TYPES = get_type_hints(GenerateOptions)
_NAMES = tuple(name for name in _TYPES if name not in _ASKED_OTHERWISE | _OF_CONVERSATIONS | _OF_TOKENS | _UNTOLD)
_FIELDS: dict[str, Any] = {name: (_TYPES[name], None) for name in _NAMES}
_Options: Any = create_model("Options", __base__=Part, **_FIELDS)


def only_grammar(grammar: object, info: ValidationInfo) -> object:
    """What a field says of the form of an answer; raises ValueError where another one has said it already."""
    if others := [name for name in GRAMMARS if name != info.field_name and info.data.get(name) is not None]:
        raise ValueError(f"is given beside {others[0]}; an answer follows one of them")
    return grammar


class GenerationRequest(_Options, ABC):  # type: ignore[misc]
    """A request for text. The options of the RPC are fields, under the names and types that the client has for them.

    Ranges are the target's to check: it names what is wrong, and `rpc_names` says what that is called here.
    """

    rpc_names: ClassVar[Mapping[str, str]] = COMMON_NAMES
    reads_messages: ClassVar[bool] = False

    model: str | None = Field(None, description="The model's name; without it, the first that is served.")
    stream: bool | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] | None = Field(None, description="By default one that is drawn.")

    @field_validator(*GRAMMARS)
    @classmethod
    def _is_the_only_one(cls, grammar: object, info: ValidationInfo) -> object:
        return grammar if grammar is None else only_grammar(grammar, info)

    @abstractmethod
    def prompts(self) -> Seq[Prompt]:
        """What is to be continued, each by itself."""

    @property
    def samples(self) -> int:
        """Answers to each prompt."""
        return 1

    def name_of(self, path: str) -> str:
        """What the API calls a field of the RPC's request."""
        given = next((name for name in GRAMMARS if getattr(self, name) is not None), None)
        ours = {} if given is None else {"grammar": given, f"grammar.{given}": given}
        return api_name(path, {**self.rpc_names, **ours})

    def options(self) -> GenerateOptions:
        """How, as the client takes it; what is None is the target's to choose."""
        options = GenerateOptions()
        for name in _NAMES:
            if (value := getattr(self, name)) is not None:
                options[name] = value  # type: ignore[literal-required]
        if self.samples != 1:
            options["num_samples"] = self.samples
        return options
