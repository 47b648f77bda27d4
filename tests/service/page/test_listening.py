"""Listening and looking: a switch without a gap and at the same moment, and pictures that say what is there."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

import ideaw
from tests.service.page.conftest import Tab

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]

RATE = 8_000

RENDER = """async ({ seconds, length, repeat, steps }) => {
  const { Player } = await import("/static/player.js");
  const rate = 8000, context = new OfflineAudioContext(1, seconds * rate, rate);
  const make = (offset) => {
    const buffer = new AudioBuffer({ length: length * rate, sampleRate: rate });
    buffer.getChannelData(0).forEach((_, i, samples) => { samples[i] = i / rate + offset; });
    return buffer;
  };
  const player = new Player(() => context, [make(0), make(0.25)]);
  player.repeat(repeat);
  player.choose("original");
  player.play();
  const positions = [];
  for (const [when, method, argument] of steps) {
    context.suspend(when).then(() => {
      player[method](argument);
      positions.push(player.position);
      context.resume();
    });
  }
  const samples = (await context.startRendering()).getChannelData(0);
  return { samples: Array.from(samples), positions };
}"""
"""Plays a ramp whose samples are their own time in seconds, and as the marked audio the same 0.25 higher."""


def rendered(tab: Tab, seconds: float, length: float, *steps: list[Any], repeat: bool = False) -> dict[str, Any]:
    return tab.page.evaluate(RENDER, {"seconds": seconds, "length": length, "repeat": repeat, "steps": list(steps)})


def constants(tab: Tab) -> tuple[float, float]:
    """The lead before the first sample, and the length of a fade, in seconds."""
    return tuple(tab.page.evaluate("import('/static/player.js').then((m) => [m.LEAD_SECONDS, m.FADE_SECONDS])"))


def test_a_switch_keeps_the_moment_and_has_no_gap(tab: Tab) -> None:
    lead, fade = constants(tab)
    switches = (0.512, "marked"), (1.024, "residual"), (1.536, "original")
    result = rendered(tab, 2, 3, *([when, "choose", voice] for when, voice in switches))
    time = np.arange(2 * RATE) / RATE - lead
    heard = np.array(result["samples"])
    assert result["positions"] == pytest.approx([when - lead for when, _ in switches], abs=1e-6)

    def crossfaded(when: float) -> NDArray[np.float64]:
        return np.clip((time + lead - when) / fade, 0, 1)

    to_marked, to_residual, to_original = (crossfaded(when) for when, _ in switches)
    original = (1 - to_residual) * 1 + to_original
    offset = 0.25 * to_marked * (1 - to_residual) + 3 * 0.25 * to_residual * (1 - to_original)
    expected = original * time + offset
    settled = time > fade
    assert np.abs(heard - expected)[settled].max() < 2e-3  # a sample of difference in the beginning of a fade
    assert np.abs(heard[time < 0]).max() < 1e-6


def test_a_start_fades_in_and_a_pause_fades_out(tab: Tab) -> None:
    lead, fade = constants(tab)
    result = rendered(tab, 1, 3, [0.016, "choose", "marked"], [0.512, "pause", None], [0.768, "play", None])
    heard, time = np.array(result["samples"]), np.arange(RATE) / RATE
    silent = (time > 0.512 + fade + 1e-3) & (time < 0.768 + lead)
    assert np.abs(heard[silent]).max() < 1e-6
    assert np.abs(np.diff(heard)).max() < 2 * 0.75 / (fade * RATE)  # no click: a fade's slope at most
    goes_on = (time > 0.768 + lead + fade + 1e-3) & (time < 0.95)
    position = result["positions"][1]
    assert position == pytest.approx(0.512 - lead, abs=1e-6)
    assert heard[goes_on] == pytest.approx(time[goes_on] - 0.768 - lead + position + 0.25, abs=2e-3)


def test_a_repeated_passage_goes_on_without_a_gap(tab: Tab) -> None:
    lead, fade = constants(tab)
    result = rendered(tab, 2, 0.5, [1.28, "choose", "original"], repeat=True)
    heard, time = np.array(result["samples"]), np.arange(2 * RATE) / RATE - lead
    settled = time > fade
    error = np.abs(heard - np.mod(time, 0.5))[settled]
    assert np.minimum(error, 0.5 - error).max() < 1e-3
    assert result["positions"][0] == pytest.approx((1.28 - lead) % 0.5, abs=1e-6)


def test_repetition_may_end_while_it_plays(tab: Tab) -> None:
    lead, _ = constants(tab)
    result = rendered(tab, 2, 0.5, [1.28, "repeat", False], [1.408, "choose", "original"], repeat=True)
    heard = np.array(result["samples"])
    assert result["positions"] == pytest.approx([(when - lead) % 0.5 for when in (1.28, 1.408)], abs=1e-6)
    assert heard[round((1.4 + lead) * RATE)] == pytest.approx(0.4, abs=1e-3)
    assert np.abs(heard[round((1.5 + lead) * RATE) + 1 :]).max() == 0


def test_without_repetition_it_stops_at_its_end(tab: Tab) -> None:
    lead, _ = constants(tab)
    heard = np.array(rendered(tab, 1, 0.5)["samples"])
    assert np.abs(heard[round((0.5 + lead) * RATE) + 1 :]).max() == 0
    assert heard[round((0.4 + lead) * RATE)] == pytest.approx(0.4, abs=1e-3)


@pytest.fixture(scope="module")
def marked_middle(tmp_path_factory: pytest.TempPathFactory, music: NDArray[np.float32]) -> Path:
    """Music of which only the middle is marked."""
    path = tmp_path_factory.mktemp("middle") / "middle.wav"
    host = np.concatenate([music, music[::-1], music])
    host[len(music) : 2 * len(music)] = ideaw.load().embed(host[len(music) : 2 * len(music)], 44_100, "half")
    sf.write(path, host, 44_100, subtype="FLOAT")
    return path


def position(tab: Tab) -> float:
    return float(tab.page.input_value("#seek"))


def test_the_marked_place_is_told_drawn_and_can_be_gone_to(tab: Tab, marked_middle: Path) -> None:
    tab.load(marked_middle)
    unmarked = tab.page.locator("#waveform").screenshot()
    assert tab.look() == "Found: “half”"
    (segment,) = ideaw.detect_file(marked_middle).segments
    assert tab.page.locator("#waveform").screenshot() != unmarked
    label = tab.page.get_attribute("#waveform", "aria-label")
    place = f"0:{int(10 * segment.start) / 10:04.1f} to 0:{int(10 * segment.end) / 10:04.1f}"
    assert f"marked: {place} “half”" in label
    assert f"{segment.end - segment.start:.1f} s of 18.0 s in middle.wav is marked" in tab.text("#answer-reason")
    assert not tab.page.is_visible("#voices")
    tab.page.click("#facts .moment")
    assert position(tab) >= segment.start
    assert tab.text("#play") == "Pause"
    tab.page.click("#play")


def test_the_page_tells_what_compare_tells(tab: Tab, tmp_path: Path, speech: NDArray[np.float32]) -> None:
    sf.write(source := tmp_path / "speech.wav", speech, 16_000)
    tab.load(source)
    tab.mark()
    marked = tab.save(tmp_path)
    told = tab.page.evaluate(
        """async ([a, b]) => {
          const { compare } = await import("/static/api.js");
          const file = (hex) => new File([Uint8Array.from(hex.match(/../g), (d) => parseInt(d, 16))], "x.wav");
          return compare(file(a), file(b));
        }""",
        [source.read_bytes().hex(), marked.read_bytes().hex()],
    )
    facts = tab.text("#facts")
    assert f"{told['snr']:.1f} dB below the audio, and {told['lowest_snr']:.1f} dB" in facts
    assert f"it is {told['noise_snr']:.1f} dB below" in facts
    assert f"{abs(told['modulation']):.1f} dB below what is just heard" in facts
    assert f"{100 * told['masked']:.0f} % of all moments" in facts
    assert f"{abs(told['most_audible_noise_to_mask']):.1f} dB" in facts
    highest = max(told["noise_to_mask_over_time"])
    assert highest == pytest.approx(told["most_audible_noise_to_mask"], abs=0.06)
    above = np.mean(np.array(told["noise_to_mask_over_time"]) > 0)
    label = tab.page.get_attribute("#masked", "aria-label")
    assert label.startswith(f"Difference over masking threshold: {highest:.1f} dB at most")
    assert float(label.split()[-5]) == pytest.approx(100 * above, abs=0.51)
    assert tab.page.locator("#difference").screenshot() != tab.page.locator("#spectrum").screenshot()
    label = tab.page.get_attribute("#difference", "aria-label")
    assert label.startswith("Spectrogram of the difference between original and marked audio: 0 to 8 kHz")
    assert "louder than the audio above" in tab.text("#difference-note")


def test_what_is_masked_is_drawn_below_the_threshold_and_the_rest_above(tab: Tab) -> None:
    seen = tab.page.evaluate(
        """async () => {
          const { drawMasked, GUTTER } = await import("/static/drawing.js");
          const canvas = document.createElement("canvas");
          Object.assign(canvas.style, { position: "fixed", top: 0, left: 0, width: "346px", height: "138px" });
          document.body.append(canvas);
          drawMasked(canvas, [-10, 10, -30], 30);
          const { width, height } = canvas;
          const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
          const at = (x, y) => {
            const pixel = 4 * (width * Math.round(devicePixelRatio * y) + Math.round(devicePixelRatio * (GUTTER + x)));
            return Array.from(data.slice(pixel, pixel + 4)).join();
          };
          const columns = [50, 150, 250].map((x) => [22, 50, 80, 110].map((y) => at(x, y)));
          canvas.remove();
          return columns;
        }"""
    )
    fainter, louder, faintest = seen  # the threshold lies 40 pixels below the top, 20 of which are 10 dB
    nothing, masked = "0,0,0,0", fainter[-1]
    assert masked != nothing
    assert fainter == [nothing, nothing, masked, masked]
    assert louder[1:] == [masked] * 3
    assert louder[0] not in (nothing, masked)
    assert faintest == [nothing, nothing, nothing, masked]


def test_silence_is_drawn_dark(tab: Tab, tmp_path: Path) -> None:
    sf.write(source := tmp_path / "silent.wav", np.zeros(32_000), 16_000)
    tab.load(source)
    assert "colours from −170 to −100 dBFS" in tab.page.get_attribute("#spectrum", "aria-label")


def test_a_spectrogram_has_the_level_and_the_place_of_a_tone(tab: Tab) -> None:
    seen = tab.page.evaluate(
        """async () => {
          const { spectrogram } = await import("/static/spectrum.js");
          const tone = Float32Array.from({ length: 48000 }, (_, i) => 0.1 * Math.sin((2 * Math.PI * 3000 * i) / 48000));
          const { levels, ...about } = await spectrogram([tone, tone], 48000, 20, 12000);
          return { ...about, levels: Array.from(levels) };
        }"""
    )
    levels = np.array(seen["levels"]).reshape(seen["columns"], seen["bins"])
    assert (seen["columns"], seen["hertz"]) == (20, 12_000)
    assert seen["peak"] == pytest.approx(-20, abs=0.1)
    assert set(levels[1:-1].argmax(axis=1)) == {round(3_000 / 12_000 * (seen["bins"] - 1))}
    assert levels[1:-1, -50:].max() < -100


def test_the_keyboard_plays_switches_and_moves(tab: Tab, tmp_path: Path, speech: NDArray[np.float32]) -> None:
    sf.write(source := tmp_path / "speech.wav", np.tile(speech, 3), 16_000)
    tab.load(source)
    tab.mark()
    press = tab.page.keyboard.press
    tab.page.focus("#seek")
    press("ArrowRight")
    press("ArrowRight")
    assert position(tab) == pytest.approx(2, abs=1e-6)
    press("ArrowLeft")
    assert position(tab) == pytest.approx(1, abs=1e-6)
    for key, voice in (("1", "original"), ("3", "residual"), ("2", "marked")):
        press(key)
        assert tab.page.is_checked(f"#voices [value={voice}]")
        assert position(tab) == pytest.approx(1, abs=1e-6)
    tab.page.focus("#seek")
    press(" ")
    assert tab.text("#play") == "Pause"
    tab.until("Number(document.getElementById('seek').value) > 1.2")
    press("1")
    went_on = position(tab)
    assert went_on > 1.2
    press(" ")
    assert tab.text("#play") == "Play"
    assert position(tab) >= went_on
    press("End")
    assert position(tab) == pytest.approx(18, abs=0.01)
    press("Home")
    assert position(tab) == 0


def test_a_click_on_a_picture_moves_there(tab: Tab, marked_middle: Path) -> None:
    tab.load(marked_middle)
    box = tab.page.locator("#spectrum").bounding_box()
    gutter = tab.page.evaluate("import('/static/drawing.js').then((m) => m.GUTTER)")
    tab.page.click("#spectrum", position={"x": gutter + (box["width"] - gutter) / 3, "y": 20})
    assert position(tab) == pytest.approx(6, abs=0.1)
