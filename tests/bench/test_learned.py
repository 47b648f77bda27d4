"""What can be done with a learned pattern, on real audio: copied, erased, multiplied; and what peers are spared."""

from functools import reduce
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.bench.protocols import learned
from ideaw.bench.protocols.security import NEED_KEYS, NEED_MESSAGES, NEED_NETWORK, THREATS, why_not
from ideaw.bench.protocols.system import IdeawSystem, Settings
from ideaw.bench.transplant import learn, write
from ideaw.keys import PUBLIC
from ideaw.modem.short_frames import RingFrames
from ideaw.payload.message import Message


@pytest.fixture
def system(data: Path) -> IdeawSystem:
    return IdeawSystem(Settings((data / "talk" / "reading.flac", data / "music-strings.wav"), 44_100, 4, 1, 0))


@pytest.mark.slow
def test_a_pattern_is_copied_without_a_key_and_its_negative_erases(system: IdeawSystem) -> None:
    for number in range(2):
        for threat in (learned.transplanted, learned.transplanted_from_mp3):
            case = threat(system, number)
            assert system.search(case.audio, case.key).message == case.right[0]
        case = learned.erased(system, number)
        assert not system.search(case.audio, case.key).found
        clip = system.clip(number)
        assert np.std(case.audio - clip.host) < 1.5 * np.std(clip.marked - clip.host)


@pytest.mark.slow
def test_multiplied_patterns_carry_the_sum_of_words_and_no_message(system: IdeawSystem) -> None:
    case = learned.combined(system, 0)
    assert case.key is not None
    answer = system.search(case.audio, case.key)
    assert not answer.found
    assert system.network is not None
    frames = system.network.channels(case.key).short
    assert isinstance(frames, RingFrames)
    symbols = [frames.symbols(Message.of(message).encode(46)) for message in case.right]
    words = [np.array(frames.decode(row)[1] > 0) for row in symbols]
    assert answer.read == tuple(map(int, reduce(np.logical_xor, words)))
    assert case.right[0] != case.right[1] != case.right[2]


def test_a_written_pattern_is_what_is_learned(system: IdeawSystem, speech: NDArray[np.float32]) -> None:
    assert system.network is not None
    channels, rng = system.network.channels(PUBLIC), np.random.default_rng(0)
    heard = learn(system.network, speech[:32_000])
    signs = [(2 * rng.integers(0, 2, len(part)) - 1).astype(np.float32) for part in (heard.message, heard.code)]
    marked = write(system.network, type(heard)(*signs), speech[:32_000, None], 16_000, (38.0, None))
    again = learn(system.network, marked[:, 0])
    assert len(again.message) == sum(band.tiles for band in channels.message.carriers.bands)
    for sent, received in zip(signs, (again.message, again.code), strict=True):
        assert np.mean(sent == received) > 0.5 + 2 / np.sqrt(len(sent))  # four standard deviations over chance
    ratio = np.sum(np.square(speech[:32_000])) / np.sum(np.square(marked[:, 0] - speech[:32_000]))
    assert 38 <= 10 * np.log10(ratio) < 41


def test_peers_are_spared_what_takes_our_network_keys_or_messages() -> None:
    peer = SimpleNamespace(title="Perth 3.1", network=None, keyed=False, bits=0)
    reasons = {name: why_not(name, peer) for name in THREATS}  # type: ignore[arg-type]
    assert {name for name, why in reasons.items() if why and "extractor of ideaw" in why} == set(NEED_NETWORK)
    assert {name for name, why in reasons.items() if why == "Perth 3.1 has no keys"} == set(NEED_KEYS)
    assert sum(why == "Perth 3.1 carries no message" for why in reasons.values()) == len(NEED_MESSAGES)
    assert [name for name, why in reasons.items() if why is None] == [
        *("marked_again", "copied", "copied_loudly", "shaped_noise")
    ]
