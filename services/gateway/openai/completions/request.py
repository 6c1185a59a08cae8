"""CompletionRequest: the body of POST /v1/completions."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Annotated, ClassVar, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from outrider import GenerateOptions, Prompt
from services.gateway.generation.field_names import COMMON_NAMES
from services.gateway.generation.handling import OrMinusOne, same_as
from services.gateway.generation.problem import Kind, Problem
from services.gateway.generation.request import GenerationRequest
from services.gateway.openai.answer_fields import AnswerFields
from services.gateway.openai.formatted_answer import FormattedAnswer
from services.gateway.openai.ignored import IgnoredFields

_MOST_CHOICES = 128
Texts = str | list[str] | list[int] | list[list[int]]


class CompletionRequest(FormattedAnswer, GenerationRequest, AnswerFields, IgnoredFields):
    """One or several prompts, and the options of their continuations."""

    rpc_names: ClassVar[Mapping[str, str]] = {**COMMON_NAMES, "output.prompt_logprobs": "echo"}

    prompt: Texts = Field(description="Text or token ids, or several of them.")
    max_tokens: OrMinusOne[int] = Field(16, description="0 is allowed with `echo`: the answer is the prompt alone.")
    n_predict: OrMinusOne[int] = same_as("max_tokens")
    stop: str | list[str] | None = None
    n: Annotated[int, Field(ge=1)] | None = Field(1, validate_default=True)
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0)] | None = None
    suffix: str | None = Field(None, description="The text after the gap that the model fills in.")
    infill_files: Seq[tuple[str, str]] | None = Field(None, description="Names and texts of files before a gap.")

    @field_validator("prompt")
    @classmethod
    def _is_some(cls, prompt: Texts) -> Texts:
        if not prompt and not isinstance(prompt, str):
            raise ValueError("is empty; allowed: a text, token ids, or several of either")
        return prompt

    @field_validator("n")
    @classmethod
    def _is_bounded(cls, n: int | None, info: ValidationInfo) -> int | None:
        choices = len(_each(info.data.get("prompt", ""))) * max(n or 1, info.data.get("best_of") or 1)
        if choices > _MOST_CHOICES:
            raise ValueError(f"asks for {choices} answers to all prompts; allowed: at most {_MOST_CHOICES}")
        return n

    @model_validator(mode="after")
    def _has_an_answer(self) -> Self:
        if self.value_of("max_tokens") == 0 and not self.echo:
            name = self.name_in_use("max_tokens")
            raise Problem(Kind.INVALID, f"{name}: is 0, which needs echo to be true; allowed: at least 1", name)
        return self

    @property
    def is_only_echoed(self) -> bool:
        """Whether the answer is the prompt alone, with its log-probabilities if requested."""
        return bool(self.value_of("max_tokens") == 0)

    def prompts(self) -> Seq[Prompt]:
        """Return the prompts, each a text or a list of ids."""
        return _each(self.prompt)

    @property
    def samples(self) -> int:
        """The number of answers to each prompt."""
        return self.n or 1

    def options(self) -> GenerateOptions:
        """Return the common options, and those of what to report of tokens.

        The text of an echoed prompt of ids is taken from its records. The RPC generates at least one token.
        """
        options = super().options()
        options["max_tokens"] = 1 if self.is_only_echoed else self.value_of("max_tokens")
        options["stop"] = self.stop
        options["suffix"] = self.suffix or None
        options["infill_files"] = self.infill_files
        if self.logprobs is not None:
            options["logprobs"] = True
            options["top_candidates"] = self.logprobs
        if self.echo and (self.logprobs is not None or not all(isinstance(one, str) for one in self.prompts())):
            options["prompt_logprobs"] = True
        return options


def _each(prompt: Texts) -> Seq[Prompt]:
    if isinstance(prompt, str):
        return (prompt,)
    return (prompt,) if isinstance(prompt[0], int) else prompt
