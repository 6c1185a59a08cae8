"""outrider generate: prints a continuation as it streams."""

import argparse
import sys
from pathlib import Path
from typing import cast

import grpc

from outrider import Client, GenerateOptions, InvalidArgument, Message, OutriderError, Prompt, Result, Token
from services.cli.figures import figures
from services.cli.terminal import Terminal

_INTERRUPTED, _UNREAD = 130, 141  # as shells report a process that SIGINT or SIGPIPE ended
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")
_GRAMMARS = ("json_schema", "regex", "lark", "choice")
_OPTIONS = ("max_tokens", "min_tokens", "ignore_eos", "logprobs", *_SAMPLING, *_GRAMMARS)
_RETRIES = 5  # of an address that does not answer, about three seconds


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add all options; what is not given is left to the server."""
    parser.add_argument("prompt", help='the text to continue; "-" reads it from standard input')
    parser.add_argument(
        "--address", action="append", metavar="HOST:PORT", help="a server; several may be given (localhost:50051)"
    )
    parser.add_argument("--tls-ca", type=Path, metavar="FILE", help="call over TLS, trusting these certificates (PEM)")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="end after this time with what there is")
    parser.add_argument("--chat", action="store_true", help="send the prompt as a user's message in a conversation")
    for name in ("max-tokens", "min-tokens", "top-k", "seed"):
        parser.add_argument(f"--{name}", type=int, metavar="N")
    for name in ("temperature", "top-p", "min-p"):
        parser.add_argument(f"--{name}", type=float, metavar="X")
    parser.add_argument("--stop", action="append", metavar="TEXT", help="end before this text; several may be given")
    grammars = parser.add_mutually_exclusive_group()
    grammars.add_argument("--json-schema", metavar="JSON", help="write a value of this schema")
    grammars.add_argument("--regex", metavar="REGEX", help="write what this matches")
    grammars.add_argument("--lark", metavar="GRAMMAR", help="write what this grammar's start derives")
    grammars.add_argument("--choice", action="append", metavar="TEXT", help="write this; or one of several")
    parser.add_argument("--ignore-eos", action="store_true", default=None, help="go on after an end-of-sequence token")
    parser.add_argument("--logprobs", action="store_true", default=None, help="list every token with its probability")


def run(arguments: argparse.Namespace) -> int:
    """Generate once; returns the exit code."""
    out, err = Terminal(sys.stdout), Terminal(sys.stderr)
    try:
        result = _generate(arguments, out)
    except InvalidArgument as error:
        for violation in error.violations:
            err.error(f"{violation.field} {violation.description}")
        if not error.violations:
            err.error(str(error))
        return 1
    except BrokenPipeError:
        out.discard()
        return _UNREAD
    except (OutriderError, OSError, ValueError) as error:
        err.error(f"outrider generate: {error}")
        return 1
    except KeyboardInterrupt:
        out.text("\n")
        return _INTERRUPTED
    if arguments.logprobs:
        for token in result.tokens:
            out.text(_describe(token))
    err.note(figures(result))
    return 0


def _generate(arguments: argparse.Namespace, out: Terminal) -> Result:
    credentials = None
    if arguments.tls_ca is not None:
        credentials = grpc.ssl_channel_credentials(arguments.tls_ca.read_bytes())
    addresses = arguments.address or ["localhost:50051"]
    with Client(*addresses, credentials=credentials, max_retries=_RETRIES) as client:
        with client.stream(_prompt(arguments), timeout=arguments.timeout, **_options(arguments)) as stream:
            for chunk in stream:
                out.text(chunk.text)
        out.text("\n")
        return stream.result


def _prompt(arguments: argparse.Namespace) -> Prompt:
    text: str = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    return [Message("user", text)] if arguments.chat else text


def _options(arguments: argparse.Namespace) -> GenerateOptions:
    options = {name: getattr(arguments, name) for name in _OPTIONS}
    return cast(GenerateOptions, {"stop": arguments.stop, **options})


def _describe(token: Token) -> str:
    raw, processed = token.raw_logprob, token.processed_logprob
    return f"{token.id:>7}  {raw:>9.4f}  {processed:>9.4f}  {token.text!r}\n"
