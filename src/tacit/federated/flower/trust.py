"""One command makes what a federation needs to trust itself: an authority, the server's certificate, node keys."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tacit.errors import InputError
from tacit.release.signing import write_secret

YEARS = 5
PEM, SSH = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
PLAIN = serialization.PrivateFormat.PKCS8
NO_PASSWORD = serialization.NoEncryption()


def make_keys(folder: Path, nodes: Sequence[str], hosts: Sequence[str]) -> None:
    """Write ``FOLDER/server`` (for the server) and ``FOLDER/nodes/NAME`` (for each node, nobody else).

    ``FOLDER/authority.key`` signs server certificates: keep it off the server. An authority or a key that is already
    there is kept, so that nodes can be added later. A node whose ``NAME.pub`` is deleted from ``server/allowed`` is no
    longer let in once the server is started again.
    """
    for name in nodes:
        if not name or name[0] in "-." or not all(c.isalnum() or c in "-_." for c in name):
            raise InputError(
                f"a node's name is of letters, digits, '-', '_' and '.', and begins with neither '-' nor '.'; found "
                f"{name!r}"
            )
    if not nodes:
        raise InputError("name at least one node: --node north --node south")
    folder.mkdir(parents=True, exist_ok=True)
    key, certificate = _authority(folder)
    server = folder / "server"
    server.mkdir(exist_ok=True)
    if not (server / "server.pem").exists():
        _server(server, key, certificate, hosts)
    elif missing := [h for h in hosts if h not in _speaks_for(server / "server.pem")]:
        raise InputError(
            f"{server / 'server.pem'} does not speak for {', '.join(missing)}; delete it and server.key, and run this "
            f"again with every --host (nodes' keys stay as they are)"
        )
    (server / "authority.pem").write_bytes(certificate.public_bytes(PEM))
    (server / "allowed").mkdir(exist_ok=True)
    for name in nodes:
        home = folder / "nodes" / name
        home.mkdir(parents=True, exist_ok=True)
        (home / "authority.pem").write_bytes(certificate.public_bytes(PEM))
        if not (home / "node.key").exists():
            own = ec.generate_private_key(ec.SECP384R1())
            write_secret(home / "node.key", own.private_bytes(PEM, SSH, NO_PASSWORD))
            public = own.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
            (home / "node.pub").write_bytes(public + b"\n")
        (server / "allowed" / f"{name}.pub").write_bytes((home / "node.pub").read_bytes())


def _authority(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key_path, path = folder / "authority.key", folder / "authority.pem"
    if key_path.exists() and path.exists():
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key, x509.load_pem_x509_certificate(path.read_bytes())
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Tacit federation")])
    certificate = (
        _certificate(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )
    write_secret(key_path, key.private_bytes(PEM, PLAIN, NO_PASSWORD))
    path.write_bytes(certificate.public_bytes(PEM))
    return key, certificate


def _server(
    folder: Path, authority: ec.EllipticCurvePrivateKey, issuer: x509.Certificate, hosts: Sequence[str]
) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys([*hosts, "localhost", "127.0.0.1"]):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Tacit federation server")])
    certificate = (
        _certificate(subject, issuer.subject, key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA384())
    )
    write_secret(folder / "server.key", key.private_bytes(PEM, PLAIN, NO_PASSWORD))
    (folder / "server.pem").write_bytes(certificate.public_bytes(PEM))


def _speaks_for(path: Path) -> list[str]:
    names = x509.load_pem_x509_certificate(path.read_bytes()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return [str(name.value) for name in names.value]


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
    )


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(not signs, False, False, False, False, signs, signs, False, False)


def flower_environment(home: Path) -> dict[str, str]:
    """The environment Flower's processes run in: nothing is reported, checked for updates, or installed."""
    import sys

    return {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        # Flower starts its helpers by name
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
