"""ChatTemplate: chat messages to the prompt text that a checkpoint was trained on."""

import datetime
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Never

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from services.engine.checkpoint_error import CheckpointError
from services.engine.json_fields import JsonFields


class ChatTemplateError(ValueError):
    """The messages cannot be rendered: there is no template, it is broken, or it refuses them."""


class ChatTemplate:
    """One checkpoint's template, run in jinja2's sandbox with the helpers that templates expect.

    The text it renders has its control tokens written out: encode it with `add_special_tokens=False`.
    """

    def __init__(self, source: str | None, special_tokens: Mapping[str, str]) -> None:
        """`special_tokens` are variables of the template, such as `bos_token`; `source` None renders nothing."""
        self._source = source
        self._special_tokens = dict(special_tokens)

    @classmethod
    def from_folder(cls, folder: Path) -> "ChatTemplate":
        """Read chat_template.jinja, or else the template in tokenizer_config.json, if there is either."""
        settings = JsonFields.from_file_if_any(folder / "tokenizer_config.json")
        return cls(_read_source(folder / "chat_template.jinja", settings), _read_special_tokens(settings))

    @property
    def exists(self) -> bool:
        """Whether the checkpoint has a template at all."""
        return self._source is not None

    def render(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True) -> str:
        """Return the prompt for messages of `role` and `content`; raises ChatTemplateError."""
        if self._source is None:
            raise ChatTemplateError("this model has no chat template: send the prompt as text or token ids")
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                add_generation_prompt=add_generation_prompt,
                tools=None,
                documents=None,
                **self._special_tokens,
            )
        except Exception as error:  # a template is a program: it can fail in any way
            raise ChatTemplateError(f"the chat template refuses the messages: {error}") from error

    @functools.cached_property
    def _template(self) -> jinja2.Template:
        assert self._source is not None
        return _environment().from_string(self._source)


class _GenerationTag(Extension):
    """Lets `{% generation %}` through: it marks the assistant's words for training and renders as its content."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationTag]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike jinja2's own filter, leave HTML characters and letters beyond ASCII as they are."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> Never:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.datetime.now().astimezone().strftime(pattern)


def _read_source(path: Path, settings: JsonFields) -> str | None:
    if path.exists():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{path}: cannot be read: {error}") from error
    match settings.raw("chat_template"):
        case None:
            return None
        case str(source):
            return source
        case list(named):
            return next(filter(None, map(_read_default, named)), None)
        case value:
            raise settings.error("chat_template", f"must be a template or a list of named ones, is {value!r}")


def _read_default(entry: object) -> str | None:
    match entry:
        case {"name": "default", "template": str(source)}:
            return source
    return None


def _read_special_tokens(settings: JsonFields) -> dict[str, str]:
    """Return the control tokens that the settings name; one is a string, or an object with its `content`."""
    tokens: dict[str, str] = {}
    for name in ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"):
        match settings.raw(name):
            case str(token) | {"content": str(token)}:
                tokens[name] = token
    return tokens
