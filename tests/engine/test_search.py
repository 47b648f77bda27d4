"""The search: however audio arrives and wherever chunks end, the same marks are found, once, and in bounded work."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from plans import plan_of

from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.engine import features, search
from ideaw.engine.correlate import MAX_DRIFT_HOPS, Track, find_tracks
from ideaw.engine.decode import decode_seconds
from ideaw.engine.embedder import Embedder, EmbedSettings
from ideaw.engine.features import READ_CONTEXT_HOPS, ChunkFeatures
from ideaw.engine.network import Network
from ideaw.engine.search import CHUNK_HOPS, READ_ALL_UP_TO_SECONDS, READ_STRIDE, MarkedStretch, Search
from ideaw.engine.significance import CANDIDATE_P
from ideaw.keys import PUBLIC
from ideaw.modem.channel import KeyChannels
from ideaw.payload.message import Message

KEYS = 250

END_HOPS = 2
"""Hops at an end of the audio that hold too little of a mark to be told from none."""
"""Random keys for the statistics; always the same ones, so that a test passes always or never."""


def _embedded(network: Network, audio: NDArray[np.float32], text: str, key: bytes = PUBLIC) -> NDArray[np.float32]:
    """(n,) at 16 kHz with a text in every second, or spread over as many as it needs."""
    return _marked_with(network, audio, plan_of(Message(text), network.card.message_bits, key).symbols, key)


def _marked_with(
    network: Network, audio: NDArray[np.float32], symbols: NDArray[np.float32], key: bytes = PUBLIC
) -> NDArray[np.float32]:
    """(n,) at 16 kHz with (period, slots) in its seconds."""
    settings = EmbedSettings(SAMPLE_RATE, 1, network.card.snr, 0.0)
    embedder = Embedder(network, network.channels(key), symbols, settings)
    return np.concatenate([embedder.push(audio[:, None]), embedder.finish()])[:, 0].astype(np.float32)


def _search(network: Network, *keys: bytes, chunk_hops: int = CHUNK_HOPS) -> Search:
    return Search(network, [network.channels(key) for key in keys or (PUBLIC,)], chunk_hops)


def _stretches(marks: Search, *pieces: NDArray[np.float32]) -> list[MarkedStretch]:
    for piece in pieces:
        marks.push(piece[:, None])
    marks.finish()
    return marks.stretches


def _text(stretch: MarkedStretch) -> str | None:
    return None if stretch.decoded.message is None else str(stretch.decoded.message.content)


@pytest.fixture(scope="module")
def unmarked(speech: NDArray[np.float32], strings: NDArray[np.float32]) -> NDArray[np.float32]:
    """Twelve seconds of speech and music."""
    return np.concatenate([speech, strings])


@pytest.fixture(scope="module")
def marked(network: Network, unmarked: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same with "hey" in every second."""
    return _embedded(network, unmarked, "hey")


def _silent(stretch: MarkedStretch) -> NDArray[np.bool_]:
    """(seconds,) of `unmarked` that may have no weight: the second one is a pause."""
    silent = np.arange(len(stretch.starts)) == 1
    assert stretch.scores[~silent].min() > 3
    assert stretch.scores[silent].max() < 0.5 * np.median(stretch.scores)
    return silent


# However the audio arrives


def _cut(audio: NDArray[np.float32], most: int) -> list[NDArray[np.float32]]:
    """In pieces of random lengths below `most`, some of them empty."""
    places = np.cumsum(np.random.default_rng(most).integers(0, most, 4 * len(audio) // most))
    return np.split(audio, places[places < len(audio)])


@pytest.mark.slow
@pytest.mark.parametrize("chunk_hops", [100, CHUNK_HOPS])
def test_cuts_change_nothing(network: Network, marked: NDArray[np.float32], chunk_hops: int) -> None:
    audio = marked[5_000 : 5_000 + 7 * SEGMENT_SAMPLES]
    (at_once,) = _stretches(_search(network, chunk_hops=chunk_hops), audio)
    for most in (200, 50_000):
        (in_pieces,) = _stretches(_search(network, chunk_hops=chunk_hops), *_cut(audio, most))
        assert (in_pieces.first, in_pieces.last, in_pieces.log_p) == (at_once.first, at_once.last, at_once.log_p)
        for kind in ("starts", "scores", "llrs"):
            assert np.array_equal(getattr(in_pieces, kind), getattr(at_once, kind))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chunk_hops", "cut"),
    [(50, 5 * SEGMENT_SAMPLES + 4_321), (3 * FRAMES_PER_SECOND, 0), (5 * FRAMES_PER_SECOND + 1, 4_321)],
)
def test_a_mark_through_all_chunks_is_one_stretch(
    network: Network, marked: NDArray[np.float32], chunk_hops: int, cut: int
) -> None:
    audio = marked[cut:]
    (whole,), (joined,) = (
        _stretches(_search(network, chunk_hops=length), audio) for length in (CHUNK_HOPS, chunk_hops)
    )
    assert np.abs(joined.starts - whole.starts).max() <= 1  # every second once, and none twice
    assert (joined.first, joined.last) == pytest.approx((0, -(-len(audio) // HOP_SAMPLES)), abs=END_HOPS)
    assert joined.llrs.shape == (len(joined.starts), network.card.message_slots)
    assert _text(joined) == "hey"
    # A mean over less audio is taken away, so scores differ a little; but no second is half heard.
    assert (joined.scores > 0.9 * whole.scores - 0.5).all()


@pytest.mark.slow
@pytest.mark.parametrize("begin", [-140, -64, -33, -1, 31])
def test_a_mark_near_the_end_of_a_chunk_is_found_once_and_where_it_is(
    network: Network, marked: NDArray[np.float32], unmarked: NDArray[np.float32], begin: int
) -> None:
    chunk_hops = 5 * FRAMES_PER_SECOND
    first, last = chunk_hops + begin, chunk_hops + begin + FRAMES_PER_SECOND
    audio = unmarked.copy()
    audio[first * HOP_SAMPLES : last * HOP_SAMPLES] = marked[first * HOP_SAMPLES : last * HOP_SAMPLES]
    (whole,), (stretch,) = (
        _stretches(_search(network, chunk_hops=length), audio) for length in (CHUNK_HOPS, chunk_hops)
    )
    # A border is where evidence ends, and up to half a second of noise may look like some, as the word's signs are.
    assert (stretch.first, stretch.last) == pytest.approx((first, last), abs=FRAMES_PER_SECOND // 2)
    assert np.sort(stretch.scores)[-1] > 0.9 * np.sort(whole.scores)[-1]  # it was heard whole
    assert _text(stretch) == "hey"


@pytest.mark.parametrize("seconds", [0.25, 0.4, 0.6])
def test_a_piece_of_a_second_at_either_end_is_stretches(
    network: Network, marked: NDArray[np.float32], unmarked: NDArray[np.float32], seconds: float
) -> None:
    length, hops = int(seconds * SEGMENT_SAMPLES), -(-seconds * FRAMES_PER_SECOND // 1)
    middle = unmarked[3 * SEGMENT_SAMPLES : 6 * SEGMENT_SAMPLES]
    piece = marked[2 * SEGMENT_SAMPLES : 2 * SEGMENT_SAMPLES + length]
    (after,) = _stretches(_search(network), np.concatenate([middle, piece]))
    # So short a piece may seem to reach some way into what is beside it.
    assert (after.first, after.last) == (
        pytest.approx(3 * FRAMES_PER_SECOND, abs=FRAMES_PER_SECOND // 2),
        pytest.approx(3 * FRAMES_PER_SECOND + hops, abs=END_HOPS),
    )
    (before,) = _stretches(_search(network), np.concatenate([piece, middle]))
    assert (before.first, before.last) == (
        pytest.approx(0, abs=END_HOPS),
        pytest.approx(hops, abs=2 * FRAMES_PER_SECOND // 3),
    )


@pytest.mark.slow
def test_two_marks_apart_are_two_stretches_in_their_order(network: Network, marked: NDArray[np.float32]) -> None:
    audio = np.concatenate(
        [
            marked[2 * SEGMENT_SAMPLES : 5 * SEGMENT_SAMPLES],
            np.zeros(SEGMENT_SAMPLES // 3, np.float32),
            marked[-4 * SEGMENT_SAMPLES :],
        ]
    )
    for chunk_hops in (200, CHUNK_HOPS):
        one, other = _stretches(_search(network, chunk_hops=chunk_hops), audio)
        # With 2 of 12 other messages, too, the border before the pause is found 10 hops early.
        assert (one.first, one.last) == pytest.approx((0, 3 * FRAMES_PER_SECOND), abs=10)
        assert (other.first, other.last) == pytest.approx(
            (3 * FRAMES_PER_SECOND + FRAMES_PER_SECOND // 3, len(audio) / HOP_SAMPLES), abs=4
        )


@pytest.mark.parametrize("length", [0, 1, HOP_SAMPLES, HOP_SAMPLES + 1, SEGMENT_SAMPLES // 3])
def test_less_than_a_second_can_be_searched(network: Network, marked: NDArray[np.float32], length: int) -> None:
    short = _search(network, chunk_hops=FRAMES_PER_SECOND)
    stretches = _stretches(short, marked[:length])
    assert short.chunks == (length > 0)
    assert all(stretch.log_p < np.log(CANDIDATE_P) for stretch in stretches)


@pytest.mark.slow
def test_no_more_is_analysed_at_once_than_a_chunk_and_its_surroundings(
    network: Network, marked: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = []

    def analyse(network: Network, audio: NDArray[np.float32], hop_samples: int) -> ChunkFeatures:
        lengths.append(len(audio))
        return ChunkFeatures(network, audio, hop_samples)

    monkeypatch.setattr(search, "ChunkFeatures", analyse)
    in_pieces = _search(network, chunk_hops=3 * FRAMES_PER_SECOND)
    for piece in _cut(marked, 3_000):
        in_pieces.push(piece[:, None])
    assert len(lengths) == in_pieces.chunks == 3
    in_pieces.finish()
    assert max(lengths) <= (3 * FRAMES_PER_SECOND + 2 * in_pieces.margin_hops) * HOP_SAMPLES


# What the network hears


@pytest.mark.slow
def test_the_networks_blocks_change_nothing(
    network: Network, marked: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    audio = marked[: 4 * SEGMENT_SAMPLES + 100, None]
    analysed = {}
    for block in (17, FRAMES_PER_SECOND, 100 * FRAMES_PER_SECOND):
        monkeypatch.setattr(features, "MAX_INFERENCE_HOPS", block)
        analysed[block] = ChunkFeatures(network, audio)
    whole = analysed.pop(100 * FRAMES_PER_SECOND)
    assert whole.code.shape == (4 * FRAMES_PER_SECOND + 1, network.card.bins // 2)
    for block, parts in analysed.items():
        monkeypatch.setattr(features, "MAX_INFERENCE_HOPS", block)
        for streams in ((parts.code, whole.code), [one.message((0, one.hops)) for one in (parts, whole)]):
            assert np.linalg.norm(np.subtract(*streams)) < 5e-2 * np.linalg.norm(streams[1])  # eight bits round far


@pytest.mark.slow
def test_any_number_of_threads_finds_the_same(
    network: Network, marked: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_threads = {}
    for threads in (1, 2, 4):
        monkeypatch.setattr(network, "workers", threads)
        (by_threads[threads],) = _stretches(_search(network), marked)
    alone = by_threads.pop(1)
    for stretch in by_threads.values():
        assert np.array_equal(stretch.starts, alone.starts)
        assert (stretch.first, stretch.last) == (alone.first, alone.last)
        assert stretch.scores == pytest.approx(alone.scores, rel=0.05)
        assert _text(stretch) == "hey"


def test_the_message_is_read_where_it_is_asked_for_and_once(
    network: Network, marked: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ChunkFeatures(network, marked[: 5 * SEGMENT_SAMPLES, None]).message((-10, 10_000))
    parts = ChunkFeatures(network, marked[: 5 * SEGMENT_SAMPLES, None])
    assert not parts.message().any()
    read, lengths = Network.read, []
    monkeypatch.setattr(Network, "read", lambda self, state: lengths.append(state[0].shape[2]) or read(self, state))
    for spans in ([(-3, 20), (77, 200)], [(10, 20)], [(50, 150), (190, 210)]):
        stream = parts.message(*spans)
    asked = np.r_[0:20, 50:210]
    # From hop 0 to 20, 77 to 200, then 50 to 77 and 200 to 210, each with its context.
    context = READ_CONTEXT_HOPS
    assert sorted(lengths) == sorted([20 + context, 123 + 2 * context, 27 + 2 * context, 10 + 2 * context])
    known = slice(50 + FRAMES_PER_SECOND // 2, 210 - FRAMES_PER_SECOND // 2)  # with all of the second around
    # Only READ_CONTEXT_HOPS of what the network can see beside a part is heard with it.
    assert np.linalg.norm(stream[known] - whole[known]) < 0.15 * np.linalg.norm(whole[known])
    assert not np.delete(stream, asked, 0).any()


def test_streams_of_channels_add_up(
    network: Network, marked: NDArray[np.float32], unmarked: NDArray[np.float32]
) -> None:
    audio = np.stack([marked[: 3 * SEGMENT_SAMPLES], unmarked[: 3 * SEGMENT_SAMPLES]], 1)
    audio[SEGMENT_SAMPLES : 2 * SEGMENT_SAMPLES, 1] = 0
    span = (40, 150)
    both, *alone = (ChunkFeatures(network, part) for part in (audio, audio[:, :1], audio[:, 1:]))
    assert np.array_equal(both.codes, np.concatenate([one.codes for one in alone]))
    assert np.allclose(both.code, alone[0].code + alone[1].code, atol=1e-4)
    first, second = (one.message(span) for one in alone)
    assert np.allclose(both.message(span), first + second, atol=1e-4)


def test_silence_says_nothing(network: Network, marked: NDArray[np.float32]) -> None:
    audio = marked[: 4 * SEGMENT_SAMPLES].copy()
    audio[SEGMENT_SAMPLES : 3 * SEGMENT_SAMPLES] = 0
    parts = ChunkFeatures(network, audio[:, None])
    inside = slice(FRAMES_PER_SECOND + 2, 3 * FRAMES_PER_SECOND - 2)  # windows reach over by less than two hops
    assert not parts.code[inside].any()
    assert not parts.message((0, parts.hops))[inside].any()
    assert _stretches(_search(network), np.zeros(3 * SEGMENT_SAMPLES, np.float32)) == []


# In bounded work


@pytest.mark.slow
def test_all_keys_share_one_pass_and_the_message_is_read_where_a_code_is(
    network: Network, marked: NDArray[np.float32], unmarked: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    located, lengths = [], []
    locate, read = Network.locate, Network.read
    monkeypatch.setattr(Network, "locate", lambda self, *given: located.append(1) or locate(self, *given))
    monkeypatch.setattr(Network, "read", lambda self, state: lengths.append(state[0].shape[2]) or read(self, state))
    others = [f"key {number}".encode() for number in range(20)]
    assert _stretches(_search(network, *others), unmarked) == []
    assert lengths == []
    passes = len(located)
    assert passes == -(-12 * FRAMES_PER_SECOND // features.MAX_INFERENCE_HOPS)

    audio = unmarked.copy()
    audio[7 * SEGMENT_SAMPLES : 9 * SEGMENT_SAMPLES] = marked[7 * SEGMENT_SAMPLES : 9 * SEGMENT_SAMPLES]
    (stretch,) = _stretches(_search(network, *others, PUBLIC), audio)
    assert len(located) == 2 * passes
    assert stretch.key_index == 20
    # Two seconds, one more on each side for the borders, and what is beside them.
    assert sum(lengths) <= 4 * FRAMES_PER_SECOND + 2 * network.workers * READ_CONTEXT_HOPS + 4 * MAX_DRIFT_HOPS


def test_a_message_beyond_doubt_is_read_in_some_seconds(network: Network, marked: NDArray[np.float32]) -> None:
    (stretch,) = _stretches(_search(network), marked)
    was_read = stretch.llrs.any(1)
    assert len(was_read) == 12
    assert was_read[[0, 3, 6, 9, 11]].all()
    assert was_read.sum() < 8
    assert (stretch.first, stretch.last) == pytest.approx((0, 12 * FRAMES_PER_SECOND), abs=END_HOPS)
    assert _text(stretch) == "hey"
    (few,) = _stretches(_search(network), marked[: READ_ALL_UP_TO_SECONDS * SEGMENT_SAMPLES])
    assert (few.llrs.any(1) | _silent(few)).all()


@pytest.mark.slow
@pytest.mark.parametrize("begin", [3, 4, 5, 6])
def test_a_piece_in_between_that_says_something_else_is_read(
    network: Network, unmarked: NDArray[np.float32], marked: NDArray[np.float32], begin: int
) -> None:
    piece = slice(begin * SEGMENT_SAMPLES, (begin + READ_STRIDE) * SEGMENT_SAMPLES)
    audio = marked.copy()
    audio[piece] = _embedded(network, unmarked, "you")[piece]
    stretches = _stretches(_search(network), audio)
    assert [_text(stretch) for stretch in stretches] == ["hey", "you", "hey"]
    llrs = np.concatenate([stretch.llrs for stretch in stretches])[begin : begin + READ_STRIDE]
    assert llrs.any(1).all()
    alone = decode_seconds(llrs, network.channels(PUBLIC)).message
    assert alone is not None
    assert alone.content == "you"


@pytest.mark.slow
def test_a_long_message_is_read_in_all_seconds(network: Network, unmarked: NDArray[np.float32]) -> None:
    (stretch,) = _stretches(_search(network), _embedded(network, unmarked, "a longer text"))
    assert (stretch.llrs.any(1) | _silent(stretch)).all()
    assert _text(stretch) == "a longer text"


@pytest.mark.slow
def test_each_key_finds_its_own_mark_in_the_same_audio(network: Network, marked: NDArray[np.float32]) -> None:
    other = b"another key"
    both = _embedded(network, marked, "you", other)
    stretches = _stretches(_search(network, b"no key", PUBLIC, other), both)
    assert {stretch.key_index: _text(stretch) for stretch in stretches} == {1: "hey", 2: "you"}


# Splices


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), [("hey", "you"), ("IDEA", "IDEB"), ("0001", "0002"), ("€", "$")])
@pytest.mark.parametrize("seconds", [4, 6, 9])
def test_a_splice_on_the_second_gives_both_messages_with_their_places(
    network: Network, unmarked: NDArray[np.float32], one: str, other: str, seconds: int
) -> None:
    before, after = (_embedded(network, unmarked, text) for text in (one, other))
    audio = np.concatenate([before[: seconds * SEGMENT_SAMPLES], after[seconds * SEGMENT_SAMPLES :]])
    first, second = _stretches(_search(network), audio)
    assert (_text(first), _text(second)) == (one, other)
    assert (first.first, second.last) == pytest.approx((0, 12 * FRAMES_PER_SECOND), abs=END_HOPS)
    assert first.last == second.first == pytest.approx(seconds * FRAMES_PER_SECOND, abs=FRAMES_PER_SECOND)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["hey", "a longer text"])
def test_seconds_that_are_hard_to_read_split_nothing(
    network: Network, unmarked: NDArray[np.float32], text: str
) -> None:
    audio = _embedded(network, np.tile(unmarked, 2), text)
    for begin, seconds in ((4, 1), (8, 2)):
        place = slice(begin * SEGMENT_SAMPLES, (begin + seconds) * SEGMENT_SAMPLES)
        audio[place] = 0.1 * audio[place] + 0.9 * unmarked[place]
    (stretch,) = _stretches(_search(network), audio)
    assert _text(stretch) == text
    assert (stretch.first, stretch.last) == pytest.approx((0, 24 * FRAMES_PER_SECOND), abs=END_HOPS)


def _count_decodings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with every decoding of the search; a call that goes on with an earlier one is a part of that."""
    counts: list[int] = []

    def count(name: str) -> None:
        decode: Any = getattr(search, name)

        def call(llrs: NDArray[np.float32], *given: Any) -> Any:
            counts.extend([1] * (len(given) < 2))
            return decode(llrs, *given)

        monkeypatch.setattr(search, name, call)

    for name in ("decode_repeated", "decode_seconds"):
        count(name)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("texts", [["hey"], ["a longer text"], ["hey", "you"], ["hey", "you", "him"], [None]])
def test_every_decoding_is_counted(
    network: Network, unmarked: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch, texts: list[str | None]
) -> None:
    if texts == [None]:  # bits that are no message
        bits = np.random.default_rng(0).integers(0, 2, (12, network.card.message_bits))
        audio = _marked_with(network, unmarked, network.channels(PUBLIC).message.fec.symbols(bits))
    else:
        pieces = np.split(np.stack([_embedded(network, unmarked, str(text)) for text in texts]), len(texts), 1)
        audio = np.concatenate([piece[place] for place, piece in enumerate(pieces)])
    counts = _count_decodings(monkeypatch)
    stretches = _stretches(_search(network), audio)
    assert [_text(stretch) for stretch in stretches] == texts
    assert {stretch.decodings for stretch in stretches} == {len(counts)}


@pytest.mark.slow
def test_a_stretch_of_several_chunks_counts_the_decodings_of_all(
    network: Network, marked: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = _count_decodings(monkeypatch)
    (stretch,) = _stretches(_search(network, chunk_hops=4 * FRAMES_PER_SECOND), marked)
    assert stretch.joined
    assert stretch.decodings == len(counts)


# How sure


def _p_values(network: Network, audio: NDArray[np.float32], chunk_hops: int = CHUNK_HOPS) -> NDArray[np.float64]:
    """What the trial counter makes of the evidence for each of many keys, in one pass of the network."""
    least = {f"key {number}".encode(): 0.0 for number in range(KEYS)}
    many_keys = _search(network, *least, chunk_hops=chunk_hops)

    def watched(stream: NDArray[np.float32], channels: KeyChannels) -> list[Track]:
        tracks = find_tracks(stream, channels)
        least[channels.key] = min([least[channels.key], *(track.log_p for track in tracks)])
        return tracks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "find_tracks", watched)
        _stretches(many_keys, audio)
    assert many_keys.log_p == min(least.values())
    return np.minimum(1, many_keys.chunks * np.exp(list(least.values())))


def _attacked(audio: NDArray[np.float32], kind: str) -> NDArray[np.float32]:
    rng = np.random.default_rng(1)
    if kind == "noise":
        return audio + 0.05 * rng.standard_normal(len(audio)).astype(np.float32)
    if kind == "clipped":
        return np.clip(20 * audio, -1, 1)
    if kind == "repeated":  # every second the same: what one second says by accident, all of them say
        return np.tile(audio[3 * SEGMENT_SAMPLES : 4 * SEGMENT_SAMPLES], 6)
    if kind == "metronome":
        return np.tile(np.pad(audio[:800], (0, SEGMENT_SAMPLES // 2 - 800)), 12)
    return np.where(np.arange(len(audio)) % 4_000 < 1_000, 0, audio)  # gaps


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["none", "noise", "clipped", "repeated", "metronome", "gaps", "marked with another key"]
)
def test_p_values_are_no_smaller_than_the_chance_of_them(
    network: Network, unmarked: NDArray[np.float32], marked: NDArray[np.float32], kind: str
) -> None:
    part = slice(3 * SEGMENT_SAMPLES, 9 * SEGMENT_SAMPLES)
    audio = marked[part] if kind == "marked with another key" else unmarked[part]
    values = _p_values(network, _attacked(audio, kind) if kind not in ("none", "marked with another key") else audio)
    for bound in (0.5, 0.2, 0.1, 0.05, 0.01):
        assert (values <= bound).mean() <= bound
    assert values.min() > 0.1 / KEYS


@pytest.mark.slow
def test_p_values_count_every_chunk(network: Network, unmarked: NDArray[np.float32]) -> None:
    values = _p_values(network, unmarked[: 4 * SEGMENT_SAMPLES], chunk_hops=FRAMES_PER_SECOND)
    for bound in (0.5, 0.2, 0.1, 0.05, 0.01):
        assert (values <= bound).mean() <= bound
