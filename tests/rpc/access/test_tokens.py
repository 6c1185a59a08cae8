"""Bearer tokens: a caller with one may call what its scopes allow, until it is revoked."""

import asyncio
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider import AsyncClient, Client, GenerateOptions, PermissionDenied, Unauthenticated
from services.service.access.caller import Scope
from services.service.access.credential_files import CredentialFiles
from services.service.access.tokens import new_token
from services.service.server_config import ServerConfig
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.harness.commands import outrider_run
from tests.rpc.harness.draft_link import RunningDraft
from tests.rpc.harness.requests import PROMPT

OPTIONS = GenerateOptions(max_tokens=24, seed=5, ignore_eos=True, lookup=False)


def new_line(path: Path, name: str, *scopes: Scope) -> str:
    """Add a line to a file of tokens, and return its token."""
    token, line = new_token(name, scopes)
    with path.open("a") as file:
        file.write(f"{line}\n")
    return token


@pytest.fixture
def tokens_file(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


@pytest.fixture
def token(tokens_file: Path) -> str:
    return new_line(tokens_file, "alice", Scope.GENERATE)


@pytest.fixture
def guarded(model: Path, tokens_file: Path, token: str) -> Iterator[RunningTarget]:
    """A target that needs tokens."""
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=tokens_file)
    with target_server(model, server=config) as running:
        yield running


def test_both_clients_come_in_with_a_token_only(guarded: RunningTarget, target: RunningTarget, token: str) -> None:
    async def with_async(shown: str | None) -> tuple[int, ...]:
        async with AsyncClient(guarded.address, token=shown) as client:
            await client.model_info()
            return (await client.generate(PROMPT, **OPTIONS)).token_ids

    with Client(target.address) as client:
        expected = client.generate(PROMPT, **OPTIONS).token_ids
    with Client(guarded.address, token=token) as client:
        assert client.generate(PROMPT, **OPTIONS).token_ids == expected
        assert client.detokenize(client.tokenize(PROMPT).token_ids).text == PROMPT
    assert asyncio.run(with_async(token)) == expected
    for wrong, said in ((None, "a token is needed"), (f"{token}x", "the token is not known to this server")):
        with Client(guarded.address, token=wrong) as client, pytest.raises(Unauthenticated, match=said):
            client.generate(PROMPT)
        with pytest.raises(Unauthenticated, match=said):
            asyncio.run(with_async(wrong))


def test_a_token_allows_only_its_scopes(guarded: RunningTarget, tokens_file: Path) -> None:
    of_admin = new_line(tokens_file, "root", Scope.ADMIN)
    said = "the token needs the scope generate for this method; it has admin"
    with Client(guarded.address, token=of_admin) as client, pytest.raises(PermissionDenied, match=said):
        client.model_info()


def test_tokens_come_and_go_while_the_server_runs(
    guarded: RunningTarget, tokens_file: Path, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What is wrong with the file later is logged, and what it said before holds; no token is ever in the log."""
    caplog.set_level(logging.DEBUG)
    late = new_line(tokens_file, "bob", Scope.GENERATE)
    with Client(guarded.address, token=token) as alice, Client(guarded.address, token=late) as bob:
        assert bob.model_info() == alice.model_info()
        tokens_file.write_text(tokens_file.read_text() + '{"name": 7}\n')
        assert bob.model_info() == alice.model_info()
        assert f"{tokens_file}:3: sha256 must be" in caplog.text
        tokens_file.write_text(tokens_file.read_text().splitlines()[1])
        assert bob.model_info()
        with pytest.raises(Unauthenticated):
            alice.model_info()
    assert "a call of /outrider.v1.GenerationService/GetModelInfo is refused" in caplog.text
    assert token not in caplog.text
    assert late not in caplog.text


def test_a_stream_outlives_its_token(guarded: RunningTarget, tokens_file: Path, token: str) -> None:
    with Client(guarded.address, token=token) as client, client.stream(PROMPT, **OPTIONS) as stream:
        chunks = iter(stream)
        next(chunks)
        tokens_file.unlink()
        new_line(tokens_file, "bob", Scope.GENERATE)
        for _ in chunks:
            pass
        assert len(stream.result.token_ids) == 24
        with pytest.raises(Unauthenticated):
            client.model_info()


def test_a_draft_takes_targets_with_its_token(model: Path, tmp_path: Path, tokens_file: Path, token: str) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text(f"{token}\n")
    wrong.write_text("guessed\n")
    draft = RunningDraft(model, server=ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tokens_file=tokens_file))
    try:
        with target_server(model, drafts=[draft.address], draft_credentials=CredentialFiles(token=right)) as linked:
            linked.wait_for_draft()
        with target_server(model, drafts=[draft.address], draft_credentials=CredentialFiles(token=wrong)) as alone:
            assert alone.model.drafts is not None
            predictor = alone.model.drafts.pool.remotes[0]
            wait_until(lambda: "UNAUTHENTICATED the token is not known to this server" in predictor.absence)
    finally:
        draft.close()


@pytest.mark.parametrize("way", ["file", "environment"])
def test_generate_shows_a_token(guarded: RunningTarget, tmp_path: Path, token: str, way: str) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    command = ["generate", PROMPT, "--address", guarded.address, "--max-tokens", "4", "--ignore-eos"]

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        return outrider_run(*command, *(["--token-file", str(file)] if way == "file" else []), env=environment)

    done = run(OUTRIDER_TOKEN=token if way == "environment" else "another")
    assert (done.returncode, "max tokens" in done.stderr) == (0, True), done.stderr
    file.write_text("not one\nbut three")
    done = run(OUTRIDER_TOKEN="wrong")
    assert done.returncode == 1
    said = "a token must be one word" if way == "file" else "the token is not known to this server"
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_token_leaves_this_machine_over_tls_only() -> None:
    for address in ("localhost:1", "127.0.0.1:1", "[::1]:1", "unix:/tmp/x"):
        Client(address, token="x").close()
    for address in ("example.org:1", "10.0.0.1:1", "localhost.example.org:1", "127.0.0.1.example.org:1"):
        with pytest.raises(ValueError, match="a token is sent over TLS only, or to this machine"):
            Client("localhost:1", address, token="x")
    with pytest.raises(ValueError, match="a token must be one word of visible ASCII characters"):
        Client("localhost:1", token="a b")
