"""What is sent and answered, as the OpenAPI description has it; forms are checked by these, answers only described."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ideaw.audio.hearing import MAX_AUDIBILITY_DB, MIN_AUDIBILITY_DB
from ideaw.engine.gain import MAX_SNR_DB, MIN_SNR_DB
from ideaw.hypotheses import DEFAULT_SPEEDS, Speeds
from ideaw.payload.message import Notation
from ideaw.service.presets import PLAYGROUND
from ideaw.service.uploads import Audio, SmallFile

MAX_PRODUCER_CHARACTERS = 200
"""Of the name of a producer."""

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


class VerifyForm(_Strict):
    """Audio whose origin is asked for."""

    file: Audio
    key: list[SmallFile] = Field(default=[], max_length=MAX_KEYS, description="Key files; the part may be repeated.")
    speeds: Speeds = DEFAULT_SPEEDS


class IssueForm(_Strict):
    """Audio that is to get an id."""

    file: Audio
    key: SmallFile | None = Field(None, description="A key file as `ideaw keygen` writes it.")
    origin: Literal["generated", "recorded"] | None = Field(None, description="How the audio came to be.")
    producer: str | None = Field(
        None, min_length=1, max_length=MAX_PRODUCER_CHARACTERS, description="Who generates, for China's label."
    )
    data: str | None = Field(None, description="What else to keep in the record: an object of JSON.")


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
    check_bits: int
    wire_format: int | None
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
    noise_snr: float | None = Field(description="In dB, of what differs besides slow changes of loudness.")
    modulation: float | None = Field(
        description="dB of slow changes of loudness over what is just heard, in 99 % of all moments and bands."
    )
    highest_modulation: float | None
    pesq: float | None
    stoi: float | None
    noise_to_mask: float | None = Field(description="In dB, of what differs besides slow changes of loudness.")
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


ManifestState = Literal["none", "trusted", "valid", "expired", "tampered", "remote"]
FITTING_STATES = ("trusted", "valid", "expired")
"""Those in which signature and content fit, whoever signed."""

VerdictStatus = Literal["authentic", "copied", "partial", "signed", "unknown", "unreadable", "unmarked", "none"]


class ManifestAnswer(_Strict):
    """What was found of a manifest."""

    state: ManifestState
    issuer: str | None
    authority: str | None
    record_ids: list[str]
    origin: str | None
    problems: list[str]
    beside: bool
    label: str | None


class CoarseManifestAnswer(_Strict):
    """What strangers are told of a manifest."""

    state: ManifestState
    issuer: str | None
    authority: str | None
    origin: str | None


class KnownRecordAnswer(_Strict):
    """The record to which a mark leads, for owners."""

    id: str
    created: str
    key_fingerprint: str
    model: str
    wire_format: int
    duration_seconds: float
    sha256: str
    signed: bool
    data: dict[str, Any]


class CoarseRecordAnswer(_Strict):
    """The record to which a mark leads, for strangers."""

    id: str
    created: str
    signed: bool


class VerifiedPlace(_Strict):
    """A stretch that is the recording of a record, in seconds."""

    start: float
    end: float
    record: str


class VerdictAnswer(_Strict):
    """Where audio comes from, for owners."""

    status: VerdictStatus
    reason: str
    record: KnownRecordAnswer | None
    issuer: str | None
    origin: str | None
    segments: list[VerifiedPlace]
    fingerprint_score: float | None
    manifest: ManifestAnswer
    detection: DetectionAnswer


class CoarseVerdictAnswer(_Strict):
    """Where audio comes from, for strangers; places in whole seconds."""

    status: VerdictStatus
    reason: str
    record: CoarseRecordAnswer | None
    issuer: str | None
    origin: str | None
    segments: list[VerifiedPlace]
    manifest: CoarseManifestAnswer


class MatchAnswer(_Strict):
    """A manifest that belongs to what was asked for."""

    manifestId: str
    similarityScore: int | None = Field(None, ge=0, le=100, description="Left out where nothing was compared.")


class MatchesAnswer(_Strict):
    """What was found for a binding or content."""

    matches: list[MatchAnswer]


class RecordAnswer(_Strict):
    """What everybody may know of a record."""

    id: str
    created: str
    message: str
    key_fingerprint: str
    wire_format: int
    model: str
    duration_seconds: float
    sha256: str
    fingerprint: str = Field(description="Of its audio, in base64.")
    manifest_id: str | None


class AlgorithmAnswer(_Strict):
    """A soft binding by its name."""

    alg: str


class AlgorithmsAnswer(_Strict):
    """The soft bindings that can be resolved."""

    watermarks: list[AlgorithmAnswer]
    fingerprints: list[AlgorithmAnswer]


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
    verifies: bool = Field(description="Whether there is a registry, so that /v1/verify and /v1/issue are there.")
    token_needed: bool = Field(description="Whether this caller needs a token for more than coarse answers.")


class HealthAnswer(_Strict):
    """The service runs."""

    status: Literal["ok"]
