"""A process of its own that deletes a folder once whoever started it is gone: `python guard.py FOLDER <pipe`.

It runs without the package and its dependencies, so that it costs a few megabytes and no time.
"""

import shutil
import sys
import time
from pathlib import Path

GUARD_SECONDS = 30.0
"""How long it keeps trying, since a worker may write for another moment."""


def main() -> None:
    """Wait for the end of standard input, then delete the folder."""
    folder = Path(sys.argv[1])
    sys.stdin.buffer.read()
    deadline = time.monotonic() + GUARD_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
