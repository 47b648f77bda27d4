"""The measured figures that the package carries: tables, how each was measured, and with which version."""

from dataclasses import dataclass
from importlib import resources

import msgspec

THIS_VERSION, NOT_MEASURED_YET = "this version", "not measured"
"""Ages of figures; all others are in words too, such as "an earlier engine"."""


@dataclass(frozen=True)
class Measurement:
    """A command, and what its figures were made with."""

    name: str
    command: str
    made_with: str


@dataclass(frozen=True)
class Figure:
    """A table that was measured; without rows where it was not."""

    sources: list[Measurement]
    heads: list[str]
    rows: list[list[str]]
    note: str

    @property
    def age(self) -> str:
        """With which version it was made, in words."""
        ages = {
            source.made_with: [s.name for s in self.sources if s.made_with == source.made_with]
            for source in self.sources
        }
        if len(ages) == 1:
            return next(iter(ages))
        return "; ".join(f"{age} ({', '.join(names)})" for age, names in ages.items())


@dataclass(frozen=True)
class Figures:
    """All of them.

    Attributes:
        source: digests of weights, wire format and engine to which "this version" refers.
        figures: name → table.
    """

    source: dict[str, str]
    figures: dict[str, Figure]


def read_figures() -> Figures:
    """The figures of this version."""
    content = resources.files("ideaw.evidence").joinpath("figures.json").read_bytes()
    return msgspec.json.decode(content, type=Figures)
