"""The prompt among a command's options: a text, which may come through a pipe, or a user's message."""

import argparse
import sys

from outrider import Message, Prompt


def add_prompt(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add the prompt and how to send it."""
    parser.add_argument("prompt", help=f'{purpose}; "-" reads it from standard input')
    parser.add_argument("--chat", action="store_true", help="send the prompt as a user's message in a conversation")


def read_prompt(arguments: argparse.Namespace) -> Prompt:
    """What the options give; raises OSError, and ValueError for input that is no text."""
    text = read_text(arguments.prompt)
    return [Message("user", text)] if arguments.chat else text


def read_text(text: str) -> str:
    """A text as it was given, or the standard input."""
    return sys.stdin.read() if text == "-" else text
