"""Certificates are replaced while a gateway runs, its own and those for its targets; its end is no error."""

import logging
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from services.service.access.credential_files import CredentialFiles
from services.service.server_config import ServerConfig
from tests.gateway.harness.running_gateway import RunningGateway
from tests.harness.network.certificate_authority import CertificateAuthority
from tests.harness.servers.server import RunningTarget, target_server

BODY = {"prompt": "a", "seed": 5, "max_tokens": 300, "ignore_eos": True, "stream": True}


def trusting(authority: CertificateAuthority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.path))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])  # an address is not sent to the server
def test_a_new_certificate_is_shown_and_a_stream_runs_on(talker: RunningTarget, tmp_path: Path, host: str):
    old, new = (CertificateAuthority(tmp_path, name) for name in ("old", "new"))
    files = old.issue()
    shown = {"tls_certificate": files.certificate, "tls_key": files.key}
    with RunningGateway(talker.address, **shown) as gateway, httpx2.Client(verify=trusting(old), timeout=60) as client:
        port = urlsplit(gateway.url).port
        with client.stream("POST", f"https://localhost:{port}/v1/completions", json=BODY) as stream:
            lines = stream.iter_lines()
            next(lines)
            fresh = new.issue(into=files)
            assert fresh == files
            context = trusting(new)
            context.check_hostname = host == "localhost"
            health = httpx2.get(f"https://{host}:{port}/health", verify=context, timeout=60)
            assert health.status_code == 200
            with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                httpx2.get(f"https://localhost:{port}/health", verify=trusting(old), timeout=60)
            assert [*lines][-2] == "data: [DONE]"


def test_credentials_for_targets_are_read_anew(model: Path, tmp_path: Path):
    own, other = (CertificateAuthority(tmp_path, name) for name in ("own", "other"))
    files, trusted = own.issue(), tmp_path / "trusted.pem"
    trusted.write_bytes(other.pem)
    server = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, tls_certificate=files.certificate, tls_key=files.key)
    with target_server(model, server=server) as target:
        address = target.address.replace("127.0.0.1", "localhost")
        shown = CredentialFiles(authorities=trusted)
        with RunningGateway(address, credentials=shown, max_retries=0) as gateway:
            assert httpx2.get(f"{gateway.url}/health", timeout=60).status_code == 503
            trusted.write_bytes(own.pem)
            assert httpx2.get(f"{gateway.url}/health", timeout=60).status_code == 200


def test_a_closed_gateway_logs_no_error(demo: RunningTarget, caplog: pytest.LogCaptureFixture):
    with httpx2.Client(timeout=60) as client, RunningGateway(demo.address) as gateway:
        stream = client.send(client.build_request("POST", f"{gateway.url}/v1/completions", json=BODY), stream=True)
        assert stream.status_code == 200
    stream.close()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    demo.assert_all_free()
