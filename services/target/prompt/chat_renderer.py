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
from services.target.prompt.template_forms import TemplateForms, Write

Answer = dict[str, str]  # `text`, or the `problem` with the messages, or why the template is `unusable`


def main() -> None:
    """Render the conversations that standard input sends."""
    serve(make_renderer)


def make_renderer(setup: dict[str, Any]) -> Callable[[dict[str, Any]], Answer]:
    """A function that renders conversations: `setup` has the `sources` of templates, those with tools by that named
    `tool_use` if there is one, and `special_tokens` as their variables.
    """
    try:
        writes = {name: _write_of(source, setup["special_tokens"]) for name, source in setup["sources"].items()}
    except MemoryError:
        raise
    except Exception as error:  # jinja2 raises more than its own errors when it cannot compile
        problem = f"{type(error).__name__}: {_as_text(error)}"
        return lambda _: {"unusable": problem}
    forms = {name: TemplateForms(write) for name, write in writes.items()}

    def render(question: dict[str, Any]) -> Answer:
        name = "tool_use" if question.get("tools") and "tool_use" in writes else "default"
        try:
            text = TemplateChat(question, forms[name]).render(writes[name])
            text.encode()  # raises for half a surrogate pair
        except MemoryError:
            raise
        except Exception as error:  # a template is a program: it can fail in any way
            return {"problem": _as_text(error)}
        return {"text": text}

    return render


def _write_of(source: str, special_tokens: dict[str, str]) -> Write:
    template = _environment().from_string(source)

    def write(variables: dict[str, Any]) -> str:
        return template.render({"tools": None, "documents": None, **special_tokens, **variables})

    return write


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
