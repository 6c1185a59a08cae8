"""outrider generate: prints a continuation as it streams."""

import argparse
import json
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import cast, get_args, get_type_hints

from outrider import (
    Client,
    GenerateOptions,
    Loop,
    MessageDelta,
    Prompt,
    Result,
    Token,
    ToolCall,
)
from services.cli.calls.ending import exit_code
from services.cli.calls.prompt import add_prompt, read_prompt
from services.cli.calls.readiness import add_client_options, ready_client
from services.cli.calls.result_text import TOKEN_HEADING, summary, token_rows
from services.cli.terminal import Terminal

_OTHER_NUMBERS = ("time_limit", "top_candidates", "num_predictions", "num_samples")
_NUMBERS = {
    name: get_args(hint)[0]
    for name, hint in get_type_hints(GenerateOptions).items()
    if hint in (int | None, float | None) and name not in _OTHER_NUMBERS
}
_GRAMMARS = ("json_schema", "regex", "lark", "choice")
_OPTIONS = (
    *("model", "lora", "session", "negative_prompt"),
    *_NUMBERS,
    *_GRAMMARS,
    *("prefer_end", "ignore_eos", "include_stop", "time_limit", "heal", "lookup"),
    *("top_candidates", "prompt_logprobs", "samplers"),
    *("tools", "tool_choice", "parallel_tool_calls", "template_variables"),
)
_FLAGS = {
    "heal": "resample the prompt's last token, among the tokens that begin with its text",
    "ignore-eos": "continue after an end-of-sequence token",
    "include-stop": "print the text or token that ended the answer",
    "logprobs": "list each token with its log-probabilities, its rank, and the entropy of its distribution",
    "prompt-logprobs": "also list the tokens of the prompt",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options of the command to the parser; the server decides those that are not given."""
    add_prompt(parser, "the text to continue")
    add_client_options(parser)
    parser.add_argument("--model", metavar="NAME", help="which of the server's models (default: its first)")
    parser.add_argument("--session", metavar="NAME", help="continue after the tokens of this session")
    parser.add_argument("--lora", metavar="NAME", help="which of the model's adapters (default: none)")
    parser.add_argument("--negative-prompt", metavar="TEXT", help="what --guidance-scale guides the text away from")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="end after this time, with the text so far")
    for name, kind in _NUMBERS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar="N" if kind is int else "X")
    parser.add_argument("--samplers", type=_read_names, metavar="A,B,…", help="the samplers to apply, in order")
    _add_ends(parser)
    parser.add_argument(
        "--no-lookup",
        dest="lookup",
        action="store_false",
        default=None,
        help="do not predict tokens from repetitions in the text",
    )
    _add_grammars(parser)
    _add_tools(parser)
    for name, description in _FLAGS.items():
        parser.add_argument(f"--{name}", action="store_true", default=None, help=description)
    parser.add_argument("--top-candidates", type=int, metavar="N", help="list the N best candidates below each token")


def _add_ends(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stop", action="append", metavar="TEXT", help="end before this text; several may be given")
    parser.add_argument(
        "--stop-on-loop",
        nargs=2,
        type=int,
        metavar=("WINDOW", "REPETITIONS"),
        help="end when the last WINDOW tokens repeat one run of tokens REPETITIONS times",
    )
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="let the server end the text by then")


def _add_grammars(parser: argparse.ArgumentParser) -> None:
    grammars = parser.add_mutually_exclusive_group()
    grammars.add_argument("--json-schema", metavar="JSON", help="generate a value of this schema")
    grammars.add_argument("--regex", metavar="REGEX", help="generate text that matches this")
    grammars.add_argument("--lark", metavar="GRAMMAR", help="generate text of this grammar's start rule")
    grammars.add_argument("--choice", action="append", metavar="TEXT", help="generate one of the texts given so")
    parser.add_argument("--prefer-end", action="store_true", default=None, help="end as soon as the grammar allows it")


def _add_tools(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("conversations", "with --chat")
    group.add_argument("--tools", type=_read_json, metavar="FILE", help="a JSON list of tools, as in OpenAI's API")
    group.add_argument("--tool-choice", metavar="CHOICE", help="auto, none, required, or the tool to call")
    group.add_argument(
        "--single-call",
        dest="parallel_tool_calls",
        action="store_false",
        default=None,
        help="allow at most one tool call",
    )
    group.add_argument(
        "--template-variables", type=json.loads, metavar="JSON", help='such as {"enable_thinking": false}'
    )


def _read_names(text: str) -> list[str]:
    return text.split(",")


def _read_json(path: str) -> object:
    return json.loads(Path(path).read_text())


def run(arguments: argparse.Namespace) -> int:
    """Generate one continuation; returns the exit code."""

    def act(out: Terminal, err: Terminal) -> int:
        result = _generate(arguments, out, err)
        _list((*result.prompt_records, *result.tokens), out)
        err.note(summary(result))
        return 0

    return exit_code("generate", act)


def _generate(arguments: argparse.Namespace, out: Terminal, err: Terminal) -> Result:
    prompt = read_prompt(arguments)
    with ready_client(arguments, err) as (client, readiness):
        return readiness.when_ready(lambda: _stream(client, prompt, arguments, out))


def _stream(client: Client, prompt: Prompt, arguments: argparse.Namespace, out: Terminal) -> Result:
    with client.stream(prompt, timeout=arguments.timeout, **_options(arguments)) as stream:
        try:
            for chunk in stream:
                out.text("".join(map(_shown, chunk.message_deltas)) if arguments.tools else chunk.text)
        except KeyboardInterrupt:
            out.text("\n")
            raise
    out.text("\n")
    return stream.result


def _shown(delta: MessageDelta) -> str:
    return f"{delta.name}({delta.arguments})\n" if isinstance(delta, ToolCall) else delta.text


def _list(tokens: Seq[Token], out: Terminal) -> None:
    if tokens:
        out.heading(TOKEN_HEADING)
    for row in token_rows(tokens):
        out.text(f"{row}\n")


def _options(arguments: argparse.Namespace) -> GenerateOptions:
    options = {name: getattr(arguments, name) for name in _OPTIONS}
    is_listed = bool(arguments.logprobs or arguments.prompt_logprobs or arguments.top_candidates)
    loop = arguments.stop_on_loop and Loop(*arguments.stop_on_loop)
    records = dict.fromkeys(("logprobs", "rank", "entropy"), is_listed or None)
    read = {"message_deltas": bool(arguments.tools) or None}
    return cast(GenerateOptions, {"stop": arguments.stop, "stop_on_loop": loop, **records, **options, **read})
