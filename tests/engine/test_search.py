"""The search: however audio arrives and wherever chunks end, the same marks are found, once, and in bounded work."""

import numpy as np
import pytest
from ideaw.engine.embedding import Embedding
from numpy.typing import NDArray

from ideaw.audio.grid import FRAMES_PER_SECOND, HOP_SAMPLES, SAMPLE_RATE, SEGMENT_SAMPLES
from ideaw.engine import scan, search
from ideaw.engine.decode import decode_seconds
from ideaw.engine.network import Network
from ideaw.engine.search import Heard, Search, Trace
from ideaw.modem.locating_code import locating_code
from ideaw.payload.framing import Plan
from ideaw.payload.message import Message

KEYS = 250
"""Random keys for the statistics; always the same ones, so that a test passes always or never."""


def _embedded(network: Network, audio: NDArray[np.float32], text: str) -> NDArray[np.float32]:
    """(n,) at 16 kHz with a text in every second."""
    frames = Message(text).encode(network.card.message_bits, network.key)[None]
    code = locating_code(network.card.code_bits, network.key)
    embedding = Embedding(network, frames, code, SAMPLE_RATE, 1, network.card.snr, 0.0)
    return np.concatenate([embedding.push(audio[:, None]), embedding.finish()])[:, 0].astype(np.float32)


def _search(network: Network, *keys: bytes, chunk: int = search.CHUNK) -> Search:
    owners = [network.with_key(key) for key in keys] or [network]
    return Search(owners, [locating_code(network.card.code_bits, owner.key) for owner in owners], chunk)


def _found(found: Search, *pieces: NDArray[np.float32]) -> list[Trace]:
    for piece in pieces:
        found.push(piece[:, None])
    found.finish()
    return found.traces


def _text(network: Network, trace: Trace) -> str | None:
    message = decode_seconds(trace.values, network.message.code, network.key).message
    return None if message is None else str(message.content)


@pytest.fixture(scope="module")
def unmarked(speech: NDArray[np.float32], strings: NDArray[np.float32]) -> NDArray[np.float32]:
    """Twelve seconds of speech and music."""
    return np.concatenate([speech, strings])


@pytest.fixture(scope="module")
def marked(network: Network, unmarked: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same with "hey" in every second."""
    return _embedded(network, unmarked, "hey")


def _silent(trace: Trace) -> NDArray[np.bool_]:
    """(seconds,) of `unmarked` that may have no weight: the second one is a pause."""
    silent = np.arange(len(trace.starts)) == 1
    assert trace.scores[~silent].min() > 3
    assert trace.scores[silent].max() < 0.5 * np.median(trace.scores)
    return silent


# However the audio arrives


def _cut(audio: NDArray[np.float32], most: int) -> list[NDArray[np.float32]]:
    """In pieces of random lengths below `most`, some of them empty."""
    places = np.cumsum(np.random.default_rng(most).integers(0, most, 4 * len(audio) // most))
    return np.split(audio, places[places < len(audio)])


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [100, search.CHUNK])
def test_cuts_leave_no_trace(network: Network, marked: NDArray[np.float32], chunk: int) -> None:
    audio = marked[5_000 : 5_000 + 7 * SEGMENT_SAMPLES]
    (at_once,) = _found(_search(network, chunk=chunk), audio)
    for most in (200, 50_000):
        (in_pieces,) = _found(_search(network, chunk=chunk), *_cut(audio, most))
        assert (in_pieces.first, in_pieces.last, in_pieces.log_p) == (at_once.first, at_once.last, at_once.log_p)
        for kind in ("starts", "scores", "values"):
            assert np.array_equal(getattr(in_pieces, kind), getattr(at_once, kind))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chunk", "cut"),
    [(50, 5 * SEGMENT_SAMPLES + 4_321), (3 * FRAMES_PER_SECOND, 0), (5 * FRAMES_PER_SECOND + 1, 4_321)],
)
def test_a_mark_through_all_chunks_is_one_trace(
    network: Network, marked: NDArray[np.float32], chunk: int, cut: int
) -> None:
    audio = marked[cut:]
    (whole,), (joined,) = (_found(_search(network, chunk=length), audio) for length in (search.CHUNK, chunk))
    assert np.abs(joined.starts - whole.starts).max() <= 1  # every second once, and none twice
    assert (joined.first, joined.last) == (0, -(-len(audio) // HOP_SAMPLES))
    assert joined.values.shape == (len(joined.starts), network.card.message_slots)
    assert _text(network, joined) == "hey"
    # A mean over less audio is taken away, so scores differ a little; but no second is half heard.
    assert (joined.scores > 0.9 * whole.scores - 0.5).all()


@pytest.mark.slow
@pytest.mark.parametrize("begin", [-140, -64, -33, -1, 31])
def test_a_mark_near_the_end_of_a_chunk_is_found_once_and_where_it_is(
    network: Network, marked: NDArray[np.float32], unmarked: NDArray[np.float32], begin: int
) -> None:
    chunk = 5 * FRAMES_PER_SECOND
    first, last = chunk + begin, chunk + begin + FRAMES_PER_SECOND
    audio = unmarked.copy()
    audio[first * HOP_SAMPLES : last * HOP_SAMPLES] = marked[first * HOP_SAMPLES : last * HOP_SAMPLES]
    (whole,), (trace,) = (_found(_search(network, chunk=length), audio) for length in (search.CHUNK, chunk))
    # A border is where evidence ends, and a fifth of a second of noise may look like some.
    assert (trace.first, trace.last) == pytest.approx((first, last), abs=FRAMES_PER_SECOND // 5)
    assert np.sort(trace.scores)[-1] > 0.9 * np.sort(whole.scores)[-1]  # it was heard whole
    assert _text(network, trace) == "hey"


@pytest.mark.parametrize("seconds", [0.25, 0.4, 0.6])
def test_a_piece_of_a_second_at_either_end_is_found(
    network: Network, marked: NDArray[np.float32], unmarked: NDArray[np.float32], seconds: float
) -> None:
    length, hops = int(seconds * SEGMENT_SAMPLES), -(-seconds * FRAMES_PER_SECOND // 1)
    middle = unmarked[3 * SEGMENT_SAMPLES : 6 * SEGMENT_SAMPLES]
    piece = marked[2 * SEGMENT_SAMPLES : 2 * SEGMENT_SAMPLES + length]
    (after,) = _found(_search(network), np.concatenate([middle, piece]))
    # So short a piece may seem to reach some way into what is beside it.
    assert (after.first, after.last) == (
        pytest.approx(3 * FRAMES_PER_SECOND, abs=FRAMES_PER_SECOND // 2),
        3 * FRAMES_PER_SECOND + hops,
    )
    (before,) = _found(_search(network), np.concatenate([piece, middle]))
    assert (before.first, before.last) == (0, pytest.approx(hops, abs=2 * FRAMES_PER_SECOND // 3))


@pytest.mark.slow
def test_two_marks_apart_are_two_traces_in_their_order(network: Network, marked: NDArray[np.float32]) -> None:
    audio = np.concatenate(
        [
            marked[2 * SEGMENT_SAMPLES : 5 * SEGMENT_SAMPLES],
            np.zeros(SEGMENT_SAMPLES // 3, np.float32),
            marked[-4 * SEGMENT_SAMPLES :],
        ]
    )
    for chunk in (200, search.CHUNK):
        one, other = _found(_search(network, chunk=chunk), audio)
        assert (one.first, one.last) == pytest.approx((0, 3 * FRAMES_PER_SECOND), abs=4)
        assert (other.first, other.last) == pytest.approx(
            (3 * FRAMES_PER_SECOND + FRAMES_PER_SECOND // 3, len(audio) / HOP_SAMPLES), abs=4
        )


@pytest.mark.parametrize("length", [0, 1, HOP_SAMPLES, HOP_SAMPLES + 1, SEGMENT_SAMPLES // 3])
def test_less_than_a_second_can_be_searched(network: Network, marked: NDArray[np.float32], length: int) -> None:
    found = _search(network, chunk=FRAMES_PER_SECOND)
    traces = _found(found, marked[:length])
    assert found.chunks == (length > 0)
    assert all(trace.log_p < np.log(scan.WORTH_READING) for trace in traces)


@pytest.mark.slow
def test_no_more_waits_than_a_chunk_and_its_surroundings(network: Network, marked: NDArray[np.float32]) -> None:
    found = _search(network, chunk=3 * FRAMES_PER_SECOND)
    for piece in _cut(marked, 3_000):
        found.push(piece[:, None])
        assert sum(map(len, found._waiting)) < (3 * FRAMES_PER_SECOND + 2 * found.margin) * HOP_SAMPLES + 3_000
    assert found.chunks == 3


# What the network hears


@pytest.mark.slow
def test_the_networks_blocks_leave_no_trace(
    network: Network, marked: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    audio = marked[: 4 * SEGMENT_SAMPLES + 100, None]
    heard = {}
    for block in (17, FRAMES_PER_SECOND, 100 * FRAMES_PER_SECOND):
        monkeypatch.setattr(search, "LISTENED", block)
        heard[block] = Heard(network, audio)
    whole = heard.pop(100 * FRAMES_PER_SECOND)
    assert whole.code.shape == (4 * FRAMES_PER_SECOND + 1, network.card.bins // 2)
    for block, parts in heard.items():
        monkeypatch.setattr(search, "LISTENED", block)
        for streams in ((parts.code, whole.code), [each.message((0, each.hops)) for each in (parts, whole)]):
            assert np.linalg.norm(np.subtract(*streams)) < 5e-2 * np.linalg.norm(streams[1])  # eight bits round far


@pytest.mark.slow
def test_any_number_of_threads_hears_the_same(
    network: Network, marked: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for threads in (1, 2, 4):
        monkeypatch.setattr(network, "at_once", threads)
        (found[threads],) = _found(_search(network), marked)
    alone = found.pop(1)
    for trace in found.values():
        assert np.array_equal(trace.starts, alone.starts)
        assert (trace.first, trace.last) == (alone.first, alone.last)
        assert trace.scores == pytest.approx(alone.scores, rel=0.05)
        assert _text(network, trace) == "hey"


def test_the_message_is_heard_where_it_is_asked_for_and_once(
    network: Network, marked: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Heard(network, marked[: 5 * SEGMENT_SAMPLES, None]).message((-10, 10_000))
    heard = Heard(network, marked[: 5 * SEGMENT_SAMPLES, None])
    assert not heard.message().any()
    parts = []
    monkeypatch.setattr(heard, "_read", lambda part, read=heard._read: parts.append(part) or read(part))
    for spans in ([(-3, 20), (77, 200)], [(10, 20)], [(50, 150), (190, 210)]):
        stream = heard.message(*spans)
    asked = np.r_[0:20, 50:210]
    assert sorted(hop for part in parts for hop in range(*part)) == asked.tolist()
    known = slice(50 + FRAMES_PER_SECOND // 2, 210 - FRAMES_PER_SECOND // 2)  # with all of the second around
    # Only BESIDE of what the network can see beside a part is heard with it.
    assert np.linalg.norm(stream[known] - whole[known]) < 0.15 * np.linalg.norm(whole[known])
    assert not np.delete(stream, asked, 0).any()


def test_what_voices_say_adds_up(network: Network, marked: NDArray[np.float32], unmarked: NDArray[np.float32]) -> None:
    voices = np.stack([marked[: 3 * SEGMENT_SAMPLES], unmarked[: 3 * SEGMENT_SAMPLES]], 1)
    voices[SEGMENT_SAMPLES : 2 * SEGMENT_SAMPLES, 1] = 0
    span = (40, 150)
    both, *alone = (Heard(network, some) for some in (voices, voices[:, :1], voices[:, 1:]))
    assert np.array_equal(both.codes, np.concatenate([each.codes for each in alone]))
    assert np.allclose(both.code, alone[0].code + alone[1].code, atol=1e-4)
    said = [each.message(span) for each in alone]
    assert np.allclose(both.message(span), said[0] + said[1], atol=1e-4)


def test_silence_says_nothing(network: Network, marked: NDArray[np.float32]) -> None:
    audio = marked[: 4 * SEGMENT_SAMPLES].copy()
    audio[SEGMENT_SAMPLES : 3 * SEGMENT_SAMPLES] = 0
    heard = Heard(network, audio[:, None])
    inside = slice(FRAMES_PER_SECOND + 2, 3 * FRAMES_PER_SECOND - 2)  # windows reach over by less than two hops
    assert not heard.code[inside].any()
    assert not heard.message((0, heard.hops))[inside].any()
    assert _found(_search(network), np.zeros(3 * SEGMENT_SAMPLES, np.float32)) == []


# In bounded work


@pytest.mark.slow
def test_all_keys_share_one_pass_and_the_message_is_read_where_a_code_is(
    network: Network, marked: NDArray[np.float32], unmarked: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    located, heard = [], []
    locate, message = Network.locate, Network.read
    monkeypatch.setattr(Network, "locate", lambda self, *given: located.append(1) or locate(self, *given))
    monkeypatch.setattr(Network, "read", lambda self, rest: heard.append(rest[0].shape[2]) or message(self, rest))
    others = [f"key {number}".encode() for number in range(20)]
    assert _found(_search(network, *others), unmarked) == []
    assert heard == []
    passes = len(located)
    assert passes == 2

    audio = unmarked.copy()
    audio[7 * SEGMENT_SAMPLES : 9 * SEGMENT_SAMPLES] = marked[7 * SEGMENT_SAMPLES : 9 * SEGMENT_SAMPLES]
    (trace,) = _found(_search(network, *others, network.key), audio)
    assert len(located) == 2 * passes
    assert trace.owner == 20
    # Two seconds, one more on each side for the borders, and what is beside them.
    assert sum(heard) <= 4 * FRAMES_PER_SECOND + 2 * network.at_once * search.BESIDE + 4 * scan.DRIFT


def test_a_message_beyond_doubt_is_read_in_some_seconds(network: Network, marked: NDArray[np.float32]) -> None:
    (trace,) = _found(_search(network), marked)
    was_read = trace.values.any(1)
    assert len(was_read) == 12
    assert was_read[[0, 3, 6, 9, 11]].all()
    assert was_read.sum() < 8
    assert (trace.first, trace.last) == (0, 12 * FRAMES_PER_SECOND)
    assert _text(network, trace) == "hey"
    (few,) = _found(_search(network), marked[: search.FEW * SEGMENT_SAMPLES])
    assert (few.values.any(1) | _silent(few)).all()


@pytest.mark.slow
@pytest.mark.parametrize("begin", [3, 4, 5, 6])
def test_a_piece_in_between_that_says_something_else_is_read(
    network: Network, unmarked: NDArray[np.float32], marked: NDArray[np.float32], begin: int
) -> None:
    piece = slice(begin * SEGMENT_SAMPLES, (begin + search.EVERY) * SEGMENT_SAMPLES)
    audio = marked.copy()
    audio[piece] = _embedded(network, unmarked, "you")[piece]
    (trace,) = _found(_search(network), audio)
    assert trace.values[begin : begin + search.EVERY].any(1).all()
    alone = decode_seconds(trace.values[begin : begin + search.EVERY], network.message.code, network.key).message
    assert alone is not None
    assert alone.content == "you"


@pytest.mark.slow
def test_a_long_message_is_read_in_all_seconds(network: Network, unmarked: NDArray[np.float32]) -> None:
    frames = Plan.of(Message("a longer text"), network.card.message_bits, network.key).period_payloads
    embedding = Embedding(network, frames, locating_code(network.card.code_bits), SAMPLE_RATE, 1, network.card.snr, 0.0)
    audio = np.concatenate([embedding.push(unmarked[:, None]), embedding.finish()])[:, 0].astype(np.float32)
    (trace,) = _found(_search(network), audio)
    assert (trace.values.any(1) | _silent(trace)).all()
    assert _text(network, trace) == "a longer text"


@pytest.mark.slow
def test_each_key_finds_its_own_mark_in_the_same_audio(network: Network, marked: NDArray[np.float32]) -> None:
    other = network.with_key(b"another key")
    both = _embedded(other, marked, "you")
    traces = _found(_search(network, b"no key", network.key, other.key), both)
    texts = {trace.owner: _text((network, network, other)[trace.owner], trace) for trace in traces}
    assert texts == {1: "hey", 2: "you"}


# How sure


def _p_values(network: Network, audio: NDArray[np.float32], chunk: int = search.CHUNK) -> NDArray[np.float64]:
    """What `decide` makes of the evidence for each of many keys, in one pass of the network."""
    found = _search(network, *(f"key {number}".encode() for number in range(KEYS)), chunk=chunk)
    least = np.zeros(KEYS)
    tracks, owners = scan.tracks, {id(owner.code.carriers): number for number, owner in enumerate(found.owners)}

    def watched(narrow, carriers, slots):  # type: ignore[no-untyped-def]
        seen = tracks(narrow, carriers, slots)
        number = owners[id(carriers)]
        least[number] = min([least[number], *(track.log_p for track in seen)])
        return seen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "tracks", watched)
        _found(found, audio)
    assert found.log_p == least.min()
    return np.minimum(1, found.chunks * np.exp(least))


def _attacked(audio: NDArray[np.float32], kind: str) -> NDArray[np.float32]:
    rng = np.random.default_rng(1)
    if kind == "noise":
        return audio + 0.05 * rng.standard_normal(len(audio)).astype(np.float32)
    if kind == "clipped":
        return np.clip(20 * audio, -1, 1)
    if kind == "repeated":  # every second the same: what one second says by accident, all of them say
        return np.tile(audio[3 * SEGMENT_SAMPLES : 4 * SEGMENT_SAMPLES], 6)
    return np.where(np.arange(len(audio)) % 4_000 < 1_000, 0, audio)  # gaps


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "noise", "clipped", "repeated", "gaps", "marked with another key"])
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
    values = _p_values(network, unmarked[: 4 * SEGMENT_SAMPLES], chunk=FRAMES_PER_SECOND)
    for bound in (0.5, 0.2, 0.1, 0.05, 0.01):
        assert (values <= bound).mean() <= bound
