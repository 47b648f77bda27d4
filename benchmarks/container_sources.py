"""Files with everything that can surround samples, made by other people's programs, for `container_matrix.py`.

Chunks that no program of Debian writes into WAV and AIFF (loops, cue points, `bext`) are put in byte by byte; whether
they are right is what the programs that read them say. Every maker writes one file of three seconds of music.
"""

import struct
import subprocess
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import soundfile as sf

SECONDS = 3
RATE = 44_100

COMMENTS = (
    "TITLE=Tanz Nr. 5",
    "ARTIST=Brahms",
    "ARTIST=Joachim",
    "ALBUMARTIST=Strings",
    "DISCNUMBER=2",
    "ISRC=DEABC1234567",
    "REPLAYGAIN_TRACK_GAIN=-3.21 dB",
    "MUSICBRAINZ_TRACKID=a-b-c",
    "LYRICS=la la",
    "DESCRIPTION=von ffmpeg",
)

_CHAPTERS = """;FFMETADATA1
title=Buch
[CHAPTER]
TIMEBASE=1/1000
START=0
END=1500
title=Eins
[CHAPTER]
TIMEBASE=1/1000
START=1500
END=3000
title=Zwei
"""
_SUBTITLES = "1\n00:00:00,500 --> 00:00:01,500\nHallo\n"
_FILM = ("-f", "lavfi", "-i", f"testsrc=s=160x120:r=25:d={SECONDS}")
_IXML = b'<?xml version="1.0"?><BWFXML><PROJECT>Film</PROJECT><SCENE>42</SCENE></BWFXML>'


def make_inputs(folder: Path) -> None:
    """Write what the makers use: music, a picture, chapters, subtitles, a cue sheet."""
    with resources.as_file(resources.files("ideaw").joinpath("samples", "music.ogg")) as path:
        music, rate = sf.read(path)
    assert rate == RATE
    sf.write(folder / "music.wav", music[: SECONDS * RATE], RATE)
    (folder / "chapters.txt").write_text(_CHAPTERS)
    (folder / "lines.srt").write_text(_SUBTITLES)
    tracks = "  TRACK 01 AUDIO\n    INDEX 01 00:00:00\n  TRACK 02 AUDIO\n    INDEX 01 00:01:37\n"
    (folder / "disc.cue").write_text(f'FILE "music.wav" WAVE\n{tracks}')
    run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=s=64x64", "-frames:v", "1", folder / "cover.png")


def run(*command: object) -> None:
    """Run a program that must succeed, without a word."""
    subprocess.run([str(part) for part in command], check=True, capture_output=True, stdin=subprocess.DEVNULL)


def wav(folder: Path, path: Path) -> None:
    """A broadcast WAV with loops, cue points, labels, tags, iXML, and a chunk that nobody knows."""
    content = (folder / "music.wav").read_bytes()
    _write_riff(path, content[12:36], content[36:], b"WAVE")


def wav_float(folder: Path, path: Path) -> None:
    """Float samples, whose file tells the largest."""
    run("sndfile-convert", "-float32", folder / "music.wav", path)


def wav_surround(folder: Path, path: Path) -> None:
    """Six channels of 24 bits that are told apart."""
    channels = "pan=5.1|c0=c0|c1=c1|c2=c0|c3=c1|c4=c0|c5=c1"
    ffmpeg(folder, path, "-af", channels, "-c:a", "pcm_s24le")


def wav_alaw(folder: Path, path: Path) -> None:
    """A-law, with tags."""
    ffmpeg(folder, path, "-c:a", "pcm_alaw", "-metadata", "title=Tanz")


def rf64(folder: Path, path: Path) -> None:
    """A broadcast WAV with 64-bit sizes."""
    ffmpeg(folder, path, "-f", "wav", "-rf64", "always", "-write_bext", "1", "-metadata", "description=Master tape")


def w64(folder: Path, path: Path) -> None:
    """Sony's WAV with 64-bit sizes."""
    run("sox", folder / "music.wav", "-b", "24", path)


def aiff(folder: Path, path: Path) -> None:
    """AIFF with texts, markers, an instrument with loops, and an ID3 tag."""
    run("sox", folder / "music.wav", path)
    content = path.read_bytes()
    marks = struct.pack(">H", 2) + b"".join(
        struct.pack(">HI", number, at) + bytes([len(name)]) + name + b"\0" * (1 - len(name) % 2)
        for number, at, name in ((1, 11_025, b"Start"), (2, 99_000, b"Ende"))
    )
    instrument = struct.pack(">bbbbbbhHHHHHH", 60, 0, 0, 127, 1, 127, 0, 1, 1, 2, 0, 1, 2)
    chunks = [(b"NAME", b"Tanz"), (b"AUTH", b"Brahms"), (b"ANNO", b"Anmerkung"), (b"(c) ", b"2026 Wir")]
    chunks += [(b"MARK", marks), (b"INST", instrument), (b"APPL", b"stocown data")]
    body = content[12:] + b"".join(_chunk(name, text, ">") for name, text in chunks)
    path.write_bytes(b"FORM" + struct.pack(">I", 4 + len(body)) + b"AIFF" + body)


def aiff_little(folder: Path, path: Path) -> None:
    """AIFF-C with the bytes of each sample turned round, as Macs write it."""
    music, rate = sf.read(folder / "music.wav", dtype="int16")
    sf.write(path, music, rate, format="AIFF", endian="LITTLE", subtype="PCM_16")


def au(folder: Path, path: Path) -> None:
    """AU with an annotation."""
    ffmpeg(folder, path, "-metadata", "title=Tanz")


def caf(folder: Path, path: Path) -> None:
    """CAF with tags."""
    ffmpeg(folder, path, "-c:a", "pcm_s24be", "-metadata", "title=Tanz", "-metadata", "artist=Brahms")


def flac(folder: Path, path: Path) -> None:
    """FLAC with all kinds of blocks."""
    comments = [f"--tag={comment}" for comment in COMMENTS]
    options = ["--silent", "--force", "--seekpoint=0.5s", f"--picture={folder / 'cover.png'}", "--padding=4000"]
    run("flac", *options, f"--cuesheet={folder / 'disc.cue'}", *comments, "-o", path, folder / "music.wav")


def vorbis(folder: Path, path: Path) -> None:
    """Ogg Vorbis with repeated fields."""
    comments = [part for comment in COMMENTS for part in ("-c", comment)]
    run("oggenc", "--quiet", "-q", "4", *comments, "-o", path, folder / "music.wav")


def opus(folder: Path, path: Path) -> None:
    """Opus with repeated fields and a picture."""
    comments = [part for comment in COMMENTS for part in ("--comment", comment)]
    picture = ("--picture", folder / "cover.png")
    run("opusenc", "--quiet", "--bitrate", "96", *picture, *comments, folder / "music.wav", path)


def mp3(folder: Path, path: Path) -> None:
    """MP3 of variable bitrate with ID3v2, ID3v1 and APE tags and a picture."""
    run("lame", "--quiet", "-V", "2", folder / "music.wav", path)
    names = ("--title", "Tanz", "--artist", "Brahms", "--album-artist", "Strings", "--disc-num", "2", "--track", "5")
    run("eyeD3", "--quiet", *names, "--add-image", f"{folder / 'cover.png'}:FRONT_COVER", path)
    run("eyeD3", "--quiet", "--add-lyrics", f"{folder / 'lines.srt'}::eng", "--text-frame", "TSRC:DEABC1234567", path)
    run("eyeD3", "--quiet", "--to-v1.1", "--title", "Tanz", "--artist", "Brahms", path)
    content = path.read_bytes()
    path.write_bytes(content[:-128] + _ape_tag({"MP3GAIN_MINMAX": "089,181", "Conductor": "Nobody"}) + content[-128:])


def mp3_average(folder: Path, path: Path) -> None:
    """MP3 of average bitrate."""
    run("lame", "--quiet", "--abr", "128", folder / "music.wav", path)


def mp3_low(folder: Path, path: Path) -> None:
    """MPEG-2 Layer III at 48 kbit/s, in one channel at 22.05 kHz."""
    run("lame", "--quiet", "--cbr", "-b", "48", "--resample", "22.05", "-a", folder / "music.wav", path)


def m4a(folder: Path, path: Path) -> None:
    """An audio book with chapters, cover, usual and free tags."""
    mapped = ("-i", folder / "chapters.txt", "-i", folder / "cover.png", "-map", "0", "-map", "2", "-map_metadata", "1")
    cover = ("-map_chapters", "1", "-c:v", "png", "-disposition:v", "attached_pic", "-metadata", "album_artist=Strings")
    ffmpeg(folder, path, *mapped, "-c:a", "aac", "-b:a", "128k", *cover)
    free = ("--rDNSatom", "a-b-c", "name=MusicBrainzTrackId", "domain=com.apple.iTunes")
    run("AtomicParsley", path, *free, "--overWrite")


def alac(folder: Path, path: Path) -> None:
    """Lossless M4A of 24 bits."""
    ffmpeg(folder, path, "-c:a", "alac", "-sample_fmt", "s32p", "-metadata", "title=Tanz")


def mkv(folder: Path, path: Path) -> None:
    """A film with two sounds, subtitles, chapters and an attachment."""
    second = ("-f", "lavfi", "-i", f"sine=f=440:d={SECONDS}", "-i", folder / "lines.srt", "-i", folder / "chapters.txt")
    mapped = ("-map", "1", "-map", "0", "-map", "2", "-map", "3", "-map_chapters", "4", "-map_metadata", "4")
    codecs = ("-c:v", "libx264", "-bf", "2", "-g", "10", "-c:a", "ac3", "-c:s", "srt")
    attached = ("-attach", folder / "cover.png", "-metadata:s:t", "mimetype=image/png")
    languages = ("-metadata:s:a:0", "language=ger", "-metadata:s:a:1", "language=eng")
    ffmpeg(folder, path, *_FILM, *second, *mapped, *codecs, *attached, *languages)


def mp4(folder: Path, path: Path) -> None:
    """A film with subtitles, chapters, time code and tags."""
    inputs = (*_FILM, "-i", folder / "lines.srt", "-i", folder / "chapters.txt")
    mapped = ("-map", "1", "-map", "0", "-map", "2", "-map_chapters", "3", "-map_metadata", "3")
    codecs = ("-c:v", "libx264", "-bf", "2", "-g", "10", "-c:a", "aac", "-b:a", "128k", "-c:s", "mov_text")
    extra = ("-timecode", "01:00:00:00", "-metadata:s:a:0", "language=ger")
    ffmpeg(folder, path, *inputs, *mapped, *codecs, *extra)


def mov(folder: Path, path: Path) -> None:
    """A QuickTime film with PCM and a time code."""
    codecs = ("-map", "1", "-map", "0", "-c:v", "libx264", "-c:a", "pcm_s24le", "-timecode", "01:00:00:00")
    ffmpeg(folder, path, *_FILM, *codecs, "-metadata", "title=Film")


def webm(folder: Path, path: Path) -> None:
    """A WebM film with Opus."""
    ffmpeg(
        folder, path, *_FILM, "-map", "1", "-map", "0", "-c:v", "libvpx", "-c:a", "libopus", "-metadata", "title=Film"
    )


def wavpack(folder: Path, path: Path) -> None:
    """WavPack with repeated fields and a picture."""
    tags = ("-w", "Title=Tanz", "-w", "Artist=Brahms", "-w", "Conductor=Nobody")
    picture = ("--write-binary-tag", f"Cover Art (Front)=@{folder / 'cover.png'}")
    run("wavpack", "-q", "-y", *tags, *picture, folder / "music.wav", "-o", path)


def ffmpeg(folder: Path, path: Path, *options: object) -> None:
    """Run ffmpeg on the music."""
    run("ffmpeg", "-v", "error", "-y", "-i", folder / "music.wav", *options, path)


Maker = Callable[[Path, Path], None]


def _chunk(name: bytes, content: bytes, byteorder: str = "<") -> bytes:
    return name + struct.pack(f"{byteorder}I", len(content)) + content + b"\0" * (len(content) % 2)


def _write_riff(path: Path, head: bytes, samples: bytes, kind: bytes) -> None:
    """WAV from its `fmt ` chunk, its `data` chunk, and everything else."""
    texts = b"Master of a symphony".ljust(256, b"\0") + b"Studio".ljust(32, b"\0") + b"DE12345".ljust(32, b"\0")
    loudness = struct.pack("<5h", -2300, 500, -100, -1800, -2000)
    bext = (
        texts
        + b"2026-01-0210:20:30"
        + struct.pack("<QH", 441_000, 2)
        + bytes(64)
        + loudness
        + bytes(180)
        + b"A=PCM\r\n"
    )
    smpl = struct.pack("<9I", 0, 0, 22_675, 60, 0, 0, 0, 1, 0) + struct.pack("<6I", 0, 0, 11_025, 99_000, 0, 0)
    points = ((1, 11_025), (2, 99_000))
    cue = struct.pack("<I", 2) + b"".join(struct.pack("<II4sIII", k, at, b"data", 0, 0, at) for k, at in points)
    labels = ((1, b"Anfang\0"), (2, b"Refrain\0"))
    adtl = b"adtl" + b"".join(_chunk(b"labl", struct.pack("<I", number) + text) for number, text in labels)
    fields = ((b"INAM", b"Tanz\0"), (b"IART", b"Strings\0"), (b"ISRC", b"DEABC\0"), (b"IENG", b"Engineer\0"))
    info = b"INFO" + b"".join(_chunk(name, text) for name, text in fields)
    acid = struct.pack("<IHHfIHHf", 0, 60, 0, 0, 8, 4, 4, 120.0)
    after = [(b"smpl", smpl), (b"cue ", cue), (b"LIST", adtl), (b"LIST", info), (b"iXML", _IXML)]
    after += [(b"inst", bytes([60, 0, 0, 0, 127, 0, 127])), (b"acid", acid), (b"abcd", b"own data!")]
    body = head + _chunk(b"bext", bext) + samples + b"".join(_chunk(*chunk) for chunk in after)
    path.write_bytes(b"RIFF" + struct.pack("<I", 4 + len(body)) + kind + body)


def _ape_tag(fields: dict[str, str]) -> bytes:
    items = b"".join(
        struct.pack("<II", len(text), 0) + name.encode() + b"\0" + text.encode() for name, text in fields.items()
    )
    size, count = len(items) + 32, len(fields)
    head, foot = (
        b"APETAGEX" + struct.pack("<IIII", 2000, size, count, flags) + bytes(8) for flags in (0xA0000000, 1 << 31)
    )
    return head + items + foot
