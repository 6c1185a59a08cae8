"""The worker process that runs chat templates: jinja2's sandbox, with the helpers that templates expect."""

import datetime as dt
import json
from collections.abc import Callable
from typing import Any, Never

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from services.engine.worker_process import serve
from services.target.prompt.template_chat import TemplateChat
from services.target.prompt.template_forms import TemplateForms

Answer = dict[str, str]  # `text`, or the `problem` with the messages, or why the template is `unusable`


def main() -> None:
    """Render the conversations that standard input sends."""
    serve(make_renderer)


def make_renderer(setup: dict[str, Any]) -> Callable[[dict[str, Any]], Answer]:
    """A function that renders one template: `setup` has its `source`, and `special_tokens` as its variables."""
    try:
        template = _environment().from_string(setup["source"])
    except MemoryError:
        raise
    except Exception as error:  # jinja2 raises more than its own errors when it cannot compile
        problem = f"{type(error).__name__}: {_as_text(error)}"
        return lambda _: {"unusable": problem}

    def write(variables: dict[str, Any]) -> str:
        defaults = {"tools": None, "documents": None, **setup["special_tokens"]}
        return template.render({**defaults, **variables})

    forms = TemplateForms(write)

    def render(question: dict[str, Any]) -> Answer:
        try:
            text = TemplateChat(question, forms).render(write)
            text.encode()  # raises for half a surrogate pair
        except MemoryError:
            raise
        except Exception as error:  # a template is a program: it can fail in any way
            return {"problem": _as_text(error)}
        return {"text": text}

    return render


def _as_text(error: Exception) -> str:
    return str(error).encode(errors="replace").decode()


class _GenerationTag(Extension):
    """Supports `{% generation %}`, which marks the assistant's text for training and renders as its content."""

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
    """Unlike jinja2's own filter, leave HTML characters and non-ASCII letters as they are."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> Never:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return dt.datetime.now().astimezone().strftime(pattern)
