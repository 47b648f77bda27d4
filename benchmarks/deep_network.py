"""The weights of the network that refines the deep layer's evidence.

    python benchmarks/deep_network.py FOLDER --lyra WEIGHTS [--seconds 420] [--weights src/ideaw/deep/refining.npz]

FOLDER holds clips for training, whose paths say speech or music; two that follow each other are joined. Each
piece is marked with a key of its own and attacked; the network learns the signs of its tiles. Every fifth piece is held
back, and tells the mean score of the right word in standard deviations. Nothing of what it is measured on elsewhere
belongs here.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))  # the rows of the other script

from deep_layer import Audio, attacks, mark

from ideaw.audio.grid import SAMPLE_RATE
from ideaw.deep.bands import NUM_MEL_BANDS, analyse, measuring_bands, powers
from ideaw.deep.decode import decode, fold
from ideaw.deep.evidence import match, whitened
from ideaw.deep.refining import MAX_LOG_WEIGHT
from ideaw.deep.signs import PERIOD_CELLS, PERIOD_TILES, TILE_CELLS, KeyPattern
from ideaw.deep.words import Word
from ideaw.payload.message import Message

ATTACKS = ("none", "Lyra 6", "GSM", "Opus 8 voip", "music at equal level", "noise")
"""What pieces go through; noise at 5 to 20 dB."""

NUM_PIECES = {"speech": 160, "music": 60}
"""Pieces of each kind, evenly spread over the folder."""

HIDDEN, KERNELS, EDGE_FRAMES, LEARNING_RATE = 8, ((9, 5), (5, 3)), 15, 4e-3
"""Channels, kernels in frames and bands, frames at both ends that are not learned from, and the first rate."""

MAX_DELAY_FRAMES = 8
"""Frames by which codecs may delay or advance audio."""


class Refiner(nn.Module):
    """As `ideaw.deep.refining` computes it: (batch, 3, frames, bands) → (batch, frames, bands)."""

    def __init__(self) -> None:
        super().__init__()
        (one, other), sizes = KERNELS, [(rows // 2, columns // 2) for rows, columns in KERNELS]
        self.first = nn.Conv2d(4, HIDDEN, one, padding=sizes[0])
        self.second = nn.Conv2d(HIDDEN, HIDDEN, other, padding=sizes[1])
        self.third = nn.Conv2d(HIDDEN, 2, 1)
        self.scale = nn.Parameter(torch.tensor(0.15))
        nn.init.zeros_(self.third.weight)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Log-likelihood ratios of signs."""
        places = torch.linspace(-1, 1, NUM_MEL_BANDS).expand(len(seen), 1, seen.shape[2], NUM_MEL_BANDS)
        hidden = torch.relu(self.second(torch.relu(self.first(torch.cat([seen, places], 1)))))
        log_weight, added = self.third(hidden).unbind(1)
        return self.scale * seen[:, 2] * torch.exp(log_weight.clamp(-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT)) + added

    def save(self, path: Path) -> None:
        """Write the weights as the package reads them."""
        layers = {1: self.first, 2: self.second, 3: self.third}
        stored = {f"kernel{number}": layer.weight.detach().numpy() for number, layer in layers.items()}
        stored |= {f"bias{number}": layer.bias.detach().numpy() for number, layer in layers.items()}
        stored["kernel3"] = stored["kernel3"][:, :, 0, 0]
        np.savez_compressed(path, **stored, scale=self.scale.detach().numpy())


def read_pieces(folder: Path, kind: str, count: int) -> list[Audio]:
    """Pairs of clips of a kind, evenly spread, up to 16 s each."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in {".ogg", ".flac", ".wav"} and kind in str(path))
    paths = paths[:: max(1, len(paths) // (2 * count))]
    clips = [soundfile.read(path)[0] for path in paths[: 2 * count]]
    return [np.concatenate(pair)[: 16 * SAMPLE_RATE] for pair in zip(clips[::2], clips[1::2], strict=False)]


def examples(
    pieces: list[Audio], lyra: Path
) -> Iterator[tuple[NDArray[np.float32], NDArray[Any], NDArray[np.float32]]]:
    """(3, frames, bands) of what the network sees, the frames at which tiles are centred, and their signs."""
    rows, rng = attacks(lyra), np.random.default_rng(0)
    rows["noise"] = lambda audio: audio + rng.normal(0, audio.std() * 10 ** (-rng.uniform(5, 20) / 20), len(audio))
    for piece in mark(pieces, "deep"):
        pattern, word = KeyPattern(piece.key), Word.of(Message(piece.message), piece.key)
        signs = pattern.modulate(word.symbols(pattern))
        _, found = decode(fold(_seen(piece.marked)[2]), pattern, [word])
        for name in ATTACKS:
            seen = _seen(rows[name](piece.marked))
            folded, tiles = fold(seen[2]), TILE_CELLS * np.arange(PERIOD_TILES) + TILE_CELLS // 2 + found.offset

            def agreement(delay: int, folded: Any = folded, tiles: Any = tiles, signs: Any = signs) -> float:
                return float((folded[(tiles + delay) % PERIOD_CELLS] * signs).sum())

            delay = max(range(-MAX_DELAY_FRAMES, MAX_DELAY_FRAMES + 1), key=agreement)
            first = found.offset + delay + TILE_CELLS // 2
            frames = np.arange(first % TILE_CELLS + 3 * TILE_CELLS, seen.shape[1] - EDGE_FRAMES, TILE_CELLS)
            yield seen, frames, signs[((frames - first) // TILE_CELLS) % PERIOD_TILES]


def _seen(audio: Audio) -> NDArray[np.float32]:
    white, share = whitened(powers(analyse(np.pad(audio, 240).astype(np.float32))) @ measuring_bands())
    linear = match(white, share)
    return np.stack([white, 2 * share - 1, linear / linear.std()])


def train(network: Refiner, learned: list[Any], seconds: float) -> None:
    """Follow the gradient of the log-likelihood of signs for so many seconds."""
    optimiser = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=1e-3)
    rng, begun, losses = np.random.default_rng(0), time.monotonic(), [0.0]
    while (passed := (time.monotonic() - begun) / seconds) < 1:
        for group in optimiser.param_groups:
            group["lr"] = LEARNING_RATE * max(0.02, 1 - passed)
        seen, frames, signs = learned[int(rng.integers(len(learned)))]
        evidence = network(torch.from_numpy(seen)[None])[0, frames]
        loss = nn.functional.softplus(-torch.from_numpy(signs) * evidence).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    print(f"{len(losses) - 1} steps, {np.mean(losses[-len(learned) :]) / np.log(2):.4f} bits a sign")


def score(network: Refiner, seen: NDArray[np.float32], frames: NDArray[Any], signs: NDArray[np.float32]) -> float:
    """Of the right signs, in standard deviations of a wrong key's."""
    with torch.no_grad():
        evidence = network(torch.from_numpy(seen)[None])[0, frames].numpy()
    return float((evidence * signs).sum() / np.linalg.norm(evidence))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lyra", type=Path, required=True, help="folder of Lyra's weights")
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--weights", type=Path, default=Path("src/ideaw/deep/refining.npz"))
    arguments = parser.parse_args()
    learned, held_back = [], {}
    for kind, count in NUM_PIECES.items():
        pieces = read_pieces(arguments.folder, kind, count)
        learned += examples([piece for place, piece in enumerate(pieces) if place % 5 != 4], arguments.lyra)
        held_back[kind] = list(examples(pieces[4::5], arguments.lyra))
    torch.manual_seed(0)
    network = Refiner()
    train(network, learned, arguments.seconds)
    for kind, heard in held_back.items():
        print(f"{kind}: {np.mean([score(network, *example) for example in heard]):.2f} standard deviations")
    network.save(arguments.weights)


if __name__ == "__main__":
    main()
