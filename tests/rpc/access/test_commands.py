"""`outrider up`, `health` and `generate` over TLS, with certificates of their own."""

import re
from pathlib import Path

from tests.harness.network.certificate_authority import CertificateAuthority
from tests.rpc.harness.commands import SMALL, outrider_begin, outrider_run, press_ctrl_c
from tests.rpc.harness.requests import PROMPT


def test_up_serves_clients_that_show_a_certificate(model: Path, authority: CertificateAuthority) -> None:
    own, someone = authority.issue(), authority.issue("someone")
    served = ["--tls-cert", str(own.certificate), "--tls-key", str(own.key), "--tls-client-ca", str(authority.path)]
    shown = ["--tls-ca", str(authority.path), "--tls-cert", str(someone.certificate), "--tls-key", str(someone.key)]
    with outrider_begin(
        "up", "--model", str(model), "--draft", str(model), "--listen", "localhost:0", "--", *SMALL, *served
    ) as process:
        assert process.stdout is not None
        found = re.match(r"outrider is up on (\S+);", process.stdout.readline())
        assert found is not None
        healthy = outrider_run("health", "--address", found[1], *shown)
        assert (healthy.returncode, healthy.stdout) == (0, f"{found[1]} is serving\n")
        assert outrider_run("health", "--address", found[1], *shown[:2]).returncode == 1
        assert outrider_run("health", "--address", found[1]).returncode == 1
        written = outrider_run("generate", PROMPT, "--address", found[1], *shown, "--max-tokens", "8", "--ignore-eos")
        assert (written.returncode, "8 tokens" in written.stderr) == (0, True), written.stderr
        press_ctrl_c(process)
        process.communicate(timeout=60)


def test_unusable_certificates_are_reported(authority: CertificateAuthority) -> None:
    files = authority.issue()
    for shown, said in (
        (["--tls-cert", str(files.certificate)], "only one of a TLS certificate and its key is given"),
        (
            ["--tls-cert", str(files.certificate), "--tls-key", str(files.key)],
            "not the authorities of the server's",
        ),
        (["--tls-ca", str(files.key)], "holds no certificates in PEM"),
    ):
        done = outrider_run("generate", PROMPT, *shown)
        assert (done.returncode, said in done.stderr) == (1, True), done.stderr
        assert "Traceback" not in done.stderr
