"""What marks carry under wire format 1 never changes by one bit: carriers, codes and messages, down to a hash."""

import hashlib
from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

from ideaw.deep.signs import KeyPattern
from ideaw.deep.words import Word
from ideaw.engine.network import Network
from ideaw.engine.plan import plan_message
from ideaw.keys import PUBLIC, Key
from ideaw.models import find_model, model_names
from ideaw.modem.channel import WIRE_FORMAT
from ideaw.modem.keyed import encipher
from ideaw.modem.ring_code import RingCode
from ideaw.payload.message import Content, Message

KEY = Key(bytes(range(32)))

SHORT: dict[str, tuple[Content, ...]] = {
    "46+10": ("ab12", b"\x00\xff", (0, 1, 1), (0, 1) * 16),
    "22+10": ("a", b"\xff", (0, 1, 1)),
    "10+10": ((1, 0), (0, 1, 1, 0)),
}
LONG: tuple[Content, ...] = ("track-0042", b"\x00\x01\x02\x03\x04\x05", (1, 0, 0) * 20)


CARRIERS = {
    "46+10": "cafc98244b3d08eee6e0faad4432bf22",
    "22+10": "1204c178ca9c339378c4f5cb2444fb46",
    "10+10": "3b8c0ea24e6f08dbf685c906fcbd7530",
}
MESSAGES = {
    "46+10": "89059ce137406d3758bb7a2ee8e959cc",
    "22+10": "e804b8c933c75168eacf167449ae134b",
    "10+10": "236c54756cccd8a7884db31cf8a83cd7",
}
CIPHERED = "111111000000110001110011001100011011110000000000"
STRIDE, CODED = 133, "8324891b26d16a2bc418d0ab67215330"
DEEP = "72095c87b4683f65730f0cb654840951"


def digest(signs: Iterable[NDArray[np.floating]]) -> str:
    """Of signs in their order: a bit each, set where positive."""
    content = b"".join(np.packbits(np.asarray(part).ravel() > 0).tobytes() for part in signs)
    return hashlib.sha256(content).hexdigest()[:32]


def test_every_model_speaks_format_1() -> None:
    assert WIRE_FORMAT == 1
    assert {find_model(name).card.wire_format for name in model_names()} == {1}


@pytest.mark.parametrize(("model", "expected"), CARRIERS.items())
def test_carriers_never_change(model: str, expected: str) -> None:
    network = Network(find_model(model))
    parts = []
    for key in (PUBLIC, KEY):
        channels = network.channels(key)
        for channel in (channels.message, channels.code):
            slots = channel.carriers.slots
            parts.append(channel.carriers.modulate(np.ones(slots)))
            parts += [channel.carriers.modulate(1.0 - 2 * (np.arange(slots) >> place & 1)) for place in range(10)]
        parts.append(channels.code_symbols)
    assert digest(parts) == expected


@pytest.mark.parametrize(("model", "expected"), MESSAGES.items())
def test_what_seconds_say_never_changes(model: str, expected: str) -> None:
    network = Network(find_model(model))
    contents = SHORT[model] + (LONG if network.card.message_bits >= 22 else ())
    plans = [
        plan_message(Message(content), network.channels(key), network.card.message_bits)
        for key in (PUBLIC, KEY)
        for content in contents
    ]
    assert digest(plan.symbols for plan in plans) == expected


def test_code_and_cipher_never_change() -> None:
    bits = np.resize(np.array([1, 0, 0, 1, 1, 0, 1], np.uint8), 48)
    assert "".join(map(str, encipher(bits, KEY))) == CIPHERED
    code = RingCode(216)
    assert code.stride == STRIDE
    assert digest([code.encode(np.resize(bits, 216))[code.places(np.arange(5_000))]]) == CODED


def test_the_deep_layer_never_changes() -> None:
    parts = []
    for key in (PUBLIC, KEY):
        pattern = KeyPattern(key)
        for content in ("ab", b"\x00\xff\x10", (0, 1, 1), "a text of no length"):
            parts.append(pattern.modulate(Word.of(Message(content), key).symbols(pattern)))
    assert digest(parts) == DEEP
