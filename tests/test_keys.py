"""Keys: made, written and read again, refused where they are none, and never shown by accident."""

import copy
import hashlib
import hmac
import logging
import os
import pickle
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ideaw import load
from ideaw.errors import FileError, IdeawError
from ideaw.keys import PUBLIC, Key, derive, require_key

CONTENT = st.binary(min_size=16, max_size=64)


def test_fresh_keys_are_long_and_differ() -> None:
    keys = {Key.fresh() for _ in range(100)}
    assert len(keys) == 100
    assert all(8 * len(key) == 256 for key in keys)


@given(CONTENT)
def test_a_key_is_read_as_it_is_written(content: bytes) -> None:
    key = Key(content)
    assert Key.of(key.hex()) == key == content
    assert Key.of(f"  {key.hex().upper()}\n") == key


def test_a_file_holds_one_line_that_only_its_owner_reads(tmp_path: Path) -> None:
    key, path = Key.fresh(), tmp_path / "studio.key"
    key.write(path)
    assert path.read_text() == f"{key.hex()}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Key.read(path) == key


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "studio.key"
    key = Key.fresh()
    key.write(path)
    with pytest.raises(FileError, match="never overwritten"):
        Key.fresh().write(path)
    assert Key.read(path) == key


@pytest.mark.parametrize("text", ["", "hello", "0" * 31, "12" * 15, "12" * 65, "0x" + "12" * 16, "é" * 32])
def test_what_is_no_key_gets_one_line_that_does_not_repeat_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "no.key"
    path.write_text(text)
    for attempt in (lambda: Key.of(text), lambda: Key.read(path)):
        with pytest.raises(IdeawError, match="32 to 128 hexadecimal digits") as caught:
            attempt()
        assert "\n" not in str(caught.value)
        assert not text or text not in str(caught.value)


def test_a_file_that_is_no_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(bytes(range(256)) * 4096)
    for name, why in (("song.wav", "does not hold a key"), ("none.key", "no such file"), (".", "is a directory")):
        with pytest.raises(FileError, match=why) as caught:
            Key.read(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


def test_a_key_does_not_show_itself() -> None:
    key = Key.fresh()
    for shown in (repr(key), str(key), f"{key}", f"{[key]}"):
        assert "256 bits" in shown
        assert key.hex() not in shown
        assert repr(bytes(key)) not in shown


def test_every_purpose_has_a_secret_of_its_own() -> None:
    labels = (b"carriers of the message", b"carriers of the code", b"locating code", b"check of a frame")
    secrets = {derive(key, label) for key in (PUBLIC, Key.fresh()) for label in labels}
    assert len(secrets) == 8
    # RFC 4231, test case 2.
    assert derive(b"Jefe", b"what do ya want for nothing?").hex().startswith("5bdcc146bf60754e6a042426089575c7")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_key_is_never_pickled(protocol: int) -> None:
    key = Key.fresh()
    for holder in (key, [key], {"key": key}):
        with pytest.raises(TypeError, match=r"store it with Key\.write, or store its fingerprint"):
            pickle.dumps(holder, protocol)
    assert copy.copy(key) is key
    assert copy.deepcopy([key]) == [key]


@given(CONTENT)
def test_a_fingerprint_is_a_truncated_hmac_of_the_key(content: bytes) -> None:
    expected = hmac.digest(content, b"fingerprint", hashlib.sha256)[:8].hex()
    assert Key(content).fingerprint == expected
    assert content.hex() not in expected


def test_the_public_fingerprint_never_changes() -> None:
    assert PUBLIC.fingerprint == "17b5039992a356ef"


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such permissions")
@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_a_key_file_that_others_may_read_gets_a_warning(
    mode: int, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key, path = Key.fresh(), tmp_path / "studio.key"
    key.write(path)
    path.chmod(mode)
    with caplog.at_level(logging.WARNING, "ideaw"):
        assert Key.read(path) == key
    assert [record.name for record in caplog.records] == ["ideaw"] * warned
    assert ("chmod 600" in caplog.text) == warned
    assert key.hex() not in caplog.text


@pytest.mark.parametrize("value", ["00" * 16, bytes(16), None, 7])
def test_what_is_not_a_key_object_gets_one_line(value: object) -> None:
    with pytest.raises(IdeawError, match=r"a key is an ideaw\.Key, not \w+; make one with Key\.read") as caught:
        require_key(value)
    assert "\n" not in str(caught.value)


def test_a_key_object_is_returned_as_it_is() -> None:
    key = Key.fresh()
    assert require_key(key) is key


def test_a_derived_key_is_the_same_again_and_of_its_label_alone() -> None:
    master, other = Key(bytes(range(32))), Key(bytes(32))
    labels = ["acme", "Acme", "acme ", "Müller", "fingerprint", "x" * 1000]
    derived = [key.derive(label) for key in (master, other) for label in labels]
    assert len({master, other, *derived}) == 14
    assert derived[: len(labels)] == [master.derive(label) for label in labels]
    assert master.derive("acme") == hmac.digest(master, b"derived key: acme", "sha256")
    assert master.derive("acme").derive("b") != master.derive("acme: b")
    for no_label in ("", None, b"acme"):
        with pytest.raises(IdeawError, match="label"):
            master.derive(no_label)  # type: ignore[arg-type]


def test_a_rotated_file_marks_with_the_newest_and_keeps_all(tmp_path: Path) -> None:
    path, first = tmp_path / "studio.key", Key.fresh()
    first.write(path)
    second, third = Key.rotate(path), Key.rotate(path)
    assert (Key.read(path), Key.read_all(path)) == (third, [third, second, first])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["studio.key"]


def test_a_rotation_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    full, none = tmp_path / "full.key", tmp_path / "no.key"
    full.write_text("\n".join(Key.fresh().hex() for _ in range(252)))
    none.write_text("hello")
    before = full.read_text()
    for path, why in ((full, "as many"), (none, "does not hold"), (tmp_path / "new.key", "no such file")):
        with pytest.raises(FileError, match=why):
            Key.rotate(path)
    assert (full.read_text(), none.read_text(), len(list(tmp_path.iterdir()))) == (before, "hello", 2)


def test_a_file_of_keys_with_one_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "studio.key"
    for content in (f"{Key.fresh().hex()}\nhello\n", "\n\n", f"{Key.fresh().hex()}\n" * 1000):
        path.write_text(content)
        with pytest.raises(FileError, match="does not hold a key"):
            Key.read_all(path)


@pytest.mark.slow
def test_a_marker_finds_what_its_older_keys_marked(speech: NDArray[np.float32]) -> None:
    old, new, other = (Key(bytes([number]) * 32) for number in range(3))
    rotated = load(key=new, older_keys=[old])
    by_key = {key: load(key=key).embed(speech, 16_000, "ab12") for key in (old, new, other)}
    assert [rotated.detect(samples, 16_000).key for samples in by_key.values()] == [
        old.fingerprint,
        new.fingerprint,
        None,
    ]
    assert rotated.detect(rotated.embed(speech, 16_000, "ab12"), 16_000, keys=[old]).found is False
    with pytest.raises(TypeError, match="secret key"):
        pickle.dumps(load(older_keys=[old]))
