"""Certificates and keys: what is refused, in one line, before any audio is touched; and the authority for tests."""

import logging
import pickle
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

import ideaw
from ideaw import CredentialError
from ideaw.provenance.credentials import TestAuthority, make_test_authority, read_roots


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
