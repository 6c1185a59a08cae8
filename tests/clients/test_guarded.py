"""The clients of other languages before a server that is not open to all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider import Client
from services.service.access.caller import Scope
from services.service.access.tokens import new_token
from services.service.server_config import ServerConfig
from tests.clients.conftest import RunClient
from tests.e2e.harness.models import DEMO_TARGET
from tests.harness.network.certificate_authority import CertificateAuthority
from tests.harness.servers.server import RunningTarget, target_server

PROMPT = "def square(x):\n"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningTarget, list[str], Path]]:
    """A target that needs certificates and tokens, the options that show both, and the file with the token."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = CertificateAuthority(folder)
    own, shown = authority.issue(), authority.issue("someone")
    token, line = new_token("someone", [Scope.GENERATE])
    (folder / "token").write_text(f"{token}\n")
    (folder / "tokens").write_text(line)
    config = ServerConfig(
        listen="localhost:0",
        tls_certificate=own.certificate,
        tls_key=own.key,
        tls_client_ca=authority.path,
        tokens_file=folder / "tokens",
    )
    with target_server(DEMO_TARGET, kv_blocks=256, server=config) as running:
        files = {"ca": authority.path, "cert": shown.certificate, "key": shown.key}
        yield running, [f"--tls-{name}={path}" for name, path in files.items()], folder / "token"


def test_a_certificate_and_a_token_are_shown(
    run_client: RunClient, target: RunningTarget, guarded: tuple[RunningTarget, list[str], Path]
):
    server, files, token = guarded
    options = ("--max-tokens=8", "--temperature=0", PROMPT)
    with Client(target.address) as client:
        expected = client.generate(PROMPT, max_tokens=8, temperature=0).text + "\n"
    ended = run_client(f"--address={server.address}", *files, f"--token-file={token}", *options)
    assert (ended.stdout, ended.returncode) == (expected, 0), ended.stderr
    without = run_client(f"--address={server.address}", *files, *options)
    assert (without.stdout, without.returncode) == ("", 1)
    assert "a token is needed" in without.stderr
    in_the_clear = run_client("--address=example.org:1", f"--token-file={token}", *options)
    assert (in_the_clear.stdout, in_the_clear.returncode) == ("", 2)
    assert "a token is sent over TLS only, or to this machine" in in_the_clear.stderr


def test_a_server_with_another_authority_or_name_is_not_called(
    run_client: RunClient, at_once: list[str], guarded: tuple[RunningTarget, list[str], Path], tmp_path: Path
):
    server, files, token = guarded
    options = (*files, f"--token-file={token}", *at_once)
    by_another = run_client(
        f"--address={server.address}", *options, f"--tls-ca={CertificateAuthority(tmp_path).path}", PROMPT
    )
    assert (by_another.stdout, by_another.returncode) == ("", 1)
    name, port = server.address.rsplit(":", 1)
    assert name == "localhost"
    for_another = run_client(f"--address=127.0.0.1:{port}", *options, PROMPT)
    assert (for_another.stdout, for_another.returncode) == ("", 1)
