"""CertificateAuthority: certificates for the two ends of a TLS connection, made for one test."""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Files:
    """Where a certificate and its key are, as PEM."""

    certificate: Path
    key: Path


class CertificateAuthority:
    """Signs certificates; its own is in the file `path`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.path = folder / f"{name}.pem"
        self._write(self.path, self._signed(name, self._key, is_authority=True, ends=_DAY))

    @property
    def pem(self) -> bytes:
        """Its own certificate."""
        return self.path.read_bytes()

    def issue(self, name: str = "localhost", *, into: Files | None = None, ends: dt.timedelta = _DAY) -> Files:
        """A certificate for `name`, which ends so long from now; `into` are files that it replaces, each at once."""
        own = Files(self._folder / f"{self._name}-{name}.pem", self._folder / f"{self._name}-{name}.key")
        files, key = into or own, ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self._write(files.certificate, self._signed(name, key, is_authority=False, ends=ends))
        self._write(files.key, private)
        return files

    def expired(self, name: str = "localhost") -> Files:
        """A certificate that ended yesterday."""
        return self.issue(name, ends=-_DAY)

    def _signed(self, name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool, ends: dt.timedelta) -> bytes:
        now = dt.datetime.now(dt.UTC)
        subject, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, self._name))
        made = (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - 9 * _DAY)
            .not_valid_after(now + ends)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM)

    @staticmethod
    def _write(path: Path, data: bytes) -> None:
        part = path.with_name(f"{path.name}.part")
        part.write_bytes(data)
        part.rename(path)
