"""A certificate authority that lives as long as a test, and its certificates."""

import subprocess
from pathlib import Path

_DAYS = "2"


class Authority:
    """Signs certificates for localhost with keys of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key, self.certificate = folder / "ca.key", folder / "ca.crt"
        self._openssl("req", "-x509", *_NEW_KEY, "-subj", "/CN=tests", "-keyout", self._key, "-out", self.certificate)

    def sign(self, folder: Path, common_name: str) -> None:
        """Write `tls.crt` and `tls.key`, as a Kubernetes secret has them."""
        folder.mkdir(parents=True)
        request, key, extensions = folder / "tls.csr", folder / "tls.key", folder / "extensions"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self._openssl("req", *_NEW_KEY, "-subj", f"/CN={common_name}", "-keyout", key, "-out", request)
        signing = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-extfile", extensions)
        self._openssl("x509", "-req", "-in", request, *signing, "-days", _DAYS, "-out", folder / "tls.crt")

    def _openssl(self, *arguments: str | Path) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, cwd=self._folder)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
