"""Verdicts: every row of the table, reached by real files; a mark alone never makes audio authentic."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from ideaw import CredentialError
from ideaw.attacks import catalogue
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.audio.write import write_audio
from ideaw.bench.transplant import transplant
from ideaw.provenance.credentials import make_test_authority
from ideaw.provenance.manifest import Claim, sidecar_of, sign_file
from ideaw.provenance.records import id_message, written_id
from ideaw.provenance.verdict import verdict_as_json
from ideaw.provenance.verify import RegistryResolver
from tests.provenance.credentials.conftest import Issued

Verify = Callable[..., ideaw.Verdict]


@pytest.fixture
def verify(shelf: ideaw.Registry, roots: bytes, marker: ideaw.Marker, tmp_path: Path) -> Verify:
    """The verdict on a file or on samples at 16 kHz, by the registry that knows what was issued."""

    def judge(found: Path | NDArray[np.floating], **options: object) -> ideaw.Verdict:
        if not isinstance(found, Path):
            sf.write(tmp_path / "found.wav", found, SAMPLE_RATE)
            found = tmp_path / "found.wav"
        return ideaw.verify_file(found, **{"registry": shelf, "roots": roots, "marker": marker} | options)  # type: ignore[arg-type]

    return judge


# Authentic


def test_what_was_issued_is_authentic(spoken: Issued, verify: Verify) -> None:
    verdict = verify(spoken.path)
    assert (verdict.status, verdict.record_id, verdict.issuer) == ("authentic", spoken.id, "ideaw TEST")
    assert verdict.record == spoken.credential.record
    assert verdict.created == spoken.credential.record.created
    assert verdict.manifest.state == "trusted"
    assert verdict.reason.startswith(f"the mark leads to the record {written_id(spoken.id)} of ")
    assert verdict.reason.endswith("signed by ideaw TEST (trusted: ideaw TEST authority, not trusted)")
    (place,) = verdict.segments
    assert (place.start, place.record_id) == (0, spoken.id)
    assert place.end == pytest.approx(6, abs=1)


def test_an_authority_that_is_not_trusted_is_told(spoken: Issued, verify: Verify) -> None:
    verdict = verify(spoken.path, roots=None)
    assert (verdict.status, verdict.manifest.state) == ("authentic", "valid")
    assert verdict.reason.endswith("signed by ideaw TEST (not among the trusted roots)")


def test_a_stripped_manifest_leaves_mark_and_record(spoken: Issued, verify: Verify) -> None:
    verdict = verify(spoken.marked)
    assert (verdict.status, verdict.manifest.state, verdict.issuer) == ("authentic", "none", "ideaw TEST")
    assert verdict.reason.endswith("the audio is that recording; its manifest was stripped")


@pytest.mark.slow
@pytest.mark.parametrize(
    "edit",
    [("mp3", {}), ("noise", {"snr": 25.0}), ("speed", {}), ("tempo", {"factor": 0.9}), ("amplitude", {"gain": 0.3})],
)
def test_usual_edits_stay_authentic(played: Issued, verify: Verify, edit: tuple[str, dict[str, float]]) -> None:
    name, strengths = edit
    verdict = verify(catalogue.run(name, played.marked, SAMPLE_RATE, **strengths))
    assert (verdict.status, verdict.record_id) == ("authentic", played.id)
    assert verdict.segments[-1].end <= 6 / strengths.get("factor", 1) + 1e-3


def test_a_cut_of_three_seconds_is_authentic(spoken: Issued, verify: Verify) -> None:
    assert verify(spoken.marked[20_000:68_000]).status == "authentic"


def test_audio_that_was_edited_under_its_manifest_is_told(spoken: Issued, verify: Verify, tmp_path: Path) -> None:
    content = bytearray(spoken.path.read_bytes())
    content[content.find(b"data") + 50_000] ^= 1
    (tmp_path / "edited.wav").write_bytes(content)
    verdict = verify(tmp_path / "edited.wav")
    assert (verdict.status, verdict.manifest.state) == ("authentic", "tampered")
    assert verdict.reason.endswith("its manifest does not fit: the file was changed after it was signed")


def test_a_manifest_of_another_file_is_told(spoken: Issued, played: Issued, verify: Verify, tmp_path: Path) -> None:
    path = tmp_path / "found.flac"
    sf.write(path, spoken.marked, SAMPLE_RATE)
    sidecar_of(path).write_bytes(played.credential.manifest or b"")
    verdict = verify(path)
    assert (verdict.status, verdict.record_id, verdict.manifest.beside) == ("authentic", spoken.id, True)
    assert verdict.reason.endswith("its manifest does not fit: it was signed for other content")


def test_a_manifest_that_names_another_mark_is_told(
    spoken: Issued, verify: Verify, signer: ideaw.Signer, tmp_path: Path
) -> None:
    sf.write(tmp_path / "plain.wav", spoken.marked, SAMPLE_RATE)
    with (tmp_path / "found.wav").open("wb+") as file:
        sign_file(tmp_path / "plain.wav", file, Claim(spoken.id ^ 1, "recorded"), signer)
    verdict = verify(tmp_path / "found.wav")
    assert (verdict.status, verdict.manifest.state) == ("authentic", "trusted")
    assert "its manifest, signed by ideaw TEST" in verdict.reason
    assert verdict.reason.endswith("does not name this mark")


def test_a_signature_of_somebody_else_on_issued_audio_is_told(
    spoken: Issued, strings: NDArray[np.float32], marker: ideaw.Marker, verify: Verify, tmp_path: Path
) -> None:
    made = make_test_authority(tmp_path / "somebody")
    sf.write(tmp_path / "plain.wav", spoken.marked, SAMPLE_RATE)
    with (tmp_path / "found.wav").open("wb+") as file:
        sign_file(tmp_path / "plain.wav", file, Claim(spoken.id, "recorded"), ideaw.Signer(made.chain, made.key))
    verdict = verify(tmp_path / "found.wav")
    assert (verdict.status, verdict.manifest.state) == ("authentic", "valid")
    assert verdict.reason.endswith("signed anew, not as it was issued, by ideaw TEST (not among the trusted roots)")


@pytest.mark.slow
def test_stereo_at_its_own_rate_is_authentic(
    music: NDArray[np.float32], shelf: ideaw.Registry, marker: ideaw.Marker, verify: Verify, tmp_path: Path
) -> None:
    write_audio(tmp_path / "in.flac", music.astype(np.float64), 44_100)
    ideaw.issue_file(tmp_path / "in.flac", tmp_path / "out.flac", registry=shelf, marker=marker)
    ideaw.issue_file(tmp_path / "in.flac", tmp_path / "out.mp3", registry=shelf, marker=marker)
    first, second = verify(tmp_path / "out.flac"), verify(tmp_path / "out.mp3")
    assert [verdict.status for verdict in (first, second)] == ["authentic", "authentic"]
    assert first.record_id != second.record_id
    assert first.reason.endswith("and the audio is that recording")
    assert first.issuer is None


# Copied, or in part


@pytest.mark.parametrize("through", [None, 128])
def test_a_transplanted_mark_is_called_copied(
    spoken: Issued, played: Issued, marker: ideaw.Marker, verify: Verify, through: int | None
) -> None:
    for theirs, other in ((spoken, played), (played, spoken)):
        heard = theirs.marked if through is None else catalogue.run("mp3", theirs.marked, SAMPLE_RATE, kbps=through)
        forged = transplant(marker.network, heard, other.original)
        assert marker.detect(forged, SAMPLE_RATE).message == id_message(theirs.id)
        verdict = verify(forged)
        assert (verdict.status, verdict.record_id, verdict.segments) == ("copied", theirs.id, ())
        assert "the audio is not that recording: the mark was copied" in verdict.reason


def test_one_id_in_two_files_is_authentic_in_one(
    spoken: Issued, played: Issued, marker: ideaw.Marker, verify: Verify
) -> None:
    forged = transplant(marker.network, spoken.marked, played.original)
    verdicts = [verify(spoken.path), verify(forged)]
    assert [verdict.record_id for verdict in verdicts] == [spoken.id, spoken.id]
    assert [verdict.status for verdict in verdicts] == ["authentic", "copied"]


def test_a_replaced_half_is_told_apart(spoken: Issued, played: Issued, verify: Verify) -> None:
    half = len(spoken.marked) // 2
    verdict = verify(np.concatenate([played.original[:half], spoken.marked, played.original[:half]]))
    assert (verdict.status, verdict.record_id) == ("partial", spoken.id)
    (place,) = verdict.segments
    assert (place.start, place.end) == pytest.approx((3, 9), abs=1.5)
    assert "is what was marked, and the rest is other audio" in verdict.reason


def test_joined_recordings_lead_to_both_records(spoken: Issued, played: Issued, verify: Verify) -> None:
    verdict = verify(np.concatenate([spoken.marked, played.marked]))
    assert verdict.status == "partial"
    assert [place.record_id for place in verdict.segments] == [spoken.id, played.id]
    assert all(written_id(issued.id) in verdict.reason for issued in (spoken, played))


# Nothing that is known here


def test_a_signed_file_of_another_registry_is_called_signed(spoken: Issued, verify: Verify, tmp_path: Path) -> None:
    name = written_id(spoken.id)
    with ideaw.Registry(f"sqlite:///{tmp_path / 'other.db'}") as other:
        unknown = verify(spoken.path, registry=other)
    assert (unknown.status, unknown.record, unknown.issuer) == ("signed", None, "ideaw TEST")
    assert f"as {name}, which its mark says too; the registry does not know it" in unknown.reason
    assert verify(spoken.path, registry=None).reason.endswith("no registry was asked")


def test_a_mark_without_record_and_manifest_is_unknown(spoken: Issued, verify: Verify) -> None:
    verdict = verify(spoken.marked, registry=None)
    assert (verdict.status, verdict.record, verdict.issuer) == ("unknown", None, None)
    assert written_id(spoken.id) in verdict.reason


def test_a_record_of_another_key_is_not_that_of_a_mark(
    spoken: Issued, strings: NDArray[np.float32], verify: Verify
) -> None:
    key = ideaw.Key.fresh()
    stranger = ideaw.load(key=key, threads=1)
    verdict = verify(stranger.embed(strings, SAMPLE_RATE, id_message(spoken.id)), keys=[key])
    assert (verdict.status, verdict.record) == ("unknown", None)
    assert verdict.detection.message == id_message(spoken.id)


def test_a_mark_that_is_no_id_is_unknown(strings: NDArray[np.float32], marker: ideaw.Marker, verify: Verify) -> None:
    verdict = verify(marker.embed(strings, SAMPLE_RATE, "hey"))
    assert verdict.status == "unknown"
    assert 'whose message "hey" is no id' in verdict.reason


def test_a_message_that_is_mostly_cut_off_is_unreadable(
    speech: NDArray[np.float32], marker: ideaw.Marker, verify: Verify
) -> None:
    long = marker.embed(np.tile(speech, 5), SAMPLE_RATE, "x" * 60)[: 4 * SAMPLE_RATE]
    verdict = verify(long)
    assert (verdict.status, verdict.detection.status) == ("unreadable", "unreadable")


def test_a_foreign_manifest_without_a_mark_is_unmarked(
    strings: NDArray[np.float32], signer: ideaw.Signer, verify: Verify, tmp_path: Path
) -> None:
    sf.write(tmp_path / "plain.wav", strings, SAMPLE_RATE)
    with (tmp_path / "foreign.wav").open("wb+") as file:
        sign_file(tmp_path / "plain.wav", file, Claim(5, "recorded"), signer)
    verdict = verify(tmp_path / "foreign.wav")
    assert (verdict.status, verdict.record, verdict.issuer) == ("unmarked", None, "ideaw TEST")
    assert "there is no mark of these keys; it names 00000005" in verdict.reason
    assert "very file" not in verdict.reason


def test_a_file_whose_mark_was_not_asked_for_is_known_by_its_bytes(spoken: Issued, verify: Verify) -> None:
    verdict = verify(spoken.path, keys=[ideaw.Key.fresh()])
    assert verdict.status == "unmarked"
    assert verdict.reason.endswith(f"it names {written_id(spoken.id)}, of which this is the very file")


def test_of_plain_audio_nothing_is_known(spoken: Issued, verify: Verify, tmp_path: Path) -> None:
    verdict = verify(spoken.original)
    assert (verdict.status, verdict.reason) == ("none", "there is no mark of these keys; no manifest")
    sidecar_of(tmp_path / "found.wav").write_bytes(spoken.credential.manifest or b"")
    verdict = verify(spoken.original)
    assert (verdict.status, verdict.manifest.state) == ("none", "tampered")
    assert verdict.reason.endswith("its manifest does not fit: it was signed for other content")
    sidecar_of(tmp_path / "found.wav").write_bytes(b"no manifest")
    assert verify(spoken.original).status == "none"


# The rest of the contract


def test_another_resolver_than_a_registry_will_do(spoken: Issued, shelf: ideaw.Registry, verify: Verify) -> None:
    asked = []

    class Elsewhere:
        def by_id(self, id: int) -> ideaw.Record | None:
            asked.append(id)
            return RegistryResolver(shelf).by_id(id)

    assert verify(spoken.path, registry=Elsewhere()).status == "authentic"
    assert asked == [spoken.id]


def test_a_verdict_for_machines_says_all(spoken: Issued, marker: ideaw.Marker, verify: Verify) -> None:
    told = verdict_as_json(verify(spoken.path), {marker.key_fingerprint: None})
    assert (told["status"], told["issuer"]) == ("authentic", "ideaw TEST")
    assert told["record"]["id"] == told["manifest"]["record_ids"][0] == written_id(spoken.id)
    assert told["manifest"]["state"] == "trusted"
    assert told["detection"]["message"] == written_id(spoken.id)
    assert told["segments"][0]["record"] == written_id(spoken.id)


def test_what_is_no_audio_and_roots_that_are_none_are_errors(spoken: Issued, verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("hello")
    with pytest.raises(ideaw.FileError, match="not an audio file"):
        verify(tmp_path / "text.wav")
    with pytest.raises(CredentialError, match="what is to be trusted holds no certificate in PEM form"):
        verify(spoken.path, roots=b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


# The deep layer alone


def test_an_id_that_the_deep_layer_has_no_room_for_is_tested_where_it_is_named(
    strings: NDArray[np.float32],
    shelf: ideaw.Registry,
    signer: ideaw.Signer,
    marker: ideaw.Marker,
    verify: Verify,
    tmp_path: Path,
) -> None:
    sf.write(tmp_path / "in.wav", strings, SAMPLE_RATE)
    path = tmp_path / "out.wav"
    issued = ideaw.issue_file(
        tmp_path / "in.wav", path, registry=shelf, signer=signer, marker=marker, origin="recorded", layers="deep"
    )
    assert (verify(path).status, verify(path).record_id) == ("authentic", issued.record.id)  # by its manifest
    stripped = sf.read(path)[0]
    assert verify(stripped).status == "unreadable"
    assert verify(stripped, expected=[issued.record.id ^ 1]).status == "unreadable"
    assert verify(stripped, expected=[issued.record.id]).record_id == issued.record.id


def test_a_manifest_beside_an_unreadable_mark_is_not_said_to_be_another_s(
    played: Issued, spoken: Issued, marker: ideaw.Marker, signer: ideaw.Signer, verify: Verify, tmp_path: Path
) -> None:
    sf.write(tmp_path / "plain.wav", marker.embed(spoken.original, SAMPLE_RATE, b"abcd", layers="deep"), SAMPLE_RATE)
    with (tmp_path / "signed.wav").open("wb+") as signed:
        sign_file(tmp_path / "plain.wav", signed, Claim(played.id, "recorded"), signer)
    verdict = verify(tmp_path / "signed.wav")
    assert verdict.status == "unreadable"
    assert verdict.reason.endswith("may name another mark")
