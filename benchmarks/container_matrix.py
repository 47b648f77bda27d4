"""What stays of a file beside its samples: format × kind of metadata × before and after, read by others' programs.

    python benchmarks/container_matrix.py --json docs/results/containers.json

Makes files with everything that their format holds (`container_sources.py`), marks each with `Marker.embed_file`, and
has each kind of metadata read from both by the same program: ffprobe, exiftool, sndfile-info, metaflac and others,
never by our own code. A cell holds if the program sees the metadata in the source at all, and sees the same in the
marked file. The mark is then looked for, too.
"""

import argparse
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import container_sources as make

import ideaw

MESSAGE = "kept"


@dataclass(frozen=True)
class Subject:
    """A file to be marked: its name, what it is, and who makes it with which programs."""

    name: str
    label: str
    maker: make.Maker
    programs: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """One kind of metadata of a file, and how a program shows it.

    Attributes:
        subject: name of the file.
        kind: what it is.
        command: the program and its arguments; {file} is the file, {out} one that the program writes and that counts
            as what it shows.
        proof: what must be in what it shows of the source.
        lines: pattern of the lines that are compared, or, where it has a group, of the pieces; all by default.
    """

    subject: str
    kind: str
    command: str
    proof: str
    lines: str = ""

    @property
    def program(self) -> str:
        """What reads it."""
        return self.command.split()[0]


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("broadcast.wav", "WAV", make.wav, ()),
        Subject("float.wav", "WAV, float", make.wav_float, ("sndfile-convert",)),
        Subject("surround.wav", "WAV, 5.1", make.wav_surround, ("ffmpeg",)),
        Subject("alaw.wav", "WAV, A-law", make.wav_alaw, ("ffmpeg",)),
        Subject("long.rf64", "RF64", make.rf64, ("ffmpeg",)),
        Subject("sony.w64", "W64", make.w64, ("sox",)),
        Subject("mac.aiff", "AIFF", make.aiff, ("sox",)),
        Subject("little.aiff", "AIFF-C, sowt", make.aiff_little, ()),
        Subject("sun.au", "AU", make.au, ("ffmpeg",)),
        Subject("core.caf", "CAF", make.caf, ("ffmpeg",)),
        Subject("all.flac", "FLAC", make.flac, ("flac",)),
        Subject("all.ogg", "Ogg Vorbis", make.vorbis, ("oggenc",)),
        Subject("all.opus", "Opus", make.opus, ("opusenc",)),
        Subject("opus.ogg", "Opus called .ogg", make.opus, ("opusenc",)),
        Subject("vbr.mp3", "MP3, V2", make.mp3, ("lame", "eyeD3")),
        Subject("abr.mp3", "MP3, ABR", make.mp3_average, ("lame",)),
        Subject("low.mp3", "MP3, MPEG-2", make.mp3_low, ("lame",)),
        Subject("book.m4a", "M4A", make.m4a, ("ffmpeg", "AtomicParsley")),
        Subject("lossless.m4a", "M4A, ALAC", make.alac, ("ffmpeg",)),
        Subject("film.mp4", "MP4", make.mp4, ("ffmpeg",)),
        Subject("film.mov", "MOV", make.mov, ("ffmpeg",)),
        Subject("film.mkv", "Matroska", make.mkv, ("ffmpeg",)),
        Subject("film.webm", "WebM", make.webm, ("ffmpeg",)),
        Subject("all.wv", "WavPack", make.wavpack, ("wavpack",)),
    )
}

_PROBE = "ffprobe -v error -of compact -show_entries "
_VIDEO = "ffmpeg -v error -i {file} -map 0:v -c copy -f md5 -"
_VIDEO_TIMES = "ffprobe -v error -select_streams v -show_entries packet=pts_time,flags -of csv {file}"
_SUBTITLES = "ffmpeg -v error -i {file} -map 0:s -f srt -"
_CHAPTERS = _PROBE + "chapter=start_time,end_time:chapter_tags {file}"
_SAMPLES = "soxi -s {file}"
_DURATION = _PROBE + "stream=duration -select_streams a {file}"
_SOUND = _PROBE + "stream=codec_name,sample_rate,channels,channel_layout,bits_per_raw_sample -select_streams a {file}"

CELLS = [
    Cell(
        "broadcast.wav",
        "bext",
        "exiftool {file}",
        "Master of a symphony",
        "^(?:Desc|Orig|Time R|BWF|Cod)",
    ),
    Cell("broadcast.wav", "bext loudness", "mediainfo {file}", "LoudnessValue", "Loud|Peak"),
    Cell("broadcast.wav", "loop points (smpl)", "sndfile-info {file}", "Start : 11025", "Cue ID|Midi|Loop"),
    Cell("broadcast.wav", "cue points", "sndfile-info {file}", "Pos : 99000", "Pos :|Count"),
    Cell("broadcast.wav", "labels (adtl)", "sndfile-info {file}", "Refrain", "labl"),
    Cell("broadcast.wav", "INFO tags", "exiftool {file}", "Engineer", "Title|Artist|Source|Engineer"),
    Cell("broadcast.wav", "iXML", "exiftool {file}", "42", "Bwfxml"),
    Cell("broadcast.wav", "instrument (inst)", "exiftool {file}", "Unshifted", "Unshifted|Note|Velocity"),
    Cell("broadcast.wav", "tempo (acid)", "exiftool {file}", "Tempo", "Tempo|Meter|Beats"),
    Cell("broadcast.wav", "unknown chunk", "sndfile-info {file}", "abcd : 9", "abcd"),
    Cell("broadcast.wav", "length", _SAMPLES, "132300"),
    Cell("float.wav", "sample format", "soxi -e {file}", "Floating Point"),
    Cell("float.wav", "PEAK chunk is there", "sndfile-info {file}", "PEAK : 24", "PEAK :"),
    Cell("surround.wav", "places of channels", _SOUND, "5.1"),
    Cell("surround.wav", "width", "soxi -b {file}", "24"),
    Cell("alaw.wav", "coding", _SOUND, "pcm_alaw"),
    Cell("alaw.wav", "INFO tags", _PROBE + "format_tags {file}", "Tanz"),
    Cell("long.rf64", "64-bit sizes", "sndfile-info {file}", "RF64", "RF64|ds64|Riff|Data|Frames"),
    Cell("long.rf64", "bext", "exiftool {file}", "Master tape", "Description"),
    Cell("sony.w64", "width and length", "sndfile-info {file}", "132300", "Frames|Bit Width|Channels"),
    Cell("mac.aiff", "texts", "exiftool {file}", "Anmerkung", "Name  |Author|Annotation|Copyright"),
    Cell("mac.aiff", "markers", "sndfile-info {file}", "Ende", "Mark|Name|Position|MARK"),
    Cell("mac.aiff", "instrument, loops", "sndfile-info {file}", "INST", "INST|Loop|Note|Mode|Begin|End  "),
    Cell("mac.aiff", "unknown data (APPL)", "sndfile-info {file}", "APPL : 12", "APPL"),
    Cell("mac.aiff", "length", _SAMPLES, "132300"),
    Cell("little.aiff", "byte order", _SOUND, "pcm_s16le"),
    Cell("sun.au", "annotation", _PROBE + "format_tags {file}", "Tanz"),
    Cell("core.caf", "info", _PROBE + "format_tags {file}", "Brahms"),
    Cell("core.caf", "width", _SOUND, "pcm_s24be"),
    Cell("all.flac", "comments, repeated", "metaflac --export-tags-to=- {file}", "ARTIST=Joachim"),
    Cell("all.flac", "ReplayGain, ids", "metaflac --export-tags-to=- {file}", "REPLAYGAIN", "REPLAY|MUSIC"),
    Cell("all.flac", "DESCRIPTION of ffmpeg", "metaflac --show-tag=DESCRIPTION {file}", "von ffmpeg"),
    Cell("all.flac", "picture", "metaflac --export-picture-to={out} {file}", "^[0-9a-f]{32}$"),
    Cell("all.flac", "cue sheet", "metaflac --export-cuesheet-to=- {file}", "TRACK 02"),
    Cell("all.flac", "padding, order of blocks", "metaflac --list {file}", "PADDING", "type:|PADDING"),
    Cell(
        "all.flac",
        "seek points",
        "metaflac --list --block-type=SEEKTABLE {file}",
        "sample_number=20480",
        r"(sample_number=\d+)",
    ),
    Cell("all.flac", "decodes, MD5 right", "flac --test {file}", "ok", "ok"),
    Cell("all.ogg", "comments, repeated", "vorbiscomment -l {file}", "ARTIST=Joachim"),
    Cell("all.ogg", "vendor, nominal bitrate", "ogginfo {file}", "Nominal", "Nominal|Rate:|Channels|Vendor"),
    Cell("all.ogg", "pages in order", "ogginfo {file}", "ended", "ended|WARN|Negative|hole"),
    Cell("all.opus", "comments, repeated", "opusinfo {file}", "ARTIST=Joachim", "="),
    Cell("all.opus", "picture", _PROBE + "stream=codec_name,width,height -select_streams v {file}", "png"),
    Cell("all.opus", "rate before coding", "opusinfo {file}", "44100", "Original sample rate"),
    Cell("all.opus", "pages in order", "opusinfo {file}", "ended", "ended|WARN|hole"),
    Cell("opus.ogg", "coding", _SOUND, "opus"),
    Cell("opus.ogg", "comments, repeated", "opusinfo {file}", "ARTIST=Joachim", "="),
    Cell("vbr.mp3", "ID3v2 texts", _PROBE + "format_tags {file}", "Strings"),
    Cell("vbr.mp3", "disc, track, ISRC", "eyeD3 --no-color --verbose {file}", "TSRC", "track|disc|TSRC"),
    Cell("vbr.mp3", "picture", "exiftool -b -Picture {file}", "PNG"),
    Cell("vbr.mp3", "lyrics", "eyeD3 --no-color {file}", "Hallo", "Hallo|Lyrics|-->"),
    Cell("vbr.mp3", "ID3v1", "id3v2 -l {file}", "id3v1 tag info", "id3v1|^Title|^Album|^Comment"),
    Cell("vbr.mp3", "APE tags", "exiftool {file}", "Nobody", "Conductor|Minmax"),
    Cell("vbr.mp3", "VBR, its quality", "mediainfo {file}", "-V 2", "rate mode *: .*|(-V [0-9])"),
    Cell("vbr.mp3", "number of frames", "exiftool {file}", "VBR Frames", "VBR Frames"),
    Cell("vbr.mp3", "frames in order", "mp3check -e -B -V -T {file}", "", "error|junk|invalid|truncated"),
    Cell("abr.mp3", "ABR", "mediainfo {file}", "--abr", "rate mode *: .*|(--abr)"),
    Cell("abr.mp3", "number of frames", "exiftool {file}", "VBR Frames", "VBR Frames"),
    Cell("low.mp3", "bitrate", _PROBE + "stream=bit_rate,sample_rate {file}", "bit_rate=48000"),
    Cell("book.m4a", "tags", "AtomicParsley {file} -t", "Buch"),
    Cell("book.m4a", "free tags", "AtomicParsley {file} -t", "MusicBrainzTrackId", "MusicBrainz"),
    Cell("book.m4a", "cover", "exiftool -b -CoverArt {file}", "PNG"),
    Cell("book.m4a", "chapters", _CHAPTERS, "Zwei"),
    Cell("book.m4a", "brand", "exiftool {file}", "M4A", "Major Brand|Compatible"),
    Cell("book.m4a", "length by edit list", _DURATION, "3.000000"),
    Cell("lossless.m4a", "coding, width", _SOUND, "alac"),
    Cell("film.mp4", "pictures", _VIDEO, "MD5="),
    Cell("film.mp4", "times of pictures", _VIDEO_TIMES, "2.96"),
    Cell("film.mp4", "subtitles", _SUBTITLES, "Hallo"),
    Cell("film.mp4", "chapters", _CHAPTERS, "Zwei"),
    Cell("film.mp4", "time code, language", _PROBE + "stream_tags=timecode,language {file}", "01:00:00:00"),
    Cell("film.mp4", "tags", _PROBE + "format_tags=title,major_brand {file}", "Buch"),
    Cell("film.mp4", "length of the sound", _DURATION, "3.000000"),
    Cell("film.mov", "pictures", _VIDEO, "MD5="),
    Cell("film.mov", "time code", _PROBE + "stream_tags=timecode {file}", "01:00:00:00"),
    Cell("film.mov", "coding of the sound", _SOUND, "pcm_s24le"),
    Cell("film.mkv", "pictures", _VIDEO, "MD5="),
    Cell("film.mkv", "times of pictures", _VIDEO_TIMES, "2.9"),
    Cell("film.mkv", "subtitles", "mkvextract {file} tracks 3:{out}", "^[0-9a-f]{32}$"),
    Cell("film.mkv", "attachment", "mkvextract {file} attachments 1:{out}", "^[0-9a-f]{32}$"),
    Cell("film.mkv", "chapters", _CHAPTERS, "Zwei"),
    Cell("film.mkv", "both sounds, languages", _PROBE + "stream=codec_name:stream_tags=language {file}", "eng"),
    Cell("film.webm", "pictures", _VIDEO, "MD5="),
    Cell("film.webm", "coding, tags", _PROBE + "stream=codec_name:format_tags=title {file}", "opus"),
    Cell("all.wv", "APE tags", "wvunpack -ss {file}", "Nobody", "Title|Artist|Conductor|Cover"),
    Cell("all.wv", "picture", "wvunpack -nqx 'Cover Art (Front)' {file}", "PNG"),
    Cell("all.wv", "decodes, checks right", "wvunpack -vq {file}", ""),
]


def main() -> None:
    """Make, mark and read all files; write what was kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results go")
    arguments = parser.parse_args()
    marker = ideaw.load(threads=1)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make.make_inputs(folder)
        for subject in SUBJECTS.values():
            marked = mark(marker, subject, folder)
            for cell in (cell for cell in CELLS if cell.subject == subject.name):
                problem = compare(cell, folder / subject.name, marked)
                print(f"{subject.name:15} {cell.kind:26} {cell.program:13} {problem or 'kept'}")
                rows.append({"format": subject.label, "kind": cell.kind, "program": cell.program, "kept": not problem})
    if arguments.json:
        result = {"version": ideaw.__version__, "cells": rows}
        arguments.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def missing_program(subject: Subject, cell: Cell | None = None) -> str | None:
    """The first program that is not installed, of those that make a file and, if asked, read a cell."""
    needed = ("ffmpeg", *subject.programs, *([] if cell is None else [cell.program]))
    return next((program for program in needed if shutil.which(program) is None), None)


def mark(marker: ideaw.Marker, subject: Subject, folder: Path) -> Path:
    """Make a file and mark it; where the marked one is."""
    source, marked = folder / subject.name, folder / f"marked-{subject.name}"
    subject.maker(folder, source)
    marker.embed_file(source, marked, MESSAGE)
    assert marker.detect_file(marked).message == MESSAGE, f"{marked} has lost its mark"
    return marked


def compare(cell: Cell, source: Path, marked: Path) -> str | None:
    """What is wrong with a kind of metadata; None if it is there, and the same in both files."""
    before, after = (show(cell, path) for path in (source, marked))
    if not re.search(cell.proof, before, re.MULTILINE):
        return f"{cell.program} does not see it in the source: {before[:300]!r}"
    return None if before == after else f"was {before[:300]!r}, became {after[:300]!r}"


def show(cell: Cell, path: Path) -> str:
    """What a program shows of a kind of metadata, without names of files."""
    out = path.with_name("shown")
    out.unlink(missing_ok=True)
    command = [part.format(file=path, out=out) for part in shlex.split(cell.command)]
    done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    if out.exists():
        return hashlib.md5(out.read_bytes()).hexdigest()
    text = (done.stdout + done.stderr).decode("utf-8", "replace").replace(str(path), "FILE").replace(path.name, "FILE")
    if re.compile(cell.lines).groups:
        return "\n".join(match[0] for match in re.finditer(cell.lines, text))
    return "\n".join(line for line in re.split(r"[\r\n]+", text) if re.search(cell.lines, line))


if __name__ == "__main__":
    main()
