"""GenerationRequest: the fields that the requests of all APIs share, and their conversion to options of the RPC."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Annotated, Any, ClassVar, cast, get_type_hints

from pydantic import BeforeValidator, Field, ValidationInfo, create_model, field_validator

from outrider import GenerateOptions, Prompt
from services.gateway.generation.field_names import COMMON_NAMES, api_name
from services.gateway.generation.grammars import KINDS, GrammarFields
from services.gateway.generation.handling import OrMinusOne, PassedOver, Refused, refused_unless, same_as
from services.gateway.generation.part import Part

# Options that each API has in its own form, of conversations or of texts with gaps only, or that answers cannot report.
_OWN_FORM = {"max_tokens", "num_samples", "seed", "stop"}
_OF_CONVERSATIONS = {"tools", "tool_choice", "parallel_tool_calls", "template_variables", "message_deltas"}
_OF_CONVERSATIONS |= {"add_generation_prompt", "continue_final_message"}
_OF_TOKENS = {"logprobs", "top_candidates", "prompt_logprobs"}
_NOT_REPORTED = {"token_records", "pass_reports", "rank", "entropy", "logits", "logits_token_ids"}
_OF_INFILL = {"suffix", "infill_files"}
_OTHERS = _OF_INFILL | _OWN_FORM | _OF_CONVERSATIONS | _OF_TOKENS | _NOT_REPORTED | KINDS.keys()

_TYPES = get_type_hints(GenerateOptions)
_NAMES = tuple(name for name in _TYPES if name not in _OTHERS)
_FIELDS: dict[str, Any] = {name: (_TYPES[name], None) for name in _NAMES}
_Options: Any = create_model("Options", __base__=Part, **_FIELDS)


_BIAS = re.compile(r"^logit_bias\[(\d+)\].*")  # the RPC has a list, HTTP an object


def _zero_for_minus_one(value: object) -> object:
    return 0 if value == -1 else value


class GenerationRequest(_Options, GrammarFields, ABC):  # type: ignore[misc]
    """A request for text. Its fields are the options of the RPC, with the names and types of the Python client.

    The target checks ranges. `rpc_names` maps the field names in its errors to the names here.
    """

    rpc_names: ClassVar[Mapping[str, str]] = COMMON_NAMES
    reads_messages: ClassVar[bool] = False

    model: str | None = Field(None, description="The model's name. By default the first model.")
    stream: bool | None = None
    seed: OrMinusOne[Annotated[int, Field(ge=0, lt=1 << 64)]] = Field(None, description="By default a random seed.")
    top_k: Annotated[int | None, BeforeValidator(_zero_for_minus_one)] = Field(None, description="-1 and 0 keep all.")
    repeat_penalty: float | None = same_as("repetition_penalty")
    include_stop_str_in_output: bool | None = same_as("include_stop")
    no_stop_trim: bool | None = same_as("include_stop")
    cache_prompt: bool | None = same_as("prefix_cache")
    skip_special_tokens: bool | None = Field(None, description="The opposite of `show_special_tokens`.")
    spaces_between_special_tokens: PassedOver[bool] = None
    bad_words: Refused = None
    logits_processors: Refused = None
    return_hidden_states: Refused = None
    return_tokens_as_token_ids: Refused = None
    truncate_prompt_tokens: Refused = None
    use_beam_search: Refused = None
    early_stopping: Refused = None
    length_penalty: Annotated[Any, *refused_unless(1.0)] = None

    @field_validator("skip_special_tokens")
    @classmethod
    def _is_not_contradicted(cls, skips: bool | None, info: ValidationInfo) -> bool | None:
        if skips is not None and info.data.get("show_special_tokens") is not None:
            raise ValueError("is given beside show_special_tokens, its opposite; only one is allowed")
        return skips

    @abstractmethod
    def prompts(self) -> Seq[Prompt]:
        """Return the prompts, which are continued independently."""

    @property
    def samples(self) -> int:
        """The number of answers to each prompt."""
        return 1

    def name_of(self, path: str) -> str:
        """Return the API's name of a field of the RPC's request."""
        name = self.path_in_use(api_name(path, {**self.rpc_names, **self.grammar_names()}))
        return _BIAS.sub(lambda found: f'logit_bias["{[*self.logit_bias][int(found[1])]}"]', name)

    def options(self) -> GenerateOptions:
        """Return the client's options; the target decides those that are absent or None."""
        options: dict[str, Any] = {name: self.value_of(name) for name in _NAMES}
        options |= {grammar.kind: grammar.text for grammar in self.grammars()}
        if self.skip_special_tokens is not None:
            options["show_special_tokens"] = not self.skip_special_tokens
        if self.samples != 1:
            options["num_samples"] = self.samples
        return cast(GenerateOptions, {name: value for name, value in options.items() if value is not None})
