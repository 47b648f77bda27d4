"""Training audio: any files and packs, mono at 16 kHz, categories drawn equally, silence left out."""

import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
import torch
from numpy.typing import NDArray
from torch import Tensor

from ideaw.attacks.draw import Draw
from ideaw.audio.grid import SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.errors import FileError
from ideaw.train.data import HELD_OUT_EVERY_CLIPS, SegmentPool, clips_under, load_pools

CPU = torch.device("cpu")


def _to_int16(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    return np.rint(samples * 32767).astype(np.int16)


def _pool(clips: dict[str, NDArray[np.float32]], margin: int = 0) -> SegmentPool:
    return SegmentPool([(category, _to_int16(clip)) for category, clip in clips.items()], margin, CPU)


def _origins(pool: SegmentPool, drawn: Tensor) -> Tensor:
    """Which of the pool's starts each drawn segment comes from: the one that it is a multiple of."""
    known = pool.samples[pool.starts[:, None] + torch.arange(SEGMENT_SAMPLES)].float()
    likeness = torch.nn.functional.normalize(drawn) @ torch.nn.functional.normalize(known).T
    assert likeness.amax(1).min() > 0.999
    return likeness.argmax(1)


def test_files_of_any_rate_and_channels_become_mono_at_16_khz(
    folder: Path, speech: NDArray[np.float32], music: NDArray[np.float32]
) -> None:
    clips = list(clips_under(folder))
    assert [category for category, _ in clips] == ["music", "music", "speech", "speech"]
    assert all(clip.dtype == np.int16 and clip.ndim == 1 for _, clip in clips)
    spoken = np.concatenate([clip for category, clip in clips if category == "speech"])
    assert np.abs(spoken / 32768 - speech).max() < 1e-4
    played = np.concatenate([clip for category, clip in clips if category == "music"])
    assert abs(len(played) / SAMPLE_RATE - len(music) / 44_100) < 1e-3
    # The strings lie well below 8 kHz, so their power survives the resampling.
    assert np.square(played / 32768).mean() == pytest.approx(np.square(music.mean(1)).mean(), rel=0.02)


def test_a_tar_pack_gives_what_its_folder_gives(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "pack.tar", "w") as pack:
        pack.add(folder, ".")
    packed, loose = list(clips_under(tmp_path)), list(clips_under(folder))
    assert [category for category, _ in packed] == [category for category, _ in loose]
    assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(packed, loose, strict=True))


def test_files_at_the_top_of_a_pack_belong_to_the_pack(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "voices.tar", "w") as pack:
        pack.add(folder / "speech" / "0.wav", "0.wav")
    assert [category for category, _ in clips_under(tmp_path)] == ["voices"]


def test_mp3_files_are_decoded(tmp_path: Path, music: NDArray[np.float32]) -> None:
    sf.write(tmp_path / "strings.MP3", music, 44_100, format="MP3")
    ((category, clip),) = clips_under(tmp_path)
    assert category == tmp_path.name
    assert len(clip) / SAMPLE_RATE == pytest.approx(len(music) / 44_100, abs=0.1)


def test_other_files_and_folders_named_like_audio_are_passed_over(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "speech", tmp_path / "take.wav")
    (tmp_path / "notes.txt").write_text("not audio")
    assert [category for category, _ in clips_under(tmp_path)] == ["take.wav", "take.wav"]


@pytest.mark.parametrize("name", ["broken.wav", "broken.tar"])
def test_a_broken_file_is_named_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"this is no audio" * 100)
    with pytest.raises(FileError) as caught:
        list(clips_under(tmp_path))
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_audio_is_told_in_one_line(tmp_path: Path, speech: NDArray[np.float32]) -> None:
    with pytest.raises(FileError, match="holds no audio files longer than a second"):
        load_pools(tmp_path, 250, CPU)
    sf.write(tmp_path / "short.wav", speech[:8_000], SAMPLE_RATE)
    with pytest.raises(FileError, match="longer than a second"):
        load_pools(tmp_path, 250, CPU)
    sf.write(tmp_path / "silent.wav", np.zeros(SAMPLE_RATE * 3), SAMPLE_RATE)
    with pytest.raises(FileError, match="no segment of a second above −50 dBFS"):
        load_pools(tmp_path, 250, CPU)
    with pytest.raises(FileError, match="not a folder"):
        load_pools(tmp_path / "short.wav", 250, CPU)


def test_some_clips_are_held_out_for_validation(tmp_path: Path, strings: NDArray[np.float32]) -> None:
    for i in range(HELD_OUT_EVERY_CLIPS + 2):
        sf.write(tmp_path / f"{i:02}.wav", strings[i * 1_000 :][: SEGMENT_SAMPLES + 500], SAMPLE_RATE)
    training, validation = load_pools(tmp_path, 250, CPU)
    assert training.sizes == {tmp_path.name: HELD_OUT_EVERY_CLIPS}
    assert validation.sizes == {tmp_path.name: 2}


def test_segments_come_whole_with_their_margin_and_within_full_scale(speech: NDArray[np.float32]) -> None:
    pool = _pool({"speech": speech}, margin=250)
    drawn = pool.draw(64, Draw.at(1, 0, "cpu"))
    assert drawn.shape == (64, SEGMENT_SAMPLES + 500)
    assert drawn.abs().max() <= 1
    levels = drawn.square().mean(1).sqrt()
    assert levels.max() / levels.min() > 3, "the level hardly varies"
    _origins(pool, drawn[:, 250 : 250 + SEGMENT_SAMPLES])


def test_the_same_seed_and_step_draw_the_same(speech: NDArray[np.float32]) -> None:
    pool = _pool({"speech": speech})
    first, again, later = (pool.draw(8, Draw.at(1, step, "cpu")) for step in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, later)


def test_categories_are_drawn_equally_often_whatever_their_size(
    speech: NDArray[np.float32], strings: NDArray[np.float32]
) -> None:
    pool = _pool({"music": strings, "speech": speech[: 2 * SEGMENT_SAMPLES]})
    assert pool.sizes["music"] > 2 * pool.sizes["speech"]
    origin = _origins(pool, pool.draw(40, Draw.at(1, 0, "cpu")))
    assert int((origin < pool.sizes["music"]).sum()) == 20


def test_more_categories_than_a_batch_holds_are_all_drawn_in_every_place(strings: NDArray[np.float32]) -> None:
    pool = _pool({f"speaker {i}": strings[i * SEGMENT_SAMPLES :][: SEGMENT_SAMPLES + 100] for i in range(5)})
    assert list(pool.sizes.values()) == [1] * 5
    draws = torch.stack([_origins(pool, pool.draw(2, Draw.at(1, step, "cpu"))) for step in range(100)])
    for place in range(2):
        counts = torch.bincount(draws[:, place], minlength=5)
        # 100 draws of five: 20 ± 4 each.
        assert counts.min() >= 5


def test_quiet_segments_are_left_out(speech: NDArray[np.float32]) -> None:
    loud = speech[: 3 * SEGMENT_SAMPLES]
    quiet = loud * 10 ** (-60 / 20)
    pool = _pool({"speech": np.concatenate([loud, quiet])})
    assert pool.sizes["speech"] > 0
    # The last segments that begin in the loud half still hold enough of it.
    assert int(pool.starts.max()) < len(loud)
