"""The prompt among a command's options: a text, possibly from a pipe, or a user's message."""

import argparse
import sys

from outrider import Message, Prompt


def add_prompt(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add the prompt, and the option that sends it as a message."""
    parser.add_argument("prompt", help=f'{purpose}; "-" reads it from standard input')
    parser.add_argument("--chat", action="store_true", help="send the prompt as a user's message in a conversation")


def read_prompt(arguments: argparse.Namespace) -> Prompt:
    """Return the prompt of the options; raises OSError, and ValueError for input that is no text."""
    text = read_text(arguments.prompt)
    return [Message("user", text)] if arguments.chat else text


def read_text(text: str) -> str:
    """Return the text as it was given, or the standard input for "-"."""
    return sys.stdin.read() if text == "-" else text
