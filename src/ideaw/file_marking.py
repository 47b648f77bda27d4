"""Marks a file as another one: a search for an older mark, every sound of it marked, read back, then put in its place.

What surrounds the samples comes along (`audio/containers`). The new file has no name until it has been read back, so
whatever happens before leaves nothing behind and the input untouched.
"""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ideaw.audio import atomic
from ideaw.audio.blocks import Progress, run_stage, with_progress
from ideaw.audio.read import Source, open_audio, read_blocks
from ideaw.audio.samples import check_source
from ideaw.audio.write import (
    check_distinct,
    check_format,
    check_kept,
    check_place,
    create_audio,
    stored_companding,
    stored_step,
)
from ideaw.engine.gain import MarkLevel
from ideaw.errors import AlreadyMarkedError, LostMarkError
from ideaw.keys import PUBLIC, Key
from ideaw.layered_detector import LayeredDetector
from ideaw.layered_embedder import EmbedRequest
from ideaw.layers import ALL_LAYERS, default_layers
from ideaw.payload.message import Message
from ideaw.read_back import ReadBack

SEARCHING_SHARE, READING_BACK_SHARE = 0.15, 0.05
"""Shares of the work, for the sake of its progress: searching for older marks, and reading back."""


@dataclass(frozen=True)
class FileMarking:
    """How files are marked.

    Attributes:
        request: what is written, and how.
        keeps_layers: whether its layers were asked for; otherwise each sound has what suits it.
        verify: whether it is to be found in what was written before that is handed over.
        respected: keys over whose marks no other is put; empty: over any.
        longest: most seconds of audio that are taken; None: any.
        overwrite: whether the output may be there already.
    """

    request: EmbedRequest
    keeps_layers: bool
    verify: bool
    respected: Sequence[Key]
    longest: float | None
    overwrite: bool

    def mark(self, source: Path, target: Path, into: Path | None, progress: Progress | None) -> MarkLevel:
        """Mark all sounds of `source` as `target`, which appears whole or not at all.

        Args:
            source, target: the files.
            into: an empty file that is written instead; `target` then only names it and its format.
            progress: receives the share of the work that is done, 0 to 1.

        Returns:
            The level that was taken, the strongest of all sounds.

        Raises:
            IdeawError: it cannot be read, marked, found again or written, or is marked already.
        """
        check_distinct(source, target)
        with open_audio(source) as opened:
            self._check(opened, target, into)
            num_tracks = opened.num_tracks
        levels = []
        with ExitStack() as files:
            former = source
            for track in range(num_tracks):
                part = _part_of(progress, track / num_tracks, (track + 1) / num_tracks)
                last = track == num_tracks - 1
                place = into if last else files.enter_context(atomic.scratch_file(into or target))
                if self.respected:
                    self._search(former, track, _part_of(part, 0, SEARCHING_SHARE))
                    part = _part_of(part, SEARCHING_SHARE, 1)
                part = _part_of(part, 0, 1 - READING_BACK_SHARE)
                levels.append(self._mark_track(former, track, target, place, part))
                former = place or former
        if progress:
            progress(1.0)
        return max(levels, key=lambda level: level[1] or 0.0)

    def _check(self, opened: Source, target: Path, into: Path | None) -> None:
        """What is known before anything is read."""
        rate, channels, length = opened.rate, opened.channels, opened.num_samples
        check_source(rate, channels, length, self.longest)
        self.request.check_seconds(None if length is None else length / rate)
        check_format(target, rate, channels, opened.encoding, length, keeps_video=True)
        check_kept(target, opened.encoding)
        if into is None:
            check_place(target, self.overwrite)

    def _search(self, source: Path, track: int, progress: Progress | None) -> None:
        """Raise `AlreadyMarkedError` if one of the respected keys has marked a sound already, in whatever layer."""
        with open_audio(source, track) as opened:
            rate, channels, length = opened.rate, opened.channels, opened.num_samples
        detector = LayeredDetector(self.request.network, self.respected, ALL_LAYERS, "none", ())
        found = detector.detect(partial(read_blocks, source, self.longest, track), rate, channels, length, progress)
        if found.message is not None:
            owner = "the public key" if found.key == PUBLIC.fingerprint else f"the key {found.key}"
            raise AlreadyMarkedError(
                f"{source} carries the mark {Message(found.message)} already, of {owner}; another one over it would "
                "make both hard to read: to mark it all the same, say so (--over)"
            )

    def _mark_track(
        self, source: Path, track: int, target: Path, into: Path | None, progress: Progress | None
    ) -> MarkLevel:
        """Mark a sound, more strongly where it is short and cannot be read back else; the level that was taken."""
        with open_audio(source, track) as opened:
            seconds = None if opened.num_samples is None else opened.num_samples / opened.rate
            request = self._request_for(seconds, stored_companding(target, opened.encoding))
        *weaker, strongest = request.attempts(seconds if self.verify else None)
        for request in weaker:
            with suppress(LostMarkError):
                self._mark_as(request, source, track, target, into, progress)
                return request.checked_level
        self._mark_as(strongest, source, track, target, into, progress)
        return strongest.checked_level

    def _request_for(self, seconds: float | None, companding: str | None) -> EmbedRequest:
        """What is written to a sound of so many seconds, in values of a law if there is one."""
        if self.keeps_layers:
            return self.request
        return replace(self.request, layers=default_layers(self.request.level[0], seconds, companding))

    def _mark_as(
        self,
        request: EmbedRequest,
        source: Path,
        track: int,
        target: Path,
        into: Path | None,
        progress: Progress | None,
    ) -> None:
        with open_audio(source, track) as opened:
            rate, channels, length = opened.rate, opened.channels, opened.num_samples
            check_source(rate, channels, length, self.longest)
            step, law = stored_step(target, opened.encoding), stored_companding(target, opened.encoding)
            seconds = None if length is None else length / rate
            first_tile = request.choose_start(read_blocks(source, self.longest, track), rate, seconds)
            embedder = request.start(rate, channels, step, law, seconds=seconds, first_tile=first_tile)

            def read_back(written: Path) -> None:
                if self.verify:
                    ReadBack(request).check(written, target, source, track, embedder.length)

            with create_audio(
                target,
                rate,
                channels,
                opened.encoding,
                length,
                source=source,
                track=track,
                inspect=read_back,
                overwrite=self.overwrite,
                into=into,
            ) as write:
                blocks = with_progress(opened.checked_blocks(self.longest), length, progress)
                for marked in run_stage(embedder, blocks):
                    write(marked)
                request.check_seconds(embedder.length / rate)
                request.check_marked(embedder)


def _part_of(progress: Progress | None, start: float, end: float) -> Progress | None:
    """Reports the progress of a part of the work that goes from one share of it to another."""
    if progress is None:
        return None
    return lambda share: progress(start + share * (end - start))
