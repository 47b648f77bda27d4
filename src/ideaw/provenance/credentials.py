"""Who signs: a certificate with its private key, checked before any audio is touched, and an authority for tests.

A certificate that others trust is the user's own; what is made here is trusted by nobody, and says so in its name.
"""

import logging
import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ideaw.audio import atomic
from ideaw.audio.formats import PathLike
from ideaw.errors import CredentialError, FileError, error_reason

MAX_PEM_BYTES = 1 << 18
"""Length of a file of certificates or of a key: somebody may give a recording by mistake."""

SIGNING_PURPOSES = (
    ExtendedKeyUsageOID.EMAIL_PROTECTION,
    x509.ObjectIdentifier("1.3.6.1.5.5.7.3.36"),  # document signing
    x509.ObjectIdentifier("1.3.6.1.4.1.62558.2.1"),  # C2PA claim signing
)
"""Purposes of a certificate, one of which C2PA asks for."""

_CURVE_ALGORITHMS = {"secp256r1": "es256", "secp384r1": "es384", "secp521r1": "es512"}
_RSA_ALGORITHM, _ED25519_ALGORITHM = "ps256", "ed25519"
"""C2PA's names of signatures."""

TEST_AUTHORITY_NAME, TEST_SIGNER_NAME = "ideaw TEST authority, not trusted", "ideaw TEST signer, not trusted"
"""Common names in certificates that `make_test_authority` makes."""

TEST_ORGANIZATION = "ideaw TEST"

TEST_VALIDITY_DAYS = 365
"""Days until certificates for tests expire."""

_CLOCK_TOLERANCE = timedelta(hours=1)
"""How far clocks of other machines may be behind, on which a fresh certificate is to be valid too."""

_logger = logging.getLogger("ideaw")

CHAIN_FILE, KEY_FILE, ROOTS_FILE = "cert.pem", "key.pem", "roots.pem"
"""What `make_test_authority` writes: the certificate to sign with, its key, and what is to be trusted in tests."""


class Signer:
    """A certificate with its private key, ready to sign manifests; it shows no secret and cannot be pickled.

    Args:
        certificate: PEM file with the certificate, and behind it those of the authorities between it and a root.
        key: PEM file with its private key, without a password; one that others may read is used, with a warning in the
            log "ideaw".

    Raises:
        FileError: a file cannot be read.
        CredentialError: the certificate has expired, is not valid yet, is not for signing or signed by itself; the key
            is encrypted or belongs to another certificate; a file does not hold what it should.
    """

    def __init__(self, certificate: PathLike, key: PathLike) -> None:
        chain, secret = _read_pem(certificate, "a certificate"), _read_pem(key, "a private key")
        leaf = parse_certificates(certificate, chain)[0]
        private = _parse_key(key, secret)
        check_validity(certificate, leaf, datetime.now(UTC))
        _check_purpose(certificate, leaf)
        if private.public_key() != leaf.public_key():
            raise CredentialError(f"{key} is the key of another certificate than {certificate}")
        self.algorithm = _algorithm(certificate, leaf)
        """C2PA's name of its signatures, such as "es256"."""
        self.chain: bytes = chain
        """The certificates, as PEM."""
        self._key = _as_pem(private)
        self._certificate, self._leaf = certificate, leaf
        _warn_if_exposed(Path(key))

    @property
    def issuer(self) -> str:
        """Who signs: the organisation that the certificate names, or what else it names."""
        return _named(self._leaf.subject)

    @property
    def expires(self) -> datetime:
        """When the certificate expires, in UTC; readers take signatures without a time stamp for invalid then."""
        return self._leaf.not_valid_after_utc

    def reveal_key(self) -> bytes:
        """The private key, as PEM, for the library that signs.

        Raises:
            CredentialError: the certificate has expired meanwhile.
        """
        check_validity(self._certificate, self._leaf, datetime.now(UTC))
        return self._key

    def __repr__(self) -> str:
        return f"<Signer {self.issuer}, until {self.expires:%Y-%m-%d}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Signer holds a secret key and cannot be pickled; make it where it is needed")


@dataclass(frozen=True)
class TestAuthority:
    """Where `make_test_authority` put what it made."""

    __test__ = False  # pytest would take it for a test

    chain: Path
    key: Path
    roots: Path


def make_test_authority(folder: PathLike, expires_in: timedelta = timedelta(days=TEST_VALIDITY_DAYS)) -> TestAuthority:
    """Make an authority that nobody trusts, and a certificate of it to sign with; its own key is thrown away.

    Args:
        folder: where the three files go, which only the user who runs this may read; made if it does not exist.
        expires_in: how long both certificates are valid.

    Raises:
        FileError: one of the files is there already, or cannot be written.
    """
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    start = datetime.now(UTC) - _CLOCK_TOLERANCE
    end = start + _CLOCK_TOLERANCE + expires_in
    root_name, name = _distinguished(TEST_AUTHORITY_NAME), _distinguished(TEST_SIGNER_NAME)
    root = (
        _unsigned(root_name, root_name, root_key, start, end)
        .add_extension(x509.BasicConstraints(True, 0), True)
        .add_extension(_key_usage(key_cert_sign=True, crl_sign=True), True)
        .sign(root_key, hashes.SHA256())
    )
    leaf = (
        _unsigned(name, root_name, key, start, end)
        .add_extension(x509.BasicConstraints(False, None), True)
        .add_extension(_key_usage(digital_signature=True), True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION]), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key()), False)
        .sign(root_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    made = TestAuthority(*(Path(folder) / file for file in (CHAIN_FILE, KEY_FILE, ROOTS_FILE)))
    contents = {made.key: _as_pem(key), made.chain: leaf.public_bytes(pem), made.roots: root.public_bytes(pem)}
    _write_all(Path(folder), contents)
    return made


def parse_certificates(path: PathLike, content: bytes) -> list[x509.Certificate]:
    """The certificates in PEM text, in their order; `path` names it in errors."""
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise CredentialError(f"{path} holds no certificate in PEM form") from None


def read_roots(path: PathLike) -> bytes:
    """PEM text of the authorities that are to be trusted.

    Raises:
        FileError: the file cannot be read.
        CredentialError: it holds no certificate.
    """
    content = _read_pem(path, "certificates")
    parse_certificates(path, content)
    return content


def check_validity(path: PathLike, certificate: x509.Certificate, now: datetime) -> None:
    """Raise `CredentialError` unless a certificate is valid at a time."""
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > last:
        raise CredentialError(f"the certificate {path} expired on {last:%Y-%m-%d}; get a new one")
    if now < first:
        raise CredentialError(f"the certificate {path} is valid from {first:%Y-%m-%d} on only; is the clock right?")


def _read_pem(path: PathLike, what: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_PEM_BYTES + 1)
    except (OSError, ValueError) as problem:
        raise FileError(f"{path} cannot be read as {what}: {error_reason(problem)}") from problem
    if len(content) > MAX_PEM_BYTES:
        raise CredentialError(f"{path} is too long to hold {what} in PEM form")
    return content


def _parse_key(path: PathLike, content: bytes) -> Any:
    """The private key of PEM text."""
    try:
        return serialization.load_pem_private_key(content, None)
    except TypeError:
        raise CredentialError(f"{path} is encrypted; give the private key without a password") from None
    except Exception:  # of several kinds, by what is wrong with the text
        raise CredentialError(f"{path} holds no private key in PEM form") from None


def _as_pem(key: Any) -> bytes:
    """A private key in the one form that the library that signs reads."""
    pkcs8, unlocked = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, unlocked))


def _check_purpose(path: PathLike, certificate: x509.Certificate) -> None:
    """Raise `CredentialError` unless C2PA accepts what a certificate is for."""
    if certificate.issuer == certificate.subject:
        raise CredentialError(
            f"the certificate {path} is signed by itself, which C2PA refuses; use one of an authority, or for tests: "
            "ideaw testcert"
        )
    try:
        purposes = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        purposes = []
    if not any(purpose in SIGNING_PURPOSES for purpose in purposes):
        raise CredentialError(
            f"the certificate {path} is not for signing documents: C2PA asks for the purpose emailProtection, "
            "documentSigning or its own"
        )


def _algorithm(path: PathLike, certificate: x509.Certificate) -> str:
    public = certificate.public_key()
    if isinstance(public, ec.EllipticCurvePublicKey) and public.curve.name in _CURVE_ALGORITHMS:
        return _CURVE_ALGORITHMS[public.curve.name]
    if isinstance(public, rsa.RSAPublicKey):
        return _RSA_ALGORITHM
    if isinstance(public, ed25519.Ed25519PublicKey):
        return _ED25519_ALGORITHM
    raise CredentialError(f"the certificate {path} has a key that C2PA has no signature for; use P-256, RSA or Ed25519")


def _named(name: x509.Name) -> str:
    for kind in (NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME):
        if found := name.get_attributes_for_oid(kind):
            return str(found[0].value)
    return name.rfc4514_string()


def _distinguished(common_name: str) -> x509.Name:
    organisation = x509.NameAttribute(NameOID.ORGANIZATION_NAME, TEST_ORGANIZATION)
    return x509.Name([organisation, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _unsigned(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(key.public_key())
    dated = builder.serial_number(x509.random_serial_number()).not_valid_before(start).not_valid_after(end)
    return dated.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)


def _key_usage(digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(digital_signature, False, False, False, False, key_cert_sign, crl_sign, False, False)


def _warn_if_exposed(path: Path) -> None:
    """Log a warning about a private key that group or others may read."""
    mode = path.stat().st_mode
    if os.name == "posix" and stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        _logger.warning("the private key %s can be read by other users; protect it with: chmod 600 %s", path, path)


def _write_all(folder: Path, contents: dict[Path, bytes]) -> None:
    """Write new files that only their owner may read: all of them or none."""
    with atomic.file_errors(folder):
        folder.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    with ExitStack() as files:
        for path, content in contents.items():
            if os.path.lexists(path):
                raise FileError(f"{path} is there already, and is not overwritten; choose another folder")
            temporary = files.enter_context(atomic.replace_on_success(path, overwrite=False))
            with atomic.file_errors(path):
                temporary.chmod(stat.S_IRUSR | stat.S_IWUSR)
                temporary.write_bytes(content)
