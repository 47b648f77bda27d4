"""Measures what the locating code of an exported model does to log-magnitudes, and writes it into the model's folder.

    python benchmarks/code_response.py src/ideaw/weights/46+10

`ideaw export` does the same; this is for folders that were exported before. Of the packaged model, `PACKAGED_SHA256` in
`ideaw/models.py` then needs the printed hash.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np

from ideaw.models import RESPONSE_FILE
from ideaw.nets.model import Ideaw
from ideaw.train.export import load_weights
from ideaw.train.response import has_response, measure_response


def main() -> None:
    """Measure the model of the folder that is given."""
    folder = Path(sys.argv[1])
    model = load_weights(folder)
    if not isinstance(model, Ideaw) or not has_response(model.config):
        raise SystemExit(f"{folder} has no locating code that changes magnitudes")
    np.save(folder / RESPONSE_FILE, measure_response(model))
    print(hashlib.sha256((folder / RESPONSE_FILE).read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
