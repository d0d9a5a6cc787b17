"""A self-made certificate for HTTPS on the local machine."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

FILE_NAME = "certificate.pem"


def server_context(folder: Path | None, host: str) -> ssl.SSLContext:
    """A TLS context with the certificate of the data folder, made on first use, or with one for this run only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if folder is not None:
        path = folder / FILE_NAME
        if not path.exists():
            _write(path, _make(host))
        context.load_cert_chain(path)
        return context
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / FILE_NAME
        _write(path, _make(host))
        context.load_cert_chain(path)
    return context


def _write(path: Path, pem: bytes) -> None:
    """The key is for its owner only, from the first byte."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(pem)


def _make(host: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=825))  # the longest that Apple's clients accept
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)


def _names(host: str) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    addresses = {"127.0.0.1", "::1"}
    try:
        addresses.add(str(ipaddress.ip_address(host)))
    except ValueError:
        if host != "localhost":
            names.append(x509.DNSName(host))
    return names + [x509.IPAddress(ipaddress.ip_address(one)) for one in sorted(addresses)]
