"""TLS on both links: which peers are trusted, by which name, and certificates that are replaced while streams run."""

import logging
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from outrider import Client, GenerateOptions, Unavailable
from services.engine.config import ConfigError
from services.service.access.credential_files import CredentialFiles
from tests.harness.network.certificate_authority import CertificateAuthority, Files
from tests.harness.network.free_port import free_port
from tests.harness.servers.server import RunningTarget, target_server, wait_until
from tests.rpc.access.conftest import shown_files, tls_config
from tests.rpc.harness.draft_link import RunningDraft
from tests.rpc.harness.predictors import GatePredictor
from tests.rpc.harness.requests import PROMPT

Issue = Callable[[CertificateAuthority], Files]
OPTIONS = GenerateOptions(max_tokens=24, seed=5, ignore_eos=True, lookup=False)


def client_of(address: str, authority: CertificateAuthority, files: Files | None = None) -> Client:
    """A client with a connection of its own, which gives up at once."""
    key, chain = (files.key.read_bytes(), files.certificate.read_bytes()) if files else (None, None)
    credentials = grpc.ssl_channel_credentials(authority.pem, key, chain)
    own = [("grpc.use_local_subchannel_pool", 1)]
    return Client(address, credentials=credentials, max_retries=0, channel_arguments=own)


def assert_kept_out(address: str, authority: CertificateAuthority, files: Files | None, said: str) -> None:
    with client_of(address, authority, files) as client, pytest.raises(Unavailable, match=said):
        client.model_info()


def test_a_server_is_known_by_its_certificate_and_name(
    model: Path, authority: CertificateAuthority, stranger: CertificateAuthority
) -> None:
    with target_server(model, server=tls_config(authority.issue())) as target:
        with client_of(target.address, authority) as client:
            assert client.model_info().name == model.name
        assert_kept_out(target.address, stranger, None, "is not signed by an authority that is trusted")
        port = target.address.rpartition(":")[2]
        assert_kept_out(f"127.0.0.1:{port}", authority, None, "is for another host name")


@pytest.mark.parametrize("issue", [CertificateAuthority.expired, lambda authority: authority.issue("elsewhere")])
def test_a_certificate_that_has_ended_or_is_anothers_is_none(
    model: Path, authority: CertificateAuthority, issue: Issue
) -> None:
    with target_server(model, server=tls_config(issue(authority)), loads=False) as target:
        assert_kept_out(target.address, authority, None, "has expired|is for another host name")


def test_only_clients_with_a_certificate_come_in(
    model: Path, authority: CertificateAuthority, stranger: CertificateAuthority
) -> None:
    config = tls_config(authority.issue(), tls_client_ca=authority.path)
    with target_server(model, server=config) as target:
        with client_of(target.address, authority, authority.issue("someone")) as client:
            assert client.model_info().name == model.name
        for files in (None, stranger.issue("someone"), authority.expired("late")):
            assert_kept_out(
                target.address, authority, files, "failed to connect|closes the connection|reset by peer|Broken pipe"
            )


def test_the_link_to_a_draft_is_encrypted_and_changes_no_byte(
    target: RunningTarget,
    model: Path,
    authority: CertificateAuthority,
    tls_draft: RunningDraft,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The draft knows the target by the name in its certificate."""
    caplog.set_level(logging.INFO)
    with Client(target.address) as client:
        expected = client.generate(PROMPT, **OPTIONS)
    shown = shown_files(authority, authority.issue("target-1"))
    with target_server(model, drafts=[tls_draft.address], draft_credentials=shown) as linked:
        linked.wait_for_draft()
        with Client(linked.address) as client:

            def is_helped() -> bool:
                result = client.generate(PROMPT, speculation="always", **OPTIONS)
                assert (result.token_ids, result.text) == (expected.token_ids, expected.text)
                return result.speculation.accepted > 0

            wait_until(is_helped)  # on a busy machine a draft may be too late for all of an answer
    assert "the target target-1 is there" in caplog.text


def test_a_draft_takes_no_target_that_it_cannot_name(
    target: RunningTarget,
    model: Path,
    authority: CertificateAuthority,
    stranger: CertificateAuthority,
    tls_draft: RunningDraft,
) -> None:
    """Without a certificate of the draft's authority, with another's, and without trust in the draft's own."""
    with Client(target.address) as client:
        expected = client.generate(PROMPT, **OPTIONS)
    for trusted, files in ((authority, None), (authority, stranger.issue("t")), (stranger, authority.issue("t"))):
        shown = shown_files(trusted, files)
        with target_server(model, drafts=[tls_draft.address], draft_credentials=shown) as alone:
            assert alone.model.drafts is not None
            predictor = alone.model.drafts.pool.remotes[0]
            wait_until(lambda: "is not there" in predictor.absence)  # noqa: B023 - it is waited for here
            with Client(alone.address) as client:
                result = client.generate(PROMPT, speculation="always", **OPTIONS)
        assert result.speculation.predicted == 0
        assert result.token_ids == expected.token_ids


def test_a_stream_runs_on_while_certificates_are_replaced(
    target: RunningTarget,
    model: Path,
    authority: CertificateAuthority,
    stranger: CertificateAuthority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A certificate that comes before its key is not shown; with its key, it is shown to each new connection."""
    caplog.set_level(logging.INFO)
    with Client(target.address) as client:
        expected = client.generate(PROMPT, **OPTIONS)
    files, halfway = authority.issue(), GatePredictor(num_tokens=8)
    halfway.gate.clear()
    with (
        target_server(model, server=tls_config(files), predictor=halfway) as rotated,
        client_of(rotated.address, authority) as client,
        client.stream(PROMPT, **OPTIONS) as stream,
    ):
        chunks = iter(stream)
        next(chunks)
        new = stranger.issue()
        new.certificate.rename(files.certificate)
        with client_of(rotated.address, authority) as late:
            assert late.model_info().name == model.name
        assert "the previous contents stay in use" in caplog.text
        new.key.rename(files.key)
        assert_kept_out(rotated.address, authority, None, "is not signed by an authority that is trusted")
        with client_of(rotated.address, stranger) as late:
            assert late.model_info().name == model.name
        halfway.gate.set()
        for _ in chunks:
            pass
    assert stream.result.token_ids == expected.token_ids
    assert "changed and was reloaded" in caplog.text


def test_a_new_link_uses_the_current_certificate_files(
    model: Path, authority: CertificateAuthority, stranger: CertificateAuthority, tmp_path: Path
) -> None:
    address = f"localhost:{free_port()}"
    first = RunningDraft(model, server=tls_config(authority.issue(), listen=address))
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.pem)
    with target_server(model, drafts=[address], draft_credentials=CredentialFiles(authorities=trusted)) as target:
        try:
            target.wait_for_draft()
        finally:
            first.close()
        trusted.write_bytes(stranger.pem)
        second = RunningDraft(model, server=tls_config(stranger.issue(), listen=address))
        try:
            target.wait_for_draft()
        finally:
            second.close()


def test_files_that_do_not_fit_are_named_at_the_start(
    model: Path, authority: CertificateAuthority, stranger: CertificateAuthority, tmp_path: Path
) -> None:
    ours, theirs = authority.issue(), stranger.issue()
    mixed = Files(ours.certificate, theirs.key)
    nothing, empty = Files(tmp_path / "nothing.pem", ours.key), tmp_path / "empty.pem"
    empty.write_bytes(b"")
    for config, said in (
        (tls_config(mixed), "are not a certificate and its key in PEM"),
        (tls_config(nothing), "nothing.pem: cannot be read: No such file"),
        (tls_config(ours, tls_client_ca=empty), "empty.pem: holds no certificates in PEM"),
        (tls_config(ours, tls_client_ca=ours.key), "holds no certificates in PEM"),
        (tls_config(Files(tmp_path, ours.key)), "is not a regular file"),
    ):
        with pytest.raises(ConfigError, match=said), target_server(model, server=config, loads=False):
            pass
