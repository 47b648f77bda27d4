"""The paper's search on our network, and the benchmark against it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.audio.blocks import split_blocks
from ideaw.audio.grid import HOP_SAMPLES, SAMPLE_RATE
from ideaw.bench.tables import locating, window_search
from ideaw.engine.network import Network
from ideaw.engine.segments import MAX_SHIFT_HOPS
from ideaw.errors import ModelError
from ideaw.keys import Key
from ideaw.marker import Marker
from ideaw.models import find_model
from ideaw.modem.locating_code import locating_code


@pytest.fixture(scope="module")
def network() -> Network:
    return Network(find_model(None), threads=1)


@pytest.mark.slow
@pytest.mark.parametrize("both_stages", [False, True])
def test_the_paper_s_search_ends_at_a_marked_second(
    network: Network, speech: NDArray[np.float32], both_stages: bool
) -> None:
    begin = SAMPLE_RATE + 500
    audio = speech[: 4 * SAMPLE_RATE].copy()
    audio[begin:] = Marker(network).embed(audio[begin:], SAMPLE_RATE, "ab12")
    located = window_search.search(network, audio, locating_code(network.card.code_bits), both_stages)
    assert located.message == "ab12"
    assert located.start >= begin - MAX_SHIFT_HOPS * HOP_SAMPLES
    assert (located.start - begin + MAX_SHIFT_HOPS * HOP_SAMPLES) % SAMPLE_RATE <= 2 * MAX_SHIFT_HOPS * HOP_SAMPLES
    assert located.windows == located.start // window_search.WINDOW_STEP_SAMPLES + 1


def test_the_paper_s_search_finds_nothing_of_another_key(network: Network, speech: NDArray[np.float32]) -> None:
    marked = Marker(network, Key(b"another key of ours")).embed(speech[: 2 * SAMPLE_RATE], SAMPLE_RATE, "ab12")
    assert window_search.search(network, marked, locating_code(network.card.code_bits)).message is None


@pytest.mark.slow
def test_a_single_stage_is_read_in_every_window(single: Path) -> None:
    table = locating.run(repeats=1, cases=((3, 1), (3, None)), single=single)
    assert table.single == "56+0"
    assert all(row.right[locating.SINGLE_STAGE] for row in table.rows)
    with pytest.raises(ModelError, match="not a single-stage model of 20 bits"):
        locating.run("10+10", repeats=1, cases=((3, 1),), single=single)


@pytest.mark.slow
def test_all_methods_answer_alike_and_are_compared_with_ours() -> None:
    table = locating.run(repeats=2, cases=((3, 1), (3, None)))
    assert (table.model, table.repeats, table.step) == ("46+10", 2, 0.1)
    assert [(row.seconds, row.begin) for row in table.rows] == [(3, 1), (3, None)]
    for row in table.rows:
        assert set(row.right.values()) == {True}
        assert row.windows == 21 if row.begin is None else 11 <= row.windows <= 21
        assert min(row.took.values()) > 0
        assert set(row.times_ours) == {locating.WINDOWS, locating.SINGLE_STAGE}
    assert locating.draw(table).startswith(b"\x89PNG")


@pytest.mark.slow
def test_ours_stops_at_the_first_mark(
    network: Network, speech: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    def counted(audio: NDArray[np.float32], size: int) -> Iterator[NDArray[np.float32]]:
        for block in split_blocks(audio, size):
            given.append(len(block))
            yield block

    monkeypatch.setattr(locating, "split_blocks", counted)
    marked = Marker(network).embed(np.tile(speech, 3), SAMPLE_RATE, "ab12")
    assert locating._detect_first(Marker(network), marked).message == "ab12"
    assert sum(given) <= (locating.LATENCY_SECONDS + 1) * SAMPLE_RATE < len(marked)
