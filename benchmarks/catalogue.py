"""Figures of catalogue jobs: kills, overhead, scaling, listening to less, the cache, and what a million hours cost.

    python benchmarks/catalogue.py faults --engine local|ray [--files 2000]
    python benchmarks/catalogue.py overhead --engine local|ray [--files 2000] [--seconds 8]
    python benchmarks/catalogue.py scaling [--files 400] [--seconds 8]
    python benchmarks/catalogue.py listening [--hours 1]
    python benchmarks/catalogue.py cache [--hours 10] [--keys 1000]
    python benchmarks/catalogue.py paper [--euros 0.04]

Each writes docs/results/catalogue-WHAT.json, from which `publish.py` makes the tables.
"""

import argparse
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from catalogue_faults import scan_under_kills

RESULTS = Path(__file__).parent.parent / "docs/results"


def main() -> None:
    """Measure one thing, print it, and write it down."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    faults = commands.add_parser("faults", help="workers and drivers killed, a bucket that is busy")
    faults.add_argument("--engine", choices=("local", "ray"), default="local")
    faults.add_argument("--files", type=int, default=2000)
    faults.add_argument("--shard-size", type=int, default=50)
    faults.add_argument("--drivers", type=int, default=4, help="drivers that are killed")
    faults.add_argument("--workers", type=int, default=12, help="workers that are killed")
    faults.add_argument("--pause", type=float, default=4.0, help="seconds between kills, on average")
    faults.add_argument("--busy", type=float, default=0.02, help="share of requests that the bucket refuses")
    faults.set_defaults(measure=measure_faults)
    for name, command in commands.choices.items():
        command.add_argument("--json", type=Path, default=RESULTS / f"catalogue-{name}.json")
    options = parser.parse_args()
    table = options.measure(options)
    print(json.dumps(table, indent=2))
    options.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


def measure_faults(options: argparse.Namespace) -> dict[str, Any]:
    """Both engines stand in one file, each as it was measured last."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = scan_under_kills(
            Path(folder),
            options.engine,
            options.files,
            options.shard_size,
            options.drivers,
            options.workers,
            options.pause,
            options.busy,
        )
    known = json.loads(options.json.read_text()) if options.json.exists() else {}
    return known | {options.engine: asdict(outcome)}


if __name__ == "__main__":
    main()
