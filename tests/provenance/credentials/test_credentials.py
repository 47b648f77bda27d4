"""Certificates and keys: what is refused, in one line, before any audio is touched; and the authority for tests."""

import hashlib
import logging
import pickle
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

import ideaw
from ideaw import CredentialError
from ideaw.provenance.credentials import TestAuthority, make_test_authority, read_roots
from ideaw.provenance.manifest import Claim, read_store, sign_digest


def test_the_authority_for_tests_says_that_nobody_trusts_it(tmp_path: Path) -> None:
    made = make_test_authority(tmp_path / "new" / "folder")
    (root,) = x509.load_pem_x509_certificates(made.roots.read_bytes())
    assert "TEST" in root.subject.rfc4514_string()
    assert "not trusted" in root.subject.rfc4514_string()
    assert ideaw.Signer(made.chain, made.key).issuer == "ideaw TEST"
    assert {stat.S_IMODE(path.stat().st_mode) for path in (made.chain, made.key, made.roots)} == {0o600}
    assert stat.S_IMODE((tmp_path / "new" / "folder").stat().st_mode) == 0o700


def test_files_of_an_authority_are_never_overwritten_and_made_together(tmp_path: Path) -> None:
    made = make_test_authority(tmp_path)
    before = made.key.read_bytes()
    made.roots.unlink()
    with pytest.raises(ideaw.FileError, match=r"is there already"):
        make_test_authority(tmp_path)
    assert made.key.read_bytes() == before
    assert not made.roots.exists()


def test_a_certificate_that_has_expired_signs_nothing(tmp_path: Path) -> None:
    made = make_test_authority(tmp_path, timedelta(minutes=-30))
    with pytest.raises(CredentialError, match=r"^the certificate .*cert\.pem expired on [\d-]{10}; get a new one$"):
        ideaw.Signer(made.chain, made.key)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path, authority: TestAuthority) -> None:
    other = make_test_authority(tmp_path)
    with pytest.raises(CredentialError, match=r"key\.pem is the key of another certificate than .*cert\.pem$"):
        ideaw.Signer(authority.chain, other.key)


def test_what_is_no_certificate_or_no_key_is_named(tmp_path: Path, authority: TestAuthority) -> None:
    wrong = tmp_path / "wrong.pem"
    with pytest.raises(ideaw.FileError, match=r"wrong\.pem cannot be read as a certificate: no such file"):
        ideaw.Signer(wrong, authority.key)
    wrong.write_bytes(b"RIFF" * 100_000)
    with pytest.raises(CredentialError, match=r"wrong\.pem is too long to hold a private key"):
        ideaw.Signer(authority.chain, wrong)
    wrong.write_text("hello")
    with pytest.raises(CredentialError, match=r"wrong\.pem holds no certificate in PEM form"):
        ideaw.Signer(wrong, authority.key)
    with pytest.raises(CredentialError, match=r"wrong\.pem holds no private key in PEM form"):
        ideaw.Signer(authority.chain, wrong)
    with pytest.raises(CredentialError, match=r"wrong\.pem holds no certificate in PEM form"):
        read_roots(wrong)


def test_an_encrypted_key_is_refused(tmp_path: Path, authority: TestAuthority) -> None:
    key = serialization.load_pem_private_key(authority.key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locking = serialization.BestAvailableEncryption(b"secret")
    pkcs8 = serialization.PrivateFormat.PKCS8
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, locking))
    with pytest.raises(CredentialError, match=r"locked\.pem is encrypted; give the private key without a password"):
        ideaw.Signer(authority.chain, locked)


def test_a_certificate_that_is_not_for_signing_is_refused(tmp_path: Path, authority: TestAuthority) -> None:
    with pytest.raises(CredentialError, match=r"signed by itself.*ideaw testcert"):
        ideaw.Signer(authority.roots, authority.key)
    (leaf,) = x509.load_pem_x509_certificates(authority.chain.read_bytes())
    for_web_servers = (
        x509.CertificateBuilder()
        .subject_name(leaf.subject)
        .issuer_name(leaf.issuer)
        .public_key(leaf.public_key())
        .serial_number(1)
        .not_valid_before(leaf.not_valid_before_utc)
        .not_valid_after(leaf.not_valid_after_utc)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    path = tmp_path / "web.pem"
    path.write_bytes(for_web_servers.public_bytes(serialization.Encoding.PEM))
    with pytest.raises(CredentialError, match=r"not for signing documents"):
        ideaw.Signer(path, authority.key)


ROOT_KEY = ec.generate_private_key(ec.SECP256R1())
NEW_FORM, OLD_FORM = serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL


@pytest.mark.parametrize(
    ("key", "form", "algorithm"),
    [
        (ec.generate_private_key(ec.SECP256R1()), OLD_FORM, "es256"),
        (ec.generate_private_key(ec.SECP384R1()), NEW_FORM, "es384"),
        (ec.generate_private_key(ec.SECP521R1()), NEW_FORM, "es512"),
        (rsa.generate_private_key(65_537, 2_048), OLD_FORM, "ps256"),
        (ed25519.Ed25519PrivateKey.generate(), NEW_FORM, "ed25519"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_kind_of_key_signs(
    authority: TestAuthority, tmp_path: Path, key: Any, form: serialization.PrivateFormat, algorithm: str
) -> None:
    (template,) = x509.load_pem_x509_certificates(authority.chain.read_bytes())
    own = (x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier)
    builder = (
        x509.CertificateBuilder()
        .subject_name(template.subject)
        .issuer_name(template.issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(template.not_valid_before_utc)
        .not_valid_after(template.not_valid_after_utc)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ROOT_KEY.public_key()), False)
    )
    for extension in template.extensions:
        if not isinstance(extension.value, own):
            builder = builder.add_extension(extension.value, extension.critical)
    chain, secret = tmp_path / "cert.pem", tmp_path / "key.pem"
    pem = serialization.Encoding.PEM
    chain.write_bytes(builder.sign(ROOT_KEY, hashes.SHA256()).public_bytes(pem))
    secret.write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    signer = ideaw.Signer(chain, secret)
    assert signer.algorithm == algorithm
    store = sign_digest(hashlib.sha256(b"audio").digest(), "audio/ogg", Claim(7, "recorded"), signer)
    assert read_store(store, b"audio").state == "valid"
    assert read_store(store, b"other").of_other_bytes


def test_a_signer_keeps_its_key_to_itself(
    signer: ideaw.Signer, authority: TestAuthority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert "PRIVATE" not in repr(signer)
    assert repr(signer).startswith("<Signer ideaw TEST, until ")
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(signer)
    exposed = tmp_path / "exposed.pem"
    exposed.write_bytes(authority.key.read_bytes())
    exposed.chmod(0o644)
    with caplog.at_level(logging.WARNING, "ideaw"):
        ideaw.Signer(authority.chain, exposed)
    assert "exposed.pem can be read by other users" in caplog.text
