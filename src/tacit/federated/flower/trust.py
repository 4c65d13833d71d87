"""One command makes what a federation needs to trust itself: an authority, the server's certificate, node keys."""

from __future__ import annotations

import datetime
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tacit.errors import InputError
from tacit.federated.protocol import ProtocolError
from tacit.release.signing import write_secret

YEARS = 5
PEM, SSH = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
PLAIN = serialization.PrivateFormat.PKCS8
SIGNATURE, NODE_USAGE = ec.ECDSA(hashes.SHA384()), x509.ExtendedKeyUsageOID.CLIENT_AUTH
NO_PASSWORD = serialization.NoEncryption()

Authority = tuple[ec.EllipticCurvePrivateKey, x509.Certificate]


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
    authority = _authority(folder)
    trusted = authority[1].public_bytes(PEM)
    server = folder / "server"
    server.mkdir(exist_ok=True)
    if not (server / "server.pem").exists():
        _issue(server / "server.key", server / "server.pem", "Tacit federation server", authority, hosts)
    elif missing := [h for h in hosts if h not in _speaks_for(server / "server.pem")]:
        raise InputError(
            f"{server / 'server.pem'} does not speak for {', '.join(missing)}; delete it and server.key, and run this "
            f"again with every --host (nodes' keys stay as they are)"
        )
    (server / "authority.pem").write_bytes(trusted)
    (server / "allowed").mkdir(exist_ok=True)
    for name in nodes:
        home = folder / "nodes" / name
        home.mkdir(parents=True, exist_ok=True)
        (home / "authority.pem").write_bytes(trusted)
        if not (home / "node.key").exists():
            key = ec.generate_private_key(ec.SECP384R1())
            write_secret(home / "node.key", key.private_bytes(PEM, SSH, NO_PASSWORD))
            public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
            (home / "node.pub").write_bytes(public + b"\n")
        (server / "allowed" / f"{name}.pub").write_bytes((home / "node.pub").read_bytes())
        if not (home / "node.pem").exists():
            _vouch(home, name, authority)


class NodeIdentity:
    """Who a node is to other nodes, by what the authority vouched for: the server cannot invent one.

    A statement is signed with the node's key, and carries the node's certificate.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / "node.pem").exists():
            raise InputError(
                f"{folder} has no node.pem, by which other nodes know this one; run tacit federated keys again with "
                f"this node's name, and give the folder to the node"
            )
        key = serialization.load_ssh_private_key((folder / "node.key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key, self._own = key, (folder / "node.pem").read_text()
        self._authority = x509.load_pem_x509_certificate((folder / "authority.pem").read_bytes())

    def sign(self, told: bytes) -> str:
        return json.dumps([self._own, self._key.sign(told, SIGNATURE).hex()])

    def check(self, name: str, told: bytes, signature: str) -> None:
        """Raise unless the node of this name said so."""
        try:
            certificate, signed = json.loads(signature)
            shown = x509.load_pem_x509_certificate(certificate.encode())
            shown.verify_directly_issued_by(self._authority)
            usage = shown.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            (called,) = shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            key = shown.public_key()
            assert isinstance(key, ec.EllipticCurvePublicKey)
            key.verify(bytes.fromhex(signed), told, SIGNATURE)
            genuine = called.value == name and NODE_USAGE in usage
            genuine &= shown.not_valid_before_utc <= datetime.datetime.now(datetime.UTC) <= shown.not_valid_after_utc
        except Exception:  # whatever came in the place of a signature
            genuine = False
        if not genuine:
            raise ProtocolError(
                f"the keys that were told of node {name!r} are not signed by it; the server, or who stands between, "
                f"may have invented it: no numbers are sent"
            )


def _vouch(home: Path, name: str, authority: Authority) -> None:
    """Write the certificate of a node's key."""
    key, now = serialization.load_ssh_public_key((home / "node.pub").read_bytes()), datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(authority[1].subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([NODE_USAGE]), critical=False)
        .sign(authority[0], hashes.SHA384())
    )
    (home / "node.pem").write_bytes(certificate.public_bytes(PEM))


def _authority(folder: Path) -> Authority:
    key_path, path = folder / "authority.key", folder / "authority.pem"
    if not (key_path.exists() and path.exists()):
        return _issue(key_path, path, "Tacit federation")
    key = serialization.load_pem_private_key(key_path.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key, x509.load_pem_x509_certificate(path.read_bytes())


def _issue(
    key_path: Path, path: Path, name: str, authority: Authority | None = None, hosts: Sequence[str] = ()
) -> Authority:
    """Write a key and its certificate: a server's, for these hosts, or without an authority the authority's own."""
    key, signs, now = ec.generate_private_key(ec.SECP384R1()), authority is None, datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, issuer = (key, subject) if authority is None else (authority[0], authority[1].subject)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
        .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
        .add_extension(x509.KeyUsage(not signs, False, False, False, False, signs, signs, False, False), critical=True)
    )
    more: list[x509.ExtensionType] = [x509.SubjectKeyIdentifier.from_public_key(key.public_key())]
    if not signs:
        more = [
            x509.SubjectAlternativeName([_host(host) for host in dict.fromkeys([*hosts, "localhost", "127.0.0.1"])]),
            x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
        ]
    for extension in more:
        builder = builder.add_extension(extension, critical=False)
    certificate = builder.sign(signer, hashes.SHA384())
    write_secret(key_path, key.private_bytes(PEM, PLAIN, NO_PASSWORD))
    path.write_bytes(certificate.public_bytes(PEM))
    return key, certificate


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _speaks_for(path: Path) -> list[str]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return [str(name.value) for name in names.value]
