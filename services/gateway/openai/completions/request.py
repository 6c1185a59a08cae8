"""CompletionRequest: the body of POST /v1/completions."""

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Annotated, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from outrider import GenerateOptions, Prompt
from services.gateway.generation.field_names import COMMON_NAMES
from services.gateway.generation.request import GenerationRequest
from services.gateway.openai.ignored import IgnoredFields, StreamOptions

_MOST_CHOICES = 128
Texts = str | list[str] | list[int] | list[list[int]]


class CompletionRequest(GenerationRequest, IgnoredFields):
    """A prompt, or several, and how to go on with each."""

    rpc_names: ClassVar[Mapping[str, str]] = {**COMMON_NAMES, "output.prompt_logprobs": "echo"}

    prompt: Texts = Field(description="Text or token ids, or several of them.")
    max_tokens: int | None = 16
    stop: str | list[str] | None = None
    n: Annotated[int, Field(ge=1)] | None = Field(1, validate_default=True)
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0)] | None = None
    stream_options: StreamOptions | None = None
    suffix: str | None = Field(None, description="Not served: the models continue texts and fill no gaps.")

    @field_validator("suffix")
    @classmethod
    def _no_suffix(cls, suffix: str | None) -> str | None:
        if suffix:
            raise ValueError("is not served: a text is continued, and no gap before a suffix is filled; leave it out")
        return suffix

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

    def prompts(self) -> Seq[Prompt]:
        """Each text, or each list of ids."""
        return _each(self.prompt)

    @property
    def samples(self) -> int:
        """Answers to each."""
        return self.n or 1

    def options(self) -> GenerateOptions:
        """Those that all have, and what is to be told of tokens; ids that are echoed are read from their records."""
        options = super().options()
        options["max_tokens"] = self.max_tokens
        options["stop"] = self.stop
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
