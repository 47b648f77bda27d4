"""All significance levels of detection in one place, from a candidate track to a found file.

The null hypothesis is audio without a mark of the key. Carriers have pseudo-random signs drawn from the key, so the
evidence is then a sum of values with independent random signs, whatever the audio is, and its probability is bounded:
by Hoeffding for tracks (`correlate.py`), by Chernoff for words (`modem/soft_decision.py`).
"""

CANDIDATE_P = 0.05
"""p-value of a track below which its message is decoded; weak, since the message carries most of the evidence."""

POOL_ALL_ABOVE_P = 1e-12
"""p-value of the strongest track above which all seconds of the chunk are pooled too, since the mark may be faint."""

MESSAGE_P = 1e-4
"""Level at which a message is accepted; a bound, since all words there are are counted (union bound)."""

EARLY_STOP_P = 1e-9
"""Level at which a short message is accepted without looking for a long one."""

SPLICE_P = 1e-6
"""p-value of another message below which contradicting seconds are taken for a splice."""

FILE_P = 1e-6
"""p-value below which a mark counts as found: one false alarm in a million files …"""

FALSE_ALARM_HOURS = 10_000
"""… and one in so many hours, where that is stricter: of files shorter than 36 seconds."""


def file_limit(seconds: float) -> float:
    """The p-value below which a mark counts as found in so many seconds of audio."""
    return min(FILE_P, seconds / 3600 / FALSE_ALARM_HOURS)
