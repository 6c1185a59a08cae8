"""outrider generate: prints a continuation as it streams."""

import argparse
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import cast

from outrider import Client, GenerateOptions, Loop, MessageDelta, Prompt, Result, Token, ToolCall, ToolCallStart
from services.cli.calls.ending import exit_code
from services.cli.calls.generate_options import add_options
from services.cli.calls.prompt import read_prompt
from services.cli.calls.readiness import ready_client
from services.cli.calls.result_text import TOKEN_HEADING, summary, token_rows
from services.cli.terminal import Terminal

__all__ = ["add_options", "run"]


def run(arguments: argparse.Namespace) -> int:
    """Generate one continuation; returns the exit code."""

    def act(out: Terminal, err: Terminal) -> int:
        result = _generate(arguments, out, err)
        _list((*result.prompt_records, *result.tokens), out)
        err.note(summary(result))
        if arguments.proof is not None:
            _write_proof(result, arguments.proof)
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


def _write_proof(result: Result, path: Path) -> None:
    if result.proof is None:
        raise ValueError("--proof: the server is older, and sends none")
    path.write_text(result.proof.to_json() + "\n")


def _shown(delta: MessageDelta) -> str:
    match delta:
        case ToolCallStart(name):
            return f"{name}("
        case ToolCall():
            return ")\n"
        case _:
            return delta.text


def _list(tokens: Seq[Token], out: Terminal) -> None:
    if tokens:
        out.heading(TOKEN_HEADING)
    for row in token_rows(tokens):
        out.text(f"{row}\n")


def _options(arguments: argparse.Namespace) -> GenerateOptions:
    options = {name: value for name, value in vars(arguments).items() if name in GenerateOptions.__optional_keys__}
    is_listed = bool(arguments.logprobs or arguments.prompt_logprobs or arguments.top_candidates)
    loop = arguments.stop_on_loop and Loop(*arguments.stop_on_loop)
    records = dict.fromkeys(("logprobs", "rank", "entropy"), is_listed or None)
    read = {"message_deltas": bool(arguments.tools) or None}
    return cast(GenerateOptions, {**options, "stop_on_loop": loop, **records, **read})
