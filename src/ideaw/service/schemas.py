"""What is sent and answered, as the OpenAPI description has it; forms are checked by these, answers only described."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ideaw.audio.hearing import MAX_AUDIBILITY_DB, MIN_AUDIBILITY_DB
from ideaw.engine.gain import MAX_SNR_DB, MIN_SNR_DB
from ideaw.hypotheses import DEFAULT_SPEEDS, Speeds
from ideaw.payload.message import Notation
from ideaw.service.presets import PLAYGROUND
from ideaw.service.uploads import Audio, SmallFile

MAX_KEYS = 8
"""Keys that one search may try."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)


# ---- What is sent


class EmbedForm(_Strict):
    """Audio to be marked, and how."""

    file: Audio
    message: str = Field(min_length=1)
    kind: Notation = "text"
    key: SmallFile | None = Field(None, description="A key file as `ideaw keygen` writes it.")
    snr: float | None = Field(None, ge=MIN_SNR_DB, le=MAX_SNR_DB)
    audibility: float | None = Field(None, ge=MIN_AUDIBILITY_DB, le=MAX_AUDIBILITY_DB)


class DetectForm(_Strict):
    """Audio to be searched."""

    file: Audio
    key: list[SmallFile] = Field(default=[], max_length=MAX_KEYS, description="Key files; the part may be repeated.")
    speeds: Speeds = DEFAULT_SPEEDS


class CompareForm(_Strict):
    """Two recordings of equal rate, channels and length."""

    original: Audio
    marked: Audio


class AttackForm(_Strict):
    """Audio, and the id of an attack."""

    file: Audio
    attack: str = Field(json_schema_extra={"enum": list(PLAYGROUND)})


class PreviewForm(_Strict):
    """Audio to be decoded."""

    file: Audio


# ---- What is answered


class ErrorAnswer(_Strict):
    """Why a request is not served, in one line."""

    error: str


class SegmentAnswer(_Strict):
    """A stretch of marked audio."""

    start: float
    end: float
    score: float
    message_ok: bool
    message: str | None
    key: str | None
    key_fingerprint: str | None


class DetectionAnswer(_Strict):
    """What a search found, for owners."""

    found: bool
    status: Literal["found", "unreadable", "none"]
    message: str | None
    kind: Literal["text", "bytes", "bits"] | None
    messages: list[str]
    p_value: float
    speed: float
    tempo: float
    layer: Literal["fast", "deep"] | None
    segments: list[SegmentAnswer]
    key: str | None
    key_fingerprint: str | None


class Place(_Strict):
    """Whole seconds between which a mark lies."""

    start: int
    end: int


class CoarseDetectionAnswer(_Strict):
    """What a search found, for strangers."""

    found: bool
    status: Literal["found", "none"]
    message: str | None
    kind: Literal["text", "bytes", "bits"] | None
    segments: list[Place]


class ComparisonAnswer(_Strict):
    """How far a recording is from another; null where nothing differs or a measure cannot be had."""

    snr: float | None
    lowest_snr: float | None
    pesq: float | None
    stoi: float | None
    noise_to_mask: float | None
    masked: float | None
    most_audible_noise_to_mask: float | None
    most_audible_seconds: float | None
    before_onsets_dbfs: float | None
    before_onsets_seconds: float | None
    onsets: int
    digital_silence_changed: bool
    equal: bool
    noise_to_mask_over_time: list[float] = Field(
        description="In dB, of the most audible moment in each of equally long stretches; empty where nothing differs."
    )


class AttackAnswer(_Strict):
    """An attack that may be asked for."""

    id: str
    label: str
    summary: str


class LimitsAnswer(_Strict):
    """How much one request may bring."""

    bytes: int
    seconds: float
    values: int = Field(description="Samples times channels, for compare, attack and preview.")


class CapacityAnswer(_Strict):
    """How long messages may be."""

    bits_in_every_second: int
    bytes_in_every_second: int
    bytes_per_second: int = Field(description="Of a longer message, which is spread over seconds.")
    overhead_bytes: int = Field(description="Of a longer message.")
    max_seconds: int = Field(description="Over which a longer message may be spread.")


class RangeAnswer(_Strict):
    """From where to where, in dB."""

    min: float
    max: float


class InfoAnswer(_Strict):
    """What a client needs to know beforehand."""

    version: str
    model: str
    audibility: float = Field(description="Noise to mask in dB of marks where nothing else is asked for.")
    snr: float = Field(description="A fixed SNR in dB that fits the model, for those who ask for one.")
    snr_range: RangeAnswer
    audibility_range: RangeAnswer
    capacity: CapacityAnswer
    limits: LimitsAnswer
    own_key: bool = Field(description="Whether a key of the service is used where a request brings none.")
    token_needed: bool = Field(description="Whether this caller needs a token for more than coarse answers.")


class HealthAnswer(_Strict):
    """The service runs."""

    status: Literal["ok"]
