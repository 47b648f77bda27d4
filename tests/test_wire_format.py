"""What marks carry under wire format 1 never changes by one bit: carriers, codes and messages, down to a hash."""

import hashlib
import hmac
from collections.abc import Iterable
from math import gcd

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
    "46+10": "0fac0f54c4700da90a1fcbb2d131e5d1",
    "22+10": "e804b8c933c75168eacf167449ae134b",
    "10+10": "236c54756cccd8a7884db31cf8a83cd7",
}
CIPHERED = "111111000000110001110011001100011011110000000000"
STRIDE, CODED = 133, "8324891b26d16a2bc418d0ab67215330"
DEEP = "4c42c32df992c4c6bf9337ce0b2b4115"


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


# Another implementation, written from docs/wire-format.md alone: what it makes must be what the package makes.

POLYNOMIALS = "6E5 5FB 59D 5D1 675 6F9 6C7 7D5 4D7 65F 5DD 72B 7D3 5CD 657 6F9 7B5 6A7"


def _hmac(key: bytes, label: str) -> bytes:
    return hmac.new(key, label.encode(), "sha256").digest()


def _shake(data: bytes, bits: int) -> list[int]:
    return [byte >> place & 1 for byte in hashlib.shake_256(data).digest(-(-bits // 8)) for place in range(7, -1, -1)][
        :bits
    ]


def _signs(key: bytes, label: str, count: int, data: bytes = b"") -> list[int]:
    return [1 - 2 * bit for bit in _shake(_hmac(key, label) + data, count)]


def _coded(word: list[int]) -> bytes:
    padded = word + [0] * (-len(word) % 8)
    packed = [int("".join(map(str, padded[first : first + 8])), 2) for first in range(0, len(padded), 8)]
    return len(word).to_bytes(2, "big") + bytes(packed)


def _enciphered(word: list[int], key: bytes) -> list[int]:
    secret = _hmac(key, "wire format 1: cipher")
    left, right = word[: len(word) // 2], word[len(word) // 2 :]
    for number in range(10):
        drawn = _shake(secret + bytes([number, len(left) % 2]) + _coded(right), len(left))
        left, right = right, [one ^ other for one, other in zip(left, drawn, strict=True)]
    return left + right


def _ring_slots(word: list[int], first: int, count: int) -> list[int]:
    polynomials = [int(digits, 16) for digits in POLYNOMIALS.split()]
    bits = len(word)
    stride = next(s for s in range(int((5**0.5 - 1) / 2 * bits), bits) if gcd(s, bits) == 1)
    slots = []
    for slot in range(first, first + count):
        step, polynomial = slot % bits * stride % bits, polynomials[slot // bits % 18]
        slots.append(2 * (sum(word[(step - i) % bits] * (polynomial >> i & 1) for i in range(11)) % 2) - 1)
    return slots


@pytest.mark.parametrize("key", [PUBLIC, KEY])
def test_the_document_tells_what_every_second_of_a_short_message_carries(key: Key) -> None:
    network = Network(find_model("46+10"))
    bits = [int(digit) for digit in "000" + "".join(f"{byte:08b}" for byte in b"ab1\xff")]
    word = _enciphered(bits + [0] * 13, key)
    tag = _signs(key, "wire format 1: tag of a short message", 72, _coded(word))
    symbols = plan_message(Message("ab1"), network.channels(key), 46).symbols
    assert symbols.tolist() == [_ring_slots(word, 0, 480) + tag]
    few = Network(find_model("10+10"))
    rows = _signs(key, "wire format 1: words", 128 * 540)
    number = int("101" + "0110", 2)
    assert plan_message(Message((0, 1)), few.channels(key), 10).symbols[0].tolist() == rows[540 * number :][:540]


@pytest.mark.parametrize("key", [PUBLIC, KEY])
def test_the_document_tells_what_the_seconds_of_a_long_message_carry(key: Key) -> None:
    network, data = Network(find_model("22+10")), "zehn Zähne".encode()
    bits = [int(digit) for digit in "00000" + "".join(f"{byte:08b}" for byte in data)]
    word = _enciphered(bits + [0] * 51, key)
    lengths = _signs(key, "wire format 1: lengths", 763 * 48)[48 * (len(data) - 1) :][:48]
    masks = _signs(key, "wire format 1: masks of phases", 64 * 528)
    symbols = plan_message(Message("zehn Zähne"), network.channels(key), 22).symbols
    for phase in (0, 1, 63):
        plain = lengths + _ring_slots(word, phase * 480, 480)
        expected = [one * other for one, other in zip(plain, masks[528 * phase :][:528], strict=True)]
        assert symbols[phase].tolist() == expected


def test_the_document_tells_where_slots_lie() -> None:
    channels, slots, tiles = Network(find_model("46+10")).channels(KEY), 552, 16 * 120 + 8 * 120
    rounds = -(-tiles // slots)
    drawn = hashlib.shake_256(_hmac(KEY, "carriers of the message of 46+10")).digest(8 * rounds * slots)
    deals = []
    for row in range(rounds):
        numbers = [int.from_bytes(drawn[8 * (slots * row + i) :][:8], "little") for i in range(slots)]
        order = sorted(range(slots), key=numbers.__getitem__)
        deals += [(slot, 1 - 2 * (number & 1)) for slot, number in zip(order, numbers, strict=True)]
    places = [(frame, 4, pair) for pair in range(120) for frame in range(0, 64, 4)]
    places += [(frame, 8, pair) for pair in range(120, 240) for frame in range(0, 64, 8)]
    values = np.random.default_rng(0).choice([-1.0, 1.0], slots)
    stream = np.zeros((64, 480))
    for (frame, length, pair), (slot, sign) in zip(places, deals, strict=False):
        stream[frame : frame + length, 2 * pair : 2 * pair + 2] = sign * values[slot]
    assert np.array_equal(channels.message.carriers.stream(values), stream)


def test_the_document_tells_the_locating_code() -> None:
    rows: list[list[int]] = []
    sums = [([0] * 270, 0)]
    for row in range(10):
        drawn = _shake(f"ideaw block code 10 540 {row}".encode(), 64 * 640)
        candidates = [[1] * 270, *(drawn[640 * number :][:270] for number in range(1, 64))]
        known, weights = np.array([word for word, _ in sums]), np.array([weight for _, weight in sums])
        distances = [(known != candidate).sum(1) + weights + 27 for candidate in np.array(candidates)]
        best = max(range(64), key=lambda n: (distances[n].min(), -(distances[n] == distances[n].min()).sum(), -n))
        rows.append(candidates[best])
        sums += [([a ^ b for a, b in zip(word, candidates[best], strict=True)], weight + 27) for word, weight in sums]
    bits = [byte >> place & 1 for byte in _hmac(KEY, "locating code") for place in range(7, -1, -1)][:10]
    parities = [sum(bit * row[column] for bit, row in zip(bits, rows, strict=True)) % 2 for column in range(270)]
    assert Network(find_model("46+10")).channels(KEY).code_symbols.tolist() == [2 * x - 1 for x in bits * 27 + parities]


@pytest.mark.parametrize("key", [PUBLIC, KEY])
def test_the_document_tells_what_the_tiles_of_the_deep_layer_carry(key: Key) -> None:
    drawn = hashlib.shake_256(_hmac(key, "deep places")).digest(8 * 1920)
    numbers = [int.from_bytes(drawn[8 * tile :][:8], "little") for tile in range(1920)]
    order = sorted(range(1920), key=numbers.__getitem__)
    signs, masks = _signs(key, "deep signs", 1920), _signs(key, "deep kinds", 1024)
    mac = hmac.new(_hmac(key, "deep tag"), b"text" + (5).to_bytes(8, "big") + b"abcde", "sha256").digest()
    bits = _enciphered([int(digit) for byte in b"abc" for digit in f"{byte:08b}"], key)
    content = bytes(int("".join(map(str, bits[first : first + 8])), 2) for first in range(0, 24, 8))
    for message, kind, data in ((b"abc", 3, content), ("abcde", 7, mac[:2])):
        rows = [[(-1) ** (byte >> 7) * (-1) ** ((byte & 127 & n).bit_count()) for n in range(128)] for byte in data]
        rows[0] = [one * other for one, other in zip(rows[0], masks[128 * kind :][:128], strict=True)]
        word = [symbol for row in rows for symbol in row]
        symbols = [word[n % len(word)] for n in range(1792)] + _signs(key, "deep check", 128, bytes([kind]) + data)
        tiles = [0] * 1920
        for place, sign, symbol in zip(order, signs, symbols, strict=True):
            tiles[place] = sign * symbol
        pattern = KeyPattern(key)
        written = pattern.modulate(Word.of(Message(message), key).symbols(pattern))
        assert written.ravel().tolist() == tiles
