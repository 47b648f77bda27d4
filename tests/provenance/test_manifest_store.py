"""Manifest stores by their labels: ours lead to ids, and bytes that are no store are told from one."""

from pathlib import Path

import pytest
import soundfile as sf
from numpy.typing import NDArray

from ideaw.errors import RegistryError
from ideaw.provenance.credentials import Signer, make_test_authority
from ideaw.provenance.manifest import Claim, read_store, sign_digest, sign_file
from ideaw.provenance.manifest_store import active_label, fresh_label, labelled_id, only_active


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    made = make_test_authority(tmp_path_factory.mktemp("authority") / "certs")
    return Signer(made.chain, made.key)


def test_a_label_begins_with_its_id_and_differs_every_time() -> None:
    labels = {fresh_label(0x00A1B2C3) for _ in range(8)}
    assert len(labels) == 8
    assert {labelled_id(label) for label in labels} == {0x00A1B2C3}
    assert labelled_id("urn:c2pa:00a1b2c3-3951-1c9a-8c53-5d87b4a799f6") is None  # a UUID, and none that was drawn
    assert labelled_id("xmp:iid:00a1b2c3-3951-4c9a-8c53-5d87b4a799f6") is None


def test_the_active_manifest_is_taken_from_beside_its_ingredients(
    tmp_path: Path, signer: Signer, speech: NDArray
) -> None:
    plain, first, second = (tmp_path / f"{name}.wav" for name in ("plain", "first", "second"))
    sf.write(plain, speech, 16_000)
    with first.open("wb+") as signed:
        inner = sign_file(plain, signed, Claim(1, "generated"), signer)
    with second.open("wb+") as signed:
        store = sign_file(first, signed, Claim(2, None, first), signer)
    assert inner is not None
    assert store is not None
    alone = only_active(store)
    assert active_label(inner).encode() in store
    assert labelled_id(active_label(store)) == labelled_id(active_label(alone)) == 2
    assert active_label(inner).encode() not in alone.partition(active_label(alone).encode())[0]
    assert len(alone) <= len(store) - len(inner) + 100
    assert only_active(inner) == inner
    assert read_store(alone).record_ids == (2,)


def test_what_is_no_store_is_one_line(signer: Signer) -> None:
    store = sign_digest(bytes(32), "application/octet-stream", Claim(1, "generated"), signer)
    damaged = [store[:end] for end in range(0, len(store), 97)]
    damaged += [store + b"x", b"\0\0\0\x08free", store[:4] + b"free" + store[8:], b"RIFF" * 100]
    for content in damaged:
        for read in (active_label, only_active):
            with pytest.raises(RegistryError, match="no C2PA manifest store"):
                read(content)
