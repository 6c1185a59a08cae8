"""ChatTemplate: renders chat messages as the prompt text that a checkpoint was trained on."""

import logging
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.engine.files.checkpoint_error import CheckpointError
from services.engine.files.json_fields import JsonFields, shown
from services.engine.files.model_file import MIB
from services.engine.gguf.gguf_file import GgufFile, is_gguf
from services.engine.gguf.vocabulary import Vocabulary
from services.engine.worker_process import WorkerError, WorkerLimits, WorkerProcess
from services.target.prompt.template_source import TemplateSource

logger = logging.getLogger(__name__)

_MOST_SETTINGS_BYTES = 16 * MIB  # they may repeat all added tokens, with their flags
_LIMITS = WorkerLimits(cpu_seconds=1.0, seconds=10.0, memory=512 * MIB, answer_bytes=32 * MIB)
_COMMON = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_NAMED = ("model_specific_special_tokens", "extra_special_tokens")  # the latter may be a list too, without names
_SAMPLE = [
    {"role": "user", "content": "Hello!"},
    {"role": "assistant", "content": "Hello. What can I do?"},
    {"role": "user", "content": "Count to 10."},
]


class ChatTemplateError(ValueError):
    """The messages cannot be rendered: there is no template, it is broken, or it refuses them."""


class ChatTemplate:
    """One checkpoint's template, and the one for conversations with tools if it has another. Templates are untrusted
    programs, so they run in a worker process, see chat_renderer.py.

    The rendered text has its control tokens spelled out: encode it with `add_special_tokens=False`.
    """

    def __init__(self, source: TemplateSource | str | None, special_tokens: Mapping[str, str]) -> None:
        """`special_tokens` are variables of the template, such as `bos_token`; without a `source` nothing renders."""
        found = TemplateSource(source, "the chat template") if isinstance(source, str) else source
        self._where = "" if found is None else found.where
        self._named: Mapping[str, str] = {} if found is None else found.named
        self.special_tokens = dict(special_tokens)
        setup = {"sources": self._named, "special_tokens": self.special_tokens}
        self._worker = WorkerProcess("services.target.prompt.chat_renderer", setup, _LIMITS) if found else None

    @property
    def source(self) -> str:
        """The text of all templates; empty without one."""
        return "\n".join(self._named.values())

    @property
    def setting(self) -> str | list[dict[str, str]]:
        """The templates as tokenizer_config.json has them: a text, or a list of named ones."""
        if len(self._named) < 2:
            return self.source
        return [{"name": name, "template": text} for name, text in self._named.items()]

    @classmethod
    def from_model(cls, model: Path) -> "ChatTemplate":
        """Read the template of a folder or a GGUF file, if it has one; raises CheckpointError."""
        return cls.from_gguf(model) if is_gguf(model) else cls.from_folder(model)

    @classmethod
    def from_folder(cls, folder: Path) -> "ChatTemplate":
        """Read chat_template.jinja, or else the templates in tokenizer_config.json, if there are any.

        Raises CheckpointError for a file that cannot be used.
        """
        settings = JsonFields.from_file_if_any(folder / "tokenizer_config.json", most_bytes=_MOST_SETTINGS_BYTES)
        special_tokens = _read_special_tokens(settings)
        older = JsonFields.from_file_if_any(folder / "special_tokens_map.json")
        if "added_tokens_decoder" not in settings:  # as in transformers, which no longer writes this file
            special_tokens |= _read_special_tokens(older)
        return cls(TemplateSource.from_folder(folder, settings), special_tokens)

    @classmethod
    def from_gguf(cls, path: Path) -> "ChatTemplate":
        """Read the templates in a GGUF file's metadata, if there are any; raises CheckpointError."""
        metadata = GgufFile(path).metadata
        source = TemplateSource.from_metadata(metadata, path)
        return cls(source, Vocabulary(metadata).special_tokens() if source else {})

    @property
    def exists(self) -> bool:
        """Whether the checkpoint has a template."""
        return self._worker is not None

    @property
    def identity(self) -> str:
        """Everything from the checkpoint that rendered text depends on."""
        return repr((self.exists, self.source, sorted(self.special_tokens.items())))

    def try_out(self) -> None:
        """Render a small conversation; raises CheckpointError if the template is broken, or loops.

        If it only refuses these messages, its reason is logged as a warning.
        """
        if self._worker is None:
            return
        try:
            answer = self._worker.call({"messages": _SAMPLE, "add_generation_prompt": True})
        except WorkerError as error:
            raise CheckpointError(f"{self._where}: the chat template cannot render three messages: {error}") from error
        match answer:
            case {"unusable": problem}:
                raise CheckpointError(f"{self._where}: is not a usable chat template: {problem}")
            case {"problem": problem}:
                logger.warning("%s: the chat template refuses a sample conversation: %r", self._where, problem)

    def render(
        self,
        messages: Seq[Mapping[str, Any]],
        *,
        tools: Seq[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
    ) -> str:
        """Return the prompt for messages and tools, as in transformers' `apply_chat_template`.

        `variables` are further variables of the template. With `continue_final_message` the prompt ends where the last
        message does. Raises ChatTemplateError.
        """
        if self._worker is None:
            raise ChatTemplateError("this model has no chat template: send the prompt as text or token ids")
        question = {
            "messages": [dict(message) for message in messages],
            "tools": tools,
            "variables": dict(variables or {}),
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": continue_final_message,
        }
        try:
            answer = self._worker.call(question)
        except WorkerError as error:
            raise ChatTemplateError(f"the chat template cannot render the messages: {error}") from error
        match answer:
            case {"text": str(text)}:
                return text
            case {"problem": problem} | {"unusable": problem}:
                raise ChatTemplateError(f"the chat template refuses the messages: {problem}")
            case _:
                raise ChatTemplateError("the chat template gives no text")


def _read_special_tokens(settings: JsonFields) -> dict[str, str]:
    """Return the control tokens that the settings name, as in transformers: the common ones, those of the model's own
    that are fields such as `image_token`, and those of the objects in `_NAMED`.
    """
    tokens: dict[str, str] = {}
    for name in settings:
        value = settings.raw(name)
        if name.endswith("_token") and (token := _as_token(value)) is not None:
            tokens[name] = token
        elif name in _COMMON:
            raise settings.error(name, f"must be a string, or an object with its content, is {shown(value)}")
    for group in _NAMED:
        if isinstance(named := settings.raw(group), dict):
            tokens |= {name: _read_named(name, value, group, settings) for name, value in named.items()}
    return tokens


def _read_named(name: str, value: object, group: str, settings: JsonFields) -> str:
    if (token := _as_token(value)) is None:
        raise settings.error(group, f"must have strings or objects with their content, has {shown({name: value})}")
    return token


def _as_token(value: object) -> str | None:
    """A token, which is a string or an object with its content; None for anything else."""
    match value:
        case str(token) | {"content": str(token)}:
            return token
    return None


@dataclass(frozen=True, slots=True)
class Conversation:
    """The arguments of `ChatTemplate.render`."""

    messages: Seq[Mapping[str, Any]]
    tools: Seq[Mapping[str, Any]] | None = None
    variables: Mapping[str, Any] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False

    def render(self, template: ChatTemplate) -> str:
        """The prompt text; raises ChatTemplateError."""
        return template.render(
            self.messages,
            tools=self.tools,
            variables=self.variables,
            add_generation_prompt=self.add_generation_prompt,
            continue_final_message=self.continue_final_message,
        )
