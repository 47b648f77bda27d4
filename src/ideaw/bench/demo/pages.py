"""The pages of the demo as HTML: an overview, one for each clip, and the results; sentences by hand, figures not.

They work from a disk as from any host, and without scripts too; `assets/` holds the frame, the looks, and one script.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from math import isnan
from string import Template
from typing import Any

from ideaw.attacks import catalogue
from ideaw.audio.grid import SAMPLE_RATE
from ideaw.bench.demo.sounds import COPY_KBPS, Outcome, Searched, Sounds
from ideaw.bench.listen import LISTEN_FILE
from ideaw.quality.plots import PANEL_INCHES

CLIPS_FOLDER = "clips"
"""Folder of the site with a folder for each clip."""

POINTS_PER_INCH = 72
"""Units of an SVG picture in an inch."""

INDEX_PAGE, RESULTS_PAGE = "index.html", "results.html"

OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "found": ("good", "message found"),
    "unreadable": ("fair", "mark seen, message not readable"),
    "none": ("bad", "not found"),
    "wrong": ("bad", "another message"),
}
"""Outcome of a search → how its tag looks and what it says."""

_RESULTS = {
    "segments": (
        "The paper’s table",
        "Bits read right in segments of one second at a known place, message and locating code counted together, after "
        "each of the paper’s attacks. The SNR of ours is kept in every segment; the paper’s is an average. The paper’s "
        "rows are of its own audio (VCTK and FMA), which could not be had for this comparison.",
    ),
    "others": (
        "Further attacks",
        "The same segments after attacks that the paper does not have. Nothing is searched for here: a segment that "
        "was shifted or sped up is read as if it had not been.",
    ),
    "files": (
        "Whole files",
        "Clips with a text, edited and compressed as files are, and searched as a user searches: place, channel and "
        "speed are not known. A message counts if it came back exactly; intervals are of 95 %.",
    ),
    "quality": (
        "Audio quality",
        "Marked files against their hosts, and MP3 instead of a mark for comparison. Noise to mask above 0 dB may be "
        "audible.",
    ),
    "unmarked": ("False alarms", "Searches of audio that carries no mark, plain and attacked."),
}
"""Table in `tables.json` → its heading and what it is about."""

_PICTURES = {
    "waveform": (
        "Waveform of the host, with the difference over it",
        "The host, and what the mark changes, {loudness}.",
    ),
    "noise-to-mask": (
        "Noise to mask over time: the mean over bands and the worst band, with the masking curve as a line at 0 dB",
        "How far what is added besides changes of loudness lies above (+) or below (−) what the host masks.",
    ),
    "host": ("Spectrogram of the host", "What there is to hide behind: level over time and frequency."),
    "difference": (
        "Spectrogram of the difference, on the scale of the host’s",
        "What is hidden, on the same scale: it follows the host, and ends at {top:g} kHz.",
    ),
    "moment": (
        "Host, masking curve and difference over frequency, at the moment at which the difference is most audible",
        "The moment at which the mark is most audible: where the difference passes the masking curve, it may be heard.",
    ),
}
"""Panel of `plots.panels` → its alternative text and its caption."""


_CURRENT = ' aria-current="page"'

_PAPERS_ROWS = "the paper"
"""How labels of rows begin that the paper printed."""


@dataclass(frozen=True)
class Frame:
    """What all pages have in common."""

    model: str
    version: str
    home: str | None
    """Address of the page that the site belongs to."""


def index_page(frame: Frame, shown: Sequence[Sounds]) -> str:
    """The overview."""
    cards = "\n".join(map(_card, shown))
    return _page(
        frame,
        INDEX_PAGE,
        "A message in every second",
        f"""<h1>A message in every second</h1>
<p class="lead">Each sound below is played as it was, and with a message added to all of it. Its own page has the
difference alone, pictures of what is hidden where, and copies that were compressed,
filtered, cut and sped up, with what a search still found in them.</p>
<p>Use headphones. To find out whether you hear the mark, take the <a href="{LISTEN_FILE}">listening test</a>: it is
blind, and a player that says “marked” is not.</p>
<h2>Sounds</h2>
<ul class="cards">
{cards}
</ul>
{_credits(shown)}""",
    )


def clip_page(frame: Frame, shown: Sequence[Sounds], number: int) -> str:
    """The page of one clip among all that are shown."""
    sounds = shown[number]
    name = sounds.clip.name
    players = "\n".join(
        _player(sounds, file, label, about)
        for file, label, about in (
            ("host.flac", "Host", "as it was"),
            ("marked.flac", "Marked", f"with {sounds.message} in it"),
            ("difference.flac", "Difference", _loudness_of_difference(sounds)),
        )
    )
    pictures = "\n".join(_picture(sounds, panel) for panel in _PICTURES)
    measures = "\n".join(
        f"<div><dt>{escape(what)}</dt><dd>{escape(value)}</dd></div>" for what, value in _measures(sounds)
    )
    copies = "\n".join(_copy(sounds, searched) for searched in (sounds.host, sounds.marked, *sounds.copies))
    return _page(
        frame,
        f"{name}.html",
        sounds.clip.title,
        f"""<h1>{escape(sounds.clip.title)}</h1>
<p class="lead">{escape(sounds.clip.about)}</p>
{_facts(sounds)}
<h2>Listen</h2>
<p>The players share their place: stop one, and another goes on from there.</p>
<div class="players">
{players}
</div>
<h2>Measured</h2>
<dl class="measures">
{measures}
</dl>
<h2>Look</h2>
<div class="pictures">
{pictures}
<div class="reading">
<h3>How to read them</h3>
<p>The masking curve is up to where a model of hearing expects the host to make other sound inaudible. What passes it
may be heard, in that band and for that moment.</p>
<p>It is a model. Whether you hear the mark, the <a href="{LISTEN_FILE}">listening test</a> tells.</p>
</div>
</div>
<h2>Attacked, and searched again</h2>
<p>Every attack starts from the marked sound, and what it leaves is an MP3 file at {COPY_KBPS} kbit/s a channel, unless
it says otherwise. That file is played here, and that file was searched. p is an upper bound on the probability that
audio without a mark gives a result as strong.</p>
<ul class="copies">
{copies}
</ul>
{_credits([sounds])}
{_neighbours(shown, number)}""",
    )


def results_page(frame: Frame) -> str:
    """The tables that this version was measured with, the paper's rows beside them."""
    tables = json.loads(resources.files("ideaw.bench.demo").joinpath("tables.json").read_text("utf-8"))
    sections = "\n".join(_result(name, tables[name]) for name in _RESULTS if name in tables)
    attacks = "; ".join(
        f"{catalogue.ATTACKS[name].label} {catalogue.ATTACKS[name].summary}" for name in catalogue.PAPER
    )
    return _page(
        frame,
        RESULTS_PAGE,
        "Results",
        f"""<h1>Results</h1>
<p class="lead">What this version was measured to do, in the tables of its documentation. Below each stands the command
that measures it, and the number of trials.</p>
<p class="note">{escape(attacks)}.</p>
{sections}""",
    )


def _page(frame: Frame, file: str, title: str, body: str) -> str:
    places = [(INDEX_PAGE, "Sounds"), (RESULTS_PAGE, "Results"), (LISTEN_FILE, "Listening test")]
    if frame.home is not None:
        places.append((frame.home, "Documentation"))
    links = "\n".join(
        f'<a href="{escape(place)}"{_CURRENT if place == file else ""}>{label}</a>' for place, label in places
    )
    template = Template(_asset("page.html"))
    return template.substitute(
        title=escape(title), navigation=links, body=body, version=escape(frame.version), model=escape(frame.model)
    )


def _asset(name: str) -> str:
    return resources.files("ideaw.bench.demo").joinpath("assets", name).read_text("utf-8")


def _card(sounds: Sounds) -> str:
    name, title = sounds.clip.name, escape(sounds.clip.title)
    found = sum(copy.outcome == "found" for copy in sounds.copies)
    alternative, _ = _PICTURES["waveform"]
    players = "\n".join(
        _player(sounds, file, label) for file, label in (("host.flac", "Host"), ("marked.flac", "Marked"))
    )
    return f"""<li class="card">
<div>
<h3>{title}</h3>
<p>{escape(sounds.clip.about)}</p>
{_facts(sounds)}
<p>The message is found in {found} of {len(sounds.copies)} attacked copies.</p>
<p><a class="more" href="{name}.html">Difference, pictures and copies<span class="unseen"> of {title}</span></a></p>
</div>
{_image(name, "waveform", f"{alternative}: {sounds.clip.title}")}
<div class="players">
{players}
</div>
</li>"""


def _player(sounds: Sounds, file: str, label: str, about: str = "") -> str:
    said = f"<b>{label}</b>{', ' if about else ''}{escape(about)}"
    return (
        f'<figure class="player"><figcaption>{said}</figcaption>'
        f"{_audio(sounds, file, f'{label}: {sounds.clip.title}', sounds.clip.name)}</figure>"
    )


def _audio(sounds: Sounds, file: str, label: str, group: str | None = None) -> str:
    shared = f' data-group="{group}"' if group else ""
    return (
        f'<audio controls preload="metadata"{shared} aria-label="{escape(label)}" '
        f'src="{CLIPS_FOLDER}/{sounds.clip.name}/{file}"></audio>'
    )


def _picture(sounds: Sounds, panel: str) -> str:
    alternative, caption = _PICTURES[panel]
    told = caption.format(loudness=_loudness_of_difference(sounds), top=SAMPLE_RATE / 2_000)
    return f"<figure>{_image(sounds.clip.name, panel, alternative)}<figcaption>{told}</figcaption></figure>"


def _image(name: str, panel: str, alternative: str) -> str:
    width, height = (round(POINTS_PER_INCH * inches) for inches in PANEL_INCHES)
    return (
        f'<img src="{CLIPS_FOLDER}/{name}/{panel}.svg" width="{width}" height="{height}" loading="lazy" '
        f'alt="{escape(alternative)}">'
    )


def _copy(sounds: Sounds, searched: Searched) -> str:
    kind, says = OUTCOMES[searched.outcome]
    if searched is sounds.host and searched.outcome == "none":
        kind, says = "good", "no mark, rightly"
    return (
        f'<li><div><span class="result"><span class="label">{escape(searched.label)}</span> '
        f'<span class="tag {kind}">{says}</span></span> <span class="answer">{escape(searched.answer)}</span></div>'
        f"{_audio(sounds, searched.file, searched.label)}</li>"
    )


def _facts(sounds: Sounds) -> str:
    facts = (
        f"{sounds.seconds:g} s",
        f"{sounds.rate / 1000:g} kHz",
        "mono" if sounds.channels == 1 else "stereo",
        f"{_signed(sounds.level)} dBFS",
        f"message {sounds.message}",
    )
    return f'<ul class="facts">{"".join(f"<li>{escape(fact)}</li>" for fact in facts)}</ul>'


def _measures(sounds: Sounds) -> Iterable[tuple[str, str]]:
    yield "SNR", f"{sounds.snr:.1f} dB"
    yield "SNR in the second where it is lowest", f"{sounds.lowest_snr:.1f} dB"
    if not isnan(sounds.pesq):
        yield "PESQ, wide band (1 to 4.64)", f"{sounds.pesq:.2f}"
    yield "STOI (0 to 1)", f"{sounds.stoi:.3f}"
    yield "of all moments and bands, below the masking curve", f"{100 * sounds.masked:.0f} %"
    yield "noise to mask, mean, without slow changes of loudness", f"{_signed(sounds.noise_to_mask)} dB"
    yield "these changes over what is just heard, of 99 %", f"{_signed(sounds.modulation)} dB"


def _loudness_of_difference(sounds: Sounds) -> str:
    return "as it is" if sounds.difference_gain == 1 else f"{sounds.difference_gain} times as loud"


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def _credits(shown: Sequence[Sounds]) -> str:
    credited = [
        (sounds.clip.title, sounds.seconds, sounds.clip.credit) for sounds in shown if sounds.clip.credit is not None
    ]
    if not credited:
        return ""
    lines = "\n".join(
        f'<li>{escape(title)}: {escape(credit.author)}; <a href="{escape(credit.licence_url)}">{escape(credit.licence)}'
        f'</a>; from <a href="{escape(credit.source)}">{escape(credit.source.split("/")[2])}</a>; '
        f"{escape(credit.changes)}; here {seconds:g} s of it, marked and attacked</li>"
        for title, seconds, credit in credited
    )
    return f'<h2>Credits</h2>\n<ul class="note">\n{lines}\n</ul>'


def _neighbours(shown: Sequence[Sounds], number: int) -> str:
    links = [
        f'<a href="{sounds.clip.name}.html">{arrow.format(escape(sounds.clip.title))}</a>'
        for place, arrow in ((number - 1, "← {}"), (number + 1, "{} →"))
        if 0 <= place < len(shown)
        for sounds in [shown[place]]
    ]
    return f'<nav class="between" aria-label="Other sounds">{"".join(links)}</nav>' if links else ""


def _result(name: str, table: dict[str, Any]) -> str:
    title, about = _RESULTS[name]
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in table["heads"])
    rows = "\n".join(map(_row, table["rows"]))
    return f"""<h2 id="{name}">{escape(title)}</h2>
<p>{escape(about)}</p>
<div class="wide" tabindex="0" role="region" aria-labelledby="{name}">
<table><thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody></table></div>
<p class="note">{escape(table["note"])}</p>"""


def _row(cells: Sequence[str]) -> str:
    kind = ' class="paper"' if cells[0].startswith(_PAPERS_ROWS) else ""
    rest = "".join(f"<td>{escape(cell)}</td>" for cell in cells[1:])
    return f'<tr{kind}><th scope="row">{escape(cells[0])}</th>{rest}</tr>'
