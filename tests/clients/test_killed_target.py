"""A target that is killed under the clients of all languages at once, and the same bytes from another one."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from outrider import Client, Result
from tests.clients.conftest import SECONDS, CommandOf
from tests.clients.records import float_bits, logprobs
from tests.clients.toolchains import TOOLCHAINS
from tests.e2e.draft_rig import PROMPT, Service, serving
from tests.e2e.models import DEMO_TARGET

RESUMING = [name for name, toolchain in TOOLCHAINS.items() if toolchain.resumes]
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
OPTIONS = {"max_tokens": 400, "temperature": 0.9, "seed": 2**64 - 3}


@pytest.fixture
def targets(tmp_path: Path) -> Iterator[list[Service]]:
    """Two in processes of their own, which are never far ahead of who reads them."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    services = [Service("target", DEMO_TARGET, folder, "--stream-capacity", "8", "--no-lookup") for folder in folders]
    with serving(services):
        yield services


@pytest.fixture
def commands(command_of: CommandOf) -> dict[str, list[str]]:
    """What starts the clients that can be built here."""
    found = {}
    for language in RESUMING:
        try:
            found[language] = command_of(language)
        except pytest.skip.Exception:  # which test_resume tells
            continue
    if not found:
        pytest.skip(
            "no client that resumes can be built here, so none is TESTED; `make client-deps` installs the tools"
        )
    return found


def test_the_bytes_ids_and_logprobs_are_the_same(
    targets: list[Service], commands: dict[str, list[str]], tmp_path: Path
) -> None:
    first, second = targets
    with Client(second.address) as client:
        alone = client.generate(PROMPT, logprobs=True, **OPTIONS)
    addresses = [f"--address={target.address}" for target in targets]
    with ExitStack() as running:
        clients, begun = {}, {}
        for language, command in commands.items():  # the slowest to start comes first
            client = running.enter_context(start([*command, *addresses, f"--logprobs={tmp_path / language}"]))
            assert client.stdout is not None
            clients[language], begun[language] = client, client.stdout.read(1)
        first.kill()
        assert clients[language].poll() is None
        for language, client in clients.items():
            rest, figures = client.communicate(timeout=SECONDS)
            assert client.returncode == 0, figures
            check(alone, (begun[language] + rest).decode(), tmp_path / language)


@contextmanager
def start(command: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    options = [f"--{name.replace('_', '-')}={value}" for name, value in OPTIONS.items()]
    with subprocess.Popen([*command, *options, PROMPT], bufsize=0, **PIPES) as client:
        try:
            yield client
        finally:
            client.kill()


def check(alone: Result, text: str, records: Path) -> None:
    assert text == alone.text + "\n"
    assert logprobs(records) == [(token.id, float_bits(token.raw_logprob or 0.0)) for token in alone.tokens]
