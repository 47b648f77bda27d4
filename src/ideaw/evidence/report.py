"""The report: promises, figures with their age, limits, and what nobody has measured; as a page, and for machines."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from ideaw.audio.samples import MAX_CHANNELS, MAX_RATE_HZ, MIN_RATE_HZ
from ideaw.bench.reports.html import Section, Table, Text, page
from ideaw.engine.live import LIVE_LATENCY_SECONDS, RESAMPLED_LATENCY_SECONDS
from ideaw.engine.significance import FALSE_ALARM_HOURS, FILE_P
from ideaw.evidence import installed
from ideaw.evidence.figures import NOT_MEASURED_YET, THIS_VERSION, Figure, Figures, read_figures
from ideaw.models import find_model
from ideaw.payload.message import layout

ABOUT = (
    "What the installed version of ideaw promises, and what it was measured to do: made by the command “ideaw "
    "evidence” for those who have to show it, such as a provider of generated audio to an auditor. Every table names "
    "the command that measured it, the number of trials, and whether that was done with this version or with an "
    "earlier one. A table that was made with an earlier version tells what that one did. The commands and the audio "
    "on which they run are described in the repository of the package; the hashes say which files this is about.",
    "This is no legal advice, and no certificate: whether a mark satisfies a law is a question for a lawyer, and "
    "figures of other audio than yours are no figures of yours.",
)

CHAPTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "By length of the audio": (
        "How much audio a mark needs. Pieces are marked alone, edited, and searched as users search.",
        ("lengths", "shortness", "borders"),
    ),
    "By edit": (
        "What is still read after the audio was edited. A message counts only where it came back exactly; intervals "
        "are of 95 %. All rows are of the network's layer alone.",
        ("files", "edits", "rawbench-strict", "audiomarkbench", "resynthesis", "voice"),
    ),
    "The deep layer": (
        "Written beside the network's layer, except in live streams, in less than 3 s and where an SNR is asked for: "
        "for audio that passes codecs which draw it anew, vocoders and telephones. Its message is spread over seconds, "
        "so short cuts of such copies are often not read.",
        ("deep-speech", "deep-music", "deep-stereo", "deep-messages", "deep-edits", "deep-streams"),
    ),
    "False alarms": (
        "Searches of audio that carries no mark of the key. The bound holds for random keys and any audio; the "
        "measurements could only contradict it.",
        ("unmarked", "deep-alarms"),
    ),
    "Quality": (
        "Marked audio against the same audio without its mark. Noise to mask above 0 dB may be audible. These are "
        "models of hearing and of listeners; no people were asked.",
        ("quality", "deep-quality"),
    ),
    "Live streams": ("How late, how fast and how clearly read a mark is that is made while one speaks.", ("stream",)),
    "Against people who want to deceive": (
        "What was tried without the key. Keys separate owners; they do not hide that a mark is there, do not stop its "
        "removal by someone who has the software, and a found mark alone does not prove who made it.",
        ("security", "deep-security"),
    ),
    "Proof of origin": (
        "Verdicts of “ideaw verify” on files with an id, a record and a manifest, after edits and forgeries, and how "
        "well fingerprints tell recordings apart. A verdict is as good as the registry that is asked.",
        ("verdicts", "fingerprint", "other-audio"),
    ),
    "Files": ("What stays of a file besides its samples.", ("containers",)),
}
"""Heading → what it is about, and its tables."""

TITLES = {
    "lengths": "Messages by length and edit",
    "shortness": "Clean excerpts that were read, by length",
    "borders": "Marked stretches within longer audio",
    "files": "Clips of 10 s, edited",
    "edits": "Edits between release and finding",
    "rawbench-strict": "RAW-Bench, strict",
    "audiomarkbench": "AudioMarkBench",
    "resynthesis": "Neural codecs, vocoders, telephones, noise suppression",
    "voice": "Calls, voice messages, voices among others",
    "deep-speech": "Speech, joined clips of 10 to 16 s and cuts of them",
    "deep-music": "Music, joined clips of 10 to 16 s and cuts of them",
    "deep-stereo": "Stereo and full-rate files: their channels, and codecs of their mix",
    "deep-messages": "Messages of two, three and four bytes in 12 s of speech",
    "deep-edits": "Other speeds, tempos and pitches, splices and pauses",
    "deep-streams": "Pieces of which the beginning was chosen, and streams",
    "unmarked": "The network's layer",
    "deep-alarms": "The deep layer",
    "quality": "The network's layer, and MP3 for comparison",
    "deep-quality": "The deep layer",
    "stream": "Latency and time",
    "security": "Threats to the network's layer",
    "deep-security": "Removal and copying of the deep layer",
    "verdicts": "Verdicts by what was done",
    "fingerprint": "Fingerprints: recordings that were missed, by edit and length",
    "other-audio": "Fingerprints: other audio that was taken for a recording",
    "containers": "By format",
}

LIMITS = (
    "Nothing of the network's layer is left after low-rate neural codecs, vocoders, codecs of telephones, and Opus at "
    "8 kbit/s or less; of the deep layer, pieces of less than eight seconds are then found in part only.",
    "Someone who has the software can erase a mark, bury it under others, or copy it to other audio without the key. "
    "A copied mark is told from an original one only where a record of the original exists.",
    "Audio of less than half a second, silence, white noise and very quiet integer audio carry no mark; they are "
    "refused, except in streams, which tell it.",
    "Speeds below 0.8 and above 1.25 are not searched, nor, by default, other speeds for the deep layer beyond 6 %.",
    "A verdict mostly does not notice that a stretch of 2 s or less was replaced, and mostly takes audio of which "
    "tempo or pitch alone was changed for other audio, all of it or in part, or finds no mark.",
    "“Found” is a statement about a key: marks of other keys and other makers are not seen.",
    "Signed metadata is removed by many platforms and programs; it proves something only while it is there and its "
    "certificate is trusted.",
)

NEVER_MEASURED = (
    "Whether people hear the mark: no listening test was made (“ideaw bench listen” makes one).",
    "Voice conversion, and neural codecs other than those named above.",
    "Re-recording with real loudspeakers and microphones: rooms are simulated.",
    "Singing, pop music and telephone speech as training audio: there was none.",
    "Your audio, your generator, and the platforms that your audio passes.",
)


@dataclass(frozen=True)
class Evidence:
    """A report on what is installed.

    Attributes:
        date: when it was made, in UTC.
        versions: name → version.
        hashes: name → SHA-256.
        changed_weights: files of the network that are not the released ones.
        promises: what is promised, how much, and what holds it.
        figures: what was measured, and how.
    """

    date: str
    versions: dict[str, str]
    hashes: dict[str, str]
    changed_weights: list[str]
    promises: list[tuple[str, str, str]]
    figures: Figures

    def as_json(self) -> dict[str, Any]:
        """For a machine."""
        return asdict(self) | {"limits": list(LIMITS), "never_measured": list(NEVER_MEASURED)}

    def as_page(self) -> str:
        """For a reader: a page that needs nothing else."""
        return page(f"ideaw {self.versions['ideaw']}: evidence of {self.date[:10]}", list(self._sections()))

    def _sections(self) -> Iterator[Section]:
        yield Section("What this is", [*map(Text, ABOUT), Text(self._summary())])
        changed = f"Not as released: {', '.join(self.changed_weights)}." if self.changed_weights else "As released."
        digests = Table(["of", "SHA-256"], list(self.hashes.items()), f"Weights: {changed}")
        how = f"The digest of the package, in the folder of its modules: {installed.PACKAGE_COMMAND}"
        source = ", ".join(f"{part} {digest}" for part, digest in self.figures.source.items())
        compared = (
            f"Figures of “this version” were made with source whose digests, by benchmarks/stamps.py, are: {source}."
        )
        yield Section(
            "Versions and hashes",
            [Table(["what", "version"], list(self.versions.items())), digests, Text(how), Text(compared)],
        )
        yield Section("What is promised", [Table(["promise", "value", "held by"], self.promises)])
        for title, (about, names) in CHAPTERS.items():
            parts = [_part(TITLES[name], self.figures.figures[name]) for name in names]
            yield Section(title, [Text(about), *parts])
        yield Section("Limits", list(map(Text, LIMITS)))
        missing = [
            f"{TITLES[name]}: {source.command}"
            for name, figure in self.figures.figures.items()
            for source in figure.sources
            if source.made_with == NOT_MEASURED_YET
        ]
        yield Section("What was not measured", list(map(Text, (*NEVER_MEASURED, *missing))))

    def _summary(self) -> str:
        ages = [source.made_with for figure in self.figures.figures.values() for source in figure.sources]
        fresh, missing = ages.count(THIS_VERSION), ages.count(NOT_MEASURED_YET)
        return (
            f"Made on {self.date}. Measurements with this version: {fresh}; with an earlier one, or one that was not "
            f"noted: {len(ages) - fresh - missing}; not made at all: {missing}."
        )


def collect() -> Evidence:
    """Everything about the installed version, as of now."""
    taken = installed.hashes()
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Evidence(
        date, installed.versions(), taken, installed.changed_weights(taken), list(_promises()), read_figures()
    )


def _promises() -> Iterator[tuple[str, str, str]]:
    card = find_model(None).card
    yield "false alarms of a search", f"at most 1 in {1 / FILE_P:,.0f} files", "a bound over random keys, for any audio"
    yield "false alarms in time", f"at most 1 in {FALSE_ALARM_HOURS:,} h of audio", "the same bound"
    yield "least audio that is marked", f"{card.min_seconds:g} s", "less is refused in one line"
    yield (
        "message in every second",
        f"{layout(card.message_bits).content_bits} bits",
        "longer ones take several seconds",
    )
    level = f"{card.audibility:g} dB noise to mask in every half second, on average"
    yield "level of the mark", level, "set by a model of hearing; single moments lie above it"
    yield "audio that is taken", f"{MIN_RATE_HZ:,} to {MAX_RATE_HZ:,} Hz, up to {MAX_CHANNELS} channels", "tests"
    latency = f"{LIVE_LATENCY_SECONDS:g} s at 16 kHz, {RESAMPLED_LATENCY_SECONDS:g} s at other usual rates"
    yield "latency of a live stream", f"at most {latency}", "by construction; measured below"
    yield "a marked file", "is read back before it is handed over", "where that fails there is no file"
    yield "length, rate, channels and format", "stay", "tests; what else stays is measured below"


def _part(title: str, figure: Figure) -> Table | Text:
    commands = "; ".join(source.command for source in figure.sources)
    if not figure.rows:
        return Text(f"{title}: not measured. It would be by: {commands}.")
    return Table(figure.heads, figure.rows, f"{title}. Made with: {figure.age}. {figure.note} Measured by: {commands}.")
