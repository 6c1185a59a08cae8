"""Parts of the tests of access: an authority, and servers that show its certificates."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.service.access.credential_files import CredentialFiles
from services.service.server_config import ServerConfig
from tests.harness.network.certificate_authority import CertificateAuthority, Files
from tests.harness.network.free_port import free_port
from tests.rpc.harness.draft_link import RunningDraft


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path)


@pytest.fixture
def stranger(tmp_path: Path) -> CertificateAuthority:
    """An authority that no client trusts."""
    return CertificateAuthority(tmp_path, "stranger")


@pytest.fixture
def tls_draft(model: Path, authority: CertificateAuthority) -> Iterator[RunningDraft]:
    """A draft that only targets with a certificate of the authority come in to."""
    running = RunningDraft(model, server=tls_config(authority.issue(), tls_client_ca=authority.path))
    yield running
    running.close()


def tls_config(files: Files, **fields: object) -> ServerConfig:
    """A server that shows a certificate, on a port that is nobody else's on any of this machine's own addresses."""
    values = {"listen": f"localhost:{free_port()}", "drain_seconds": 0, **fields}
    return ServerConfig(tls_certificate=files.certificate, tls_key=files.key, **values)  # type: ignore[arg-type]


def shown_files(
    authority: CertificateAuthority, files: Files | None = None, token: Path | None = None
) -> CredentialFiles:
    """What a caller shows that trusts an authority."""
    certificate, key = (files.certificate, files.key) if files else (None, None)
    return CredentialFiles(authorities=authority.path, certificate=certificate, key=key, token=token)
