"""The header by which prompts with the same beginning find the same server."""

import pytest

from outrider.generate_options import GenerateOptions
from outrider.request import Prompt, build_stream_request
from outrider.servers.pool import PREFIX_HEADER, prefix_metadata

LONG = "The same beginning of many prompts. " * 40


def header(prompt: Prompt, options: GenerateOptions | None = None) -> str:
    ((name, value),) = prefix_metadata(build_stream_request(prompt, options or {}))
    assert name == PREFIX_HEADER
    return value


def chat(*contents: str) -> list[dict[str, str]]:
    return [{"role": "system" if index == 0 else "user", "content": each} for index, each in enumerate(contents)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LONG + "one", LONG + "another, which is longer"),
        ([*range(300), 1], [*range(300), 2, 3]),
        (chat(LONG, "one"), chat(LONG, "another")),
        (chat(LONG + "one"), chat(LONG + "another")),
    ],
)
def test_prompts_that_begin_alike_have_one_header(one: Prompt, other: Prompt):
    assert header(one) == header(other) == header(one, {"seed": 5, "max_tokens": 3})


@pytest.mark.parametrize(
    ("one", "other"),
    [("a" + LONG, "b" + LONG), ([1, *range(300)], [2, *range(300)]), (chat("a"), chat("b")), ("", "a")],
)
def test_prompts_with_other_beginnings_have_other_headers(one: Prompt, other: Prompt):
    assert header(one) != header(other)
