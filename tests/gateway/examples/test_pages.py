"""The Python of the pages to begin with runs as it stands there."""

import contextlib
import io
import re

import pytest

from outrider import Client
from scripts.example_environments import ROOT
from tests.harness.servers.server import RunningTarget

_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def said_by(page: str, demo: RunningTarget) -> str:
    """What the examples of a page print, with the demo target where the page has its server."""
    said = io.StringIO()
    for example in _PYTHON.findall((ROOT / page).read_text()):
        with contextlib.redirect_stdout(said):
            exec(compile(example.replace("localhost:50051", demo.address), page, "exec"), {})
    return said.getvalue()


def test_the_developer_page_prints_the_servers_answers(demo: RunningTarget):
    said = said_by("docs/start/developer.md", demo)
    with Client(demo.address) as client:
        first = client.generate("def average(numbers):\n", max_tokens=60, temperature=0)
        second = client.generate("import os\n", max_tokens=40, seed=7)
    assert said.startswith(f"{first.text} {first.finish_reason} {first.usage.completion_tokens}\n{second.text}")
    assert said.endswith("sampling.temperature\n")


def test_the_researcher_page_finds_the_same_tokens_without_draft(demo: RunningTarget):
    said = said_by("docs/start/researcher.md", demo)
    assert re.search(r"^'.+' -\d+\.\d{4} \d\.\d{3} predicted$", said, re.MULTILINE)
    assert re.search(r"^\d+ of \d+$", said, re.MULTILINE)


@pytest.fixture(autouse=True)
def _all_is_free(demo: RunningTarget):
    yield
    demo.assert_all_free()
